"""Sums of rows that differ from one number at one place only are not swept."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import IndexOutOfRangeError
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret

ROWS, COLUMNS = 5, 7
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
    return any("sum" in name.split("=")[-1] for kernel in plan.kernels for name in kernel.operations)


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
        for _ in range(3000):
            y = fd.ops.neg(y) * 1.5
        fd.add_output(fd.ops.sum(y, [1]))
    assert fd.plan([torch.empty(4, 6, device="meta")], target="cpu").kernels
