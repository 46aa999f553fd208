"""Sums of rows that differ from one number at one place only are not swept."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.errors import IndexOutOfRangeError
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Expand, Full, Fusion, Reduce, Scatter, Value
from fuser.ir.shapes import with_size
from fuser.passes.one_hot_sums import take_one_hot_sums
from fuser.passes.scatter_where import compare_in_scatters
from tests.definitions import agrees
from tests.passes.drafts import random_tensor
from tests.passes.rewriting import Draft, names, rewritten

ROWS, COLUMNS = 11, 7
Make = Callable[[FusionDefinition, Handle, Handle], Handle]


def hot(fd: FusionDefinition, index: Handle, value: Handle | float = -1.0) -> Handle:
    zeros = fd.ops.full([ROWS, COLUMNS], 0.0, DataType.Float)
    return fd.ops.scatter(zeros, index, value, 1)


def alone(fd: FusionDefinition, index: Handle, row: Handle) -> Handle:
    return fd.ops.sum(hot(fd, index), [1])


def scaled(fd: FusionDefinition, index: Handle, row: Handle) -> Handle:
    return fd.ops.sum(hot(fd, index) * row, [1], keepdim=True)


def of_tensors(fd: FusionDefinition, index: Handle, row: Handle) -> Handle:
    return fd.ops.sum(fd.ops.exp(hot(fd, index, row)) + 2.0, [1])


def mean(fd: FusionDefinition, index: Handle, row: Handle) -> Handle:
    return fd.ops.mean(hot(fd, index) - row, [1])


def in_16_bits(fd: FusionDefinition, index: Handle, row: Handle) -> Handle:
    return fd.ops.sum(fd.ops.cast(hot(fd, index) * row, DataType.BFloat16), [1])


def twice(fd: FusionDefinition, index: Handle, row: Handle) -> Handle:
    one = hot(fd, index)
    return fd.ops.sum(one * one + one * row, [1])


def of_everything(fd: FusionDefinition, index: Handle, row: Handle) -> Handle:
    return fd.ops.sum(hot(fd, index) * row)


def over_the_rows(fd: FusionDefinition, index: Handle, row: Handle) -> Handle:
    return fd.ops.sum(hot(fd, index) * row, [0])


def of_other_places(fd: FusionDefinition, index: Handle, row: Handle) -> Handle:
    other = fd.ops.where(fd.ops.ge(index, 3), 0, index)
    return fd.ops.sum(hot(fd, index) + hot(fd, other), [1])


def of_a_varying_row(fd: FusionDefinition, index: Handle, row: Handle) -> Handle:
    columns = fd.ops.iota(COLUMNS, 0, 1, DataType.Float)
    return fd.ops.sum(hot(fd, index) * fd.ops.broadcast(columns, [True, False]), [1])


def unchecked(fd: FusionDefinition, index: Handle, row: Handle) -> Handle:
    columns = fd.ops.broadcast(fd.ops.iota(COLUMNS, 0, 1, DataType.Int), [True, False])
    return fd.ops.sum(fd.ops.where(fd.ops.eq(columns, index - 3), row, 0.0), [1])


def definition(make: Make) -> FusionDefinition:
    with FusionDefinition() as fd:
        index = fd.define_tensor([ROWS, 1], dtype=DataType.Int, contiguity=True)
        row = fd.define_tensor([ROWS, 1], contiguity=True)
        fd.add_output(make(fd, index, row))
    return fd


def given(special: float | None = None) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    row = torch.randn(ROWS, 1, generator=generator)
    if special is not None:
        row[2] = special
    return [torch.randint(0, COLUMNS, (ROWS, 1), generator=generator), row]


def sweeps(make: Make) -> bool:
    plan = definition(make).plan(given(), target="cpu")
    return any(
        "sum" in name.split("=")[-1] for kernel in plan.kernels for name in kernel.operations
    )


@pytest.mark.parametrize("make", [alone, scaled, of_tensors, mean, in_16_bits, twice])
@pytest.mark.parametrize("special", [None, torch.inf, -torch.inf, torch.nan, -0.0, 1e38])
def test_a_sum_of_two_values_is_no_sweep(make: Make, special: float | None):
    inputs = given(special)
    fd = definition(make)
    expected = interpret(fd.fusion, inputs)
    got = fd.execute(inputs)
    assert torch.allclose(got[0].float(), expected[0].float(), rtol=1e-2, equal_nan=True)
    assert got[0].shape == expected[0].shape
    assert got[0].dtype == expected[0].dtype
    assert not sweeps(make)


@pytest.mark.parametrize(
    "make", [of_everything, over_the_rows, of_other_places, of_a_varying_row, unchecked]
)
def test_other_sums_are(make: Make):
    inputs = given()
    fd = definition(make)
    assert torch.allclose(fd.execute(inputs)[0], interpret(fd.fusion, inputs)[0], atol=1e-5)
    assert sweeps(make)


def test_an_index_out_of_range_is_still_reported():
    index, row = given()
    index[3] = COLUMNS
    with pytest.raises(IndexOutOfRangeError, match="scatter"):
        definition(scaled).execute([index, row])


def test_a_chain_of_any_length_is_searched():
    with FusionDefinition() as fd:
        x = fd.define_tensor([4, 6], contiguity=True)
        y = x
        for _ in range(1500):
            y = fd.ops.neg(y) * 1.5
        fd.add_output(fd.ops.sum(y, [1]))
    assert fd.plan([torch.empty(4, 6, device="meta")], target="cpu").kernels


# -- operands of fewer dimensions, which are aligned at the last one ------------------------------

Lower = Callable[[FusionDefinition, Handle, Handle], Handle]


def scattered_over(fd: FusionDefinition, index: Handle, shape: list[int], dim: int) -> Handle:
    return fd.ops.scatter(fd.ops.full(shape, 0.0, DataType.Float), index, 2.0, dim)


def one_hot_of_a_row(fd: FusionDefinition, index: Handle, weight: Handle) -> Handle:
    one = scattered_over(fd, index, [COLUMNS], 0)
    other = fd.ops.expand(fd.ops.broadcast(weight, [True, False]), [ROWS, COLUMNS])
    return fd.ops.sum(one * other, [0])


def weighted_along_a_row(fd: FusionDefinition, index: Handle, weight: Handle) -> Handle:
    one = scattered_over(fd, fd.ops.broadcast(index, [True, False]), [1, COLUMNS], 1)
    return fd.ops.sum(one * weight, [1])


def weighted_across_rows(fd: FusionDefinition, index: Handle, weight: Handle) -> Handle:
    rows = fd.ops.expand(fd.ops.broadcast(index, [True, False]), [1, COLUMNS])
    one = scattered_over(fd, rows, [ROWS, COLUMNS], 0)
    return fd.ops.sum(one * weight - 1.0, [0])


def by_lower_one_hots(fd: FusionDefinition, index: Handle, weight: Handle) -> Handle:
    one = scattered_over(fd, index, [COLUMNS], 0)
    row = fd.ops.broadcast(weight, [False, True])
    return fd.ops.sum(one + row, [1], keepdim=True)


def lower(make: Lower) -> tuple[FusionDefinition, list[torch.Tensor]]:
    with FusionDefinition() as fd:
        index = fd.define_tensor([1], dtype=DataType.Int, contiguity=True)
        weight = fd.define_tensor([COLUMNS], contiguity=True)
        fd.add_output(make(fd, index, weight))
    return fd, [torch.tensor([3]), torch.arange(1.0, 1 + COLUMNS)]


@pytest.mark.parametrize(
    ("make", "is_swept"),
    [
        (one_hot_of_a_row, True),
        (weighted_along_a_row, True),
        (weighted_across_rows, False),
        (by_lower_one_hots, False),
    ],
)
def test_operands_are_aligned_at_the_last_dimension(make: Lower, is_swept: bool):
    fd, inputs = lower(make)
    agrees(fd, inputs, "cpu")
    names_of = [name for k in fd.plan(inputs, target="cpu").kernels for name in k.operations]
    assert any("sum" in name.split("=")[-1] for name in names_of) == is_swept


def broadcasting(rng: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`, of any rank down to 1."""
    return tuple(1 if rng.random() < 0.3 else n for n in shape[rng.randrange(len(shape)) :])


def operand(rng: random.Random, draft: Draft, shape: tuple[int, ...]) -> Value:
    """An input, an expanded one or a constant, that broadcasts to `shape`."""
    own = broadcasting(rng, shape)
    match rng.randrange(4):
        case 0:
            return draft.add(Full(own, draft.number(3), DataType.Float))
        case 1:
            small = tuple(1 if rng.random() < 0.5 else n for n in own)
            return draft.add(Expand(draft.tensor(random_tensor(rng, small, DataType.Float)), own))
        case _:
            return draft.tensor(random_tensor(rng, own, DataType.Float))


def draft_of_sum(rng: random.Random) -> Draft:
    """A sum of a scattered tensor's products with what it is broadcast with."""
    shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 3)))
    draft = Draft()
    own = broadcasting(rng, shape)
    dim = rng.randrange(len(own))
    index = draft.tensor(torch.randint(0, own[dim], with_size(own, dim)))
    data = draft.add(Full(own, draft.number(rng.randrange(2)), DataType.Float))
    value = draft.add(Scatter(data, index, draft.number(2.0, DataType.Double), dim, "scatter"))
    for _ in range(rng.randrange(3)):
        pair = [value, operand(rng, draft, shape)]
        rng.shuffle(pair)
        value = draft.pointwise(rng.choice(["add", "mul", "sub"]), *pair)
    along = rng.randrange(len(value.shape))
    return draft.out(draft.add(Reduce("sum", value, (along,), rng.random() < 0.5)))


def sums_taken(fusion: Fusion) -> Fusion:
    return take_one_hot_sums(compare_in_scatters(fusion))


@drawn(st.integers(0, 10**6))
@settings(max_examples=400, deadline=None)
def test_sums_of_any_operands_stay_what_they_are(seed: int):
    rewritten(sums_taken, draft_of_sum(random.Random(seed)))


def test_many_of_them_are_taken():
    drafts = (draft_of_sum(random.Random(seed)) for seed in range(200))
    taken = sum("sum" not in names(sums_taken(draft.fusion)) for draft in drafts)
    assert taken > 30
