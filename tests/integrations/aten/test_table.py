"""Every row of the ATen table means what torch computes, in type and sizes too."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch

from fuser import FusionDefinition
from fuser.errors import ArgumentTypeError
from fuser.integrations.aten import RANDOM, TABLE
from fuser.integrations.aten.lowering import Lowering
from fuser.integrations.aten.row import parameters, schema
from fuser.integrations.partitions.support import Role
from fuser.ir.pointwise import TABLE as POINTWISE
from tests.integrations.aten.cases import CASES, REFUSED, b, f, i
from tests.integrations.graphs import eager, interpreted, support_of

SPECIAL = {target for target, _, _ in CASES}
PLAIN = [target for target in TABLE if target not in SPECIAL | RANDOM]
SAMPLES = {"float32": f(3, 4), "bfloat16": f(4, dtype=torch.bfloat16), "int64": i(3, 4, low=1)}
SAMPLES |= {"bool": b(3, 1), "scalar": torch.tensor(2.0)}


def close(got: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        # Where torch rounds to 16 bits in between, the partition does not.
        torch.testing.assert_close(ours, theirs, equal_nan=True)


@pytest.mark.parametrize(
    ("target", "args", "kwargs"), CASES, ids=[f"{n}-{c[0]}" for n, c in enumerate(CASES)]
)
def test_a_row_is_what_torch_computes(target: Any, args: Any, kwargs: Any) -> None:
    assert support_of(target, *args, **kwargs).reason == ""
    close(interpreted(target, *args, **kwargs), eager(target, *args, **kwargs))


@pytest.mark.parametrize("target", PLAIN, ids=str)
def test_a_plain_row_is_what_torch_computes_for_all_types(target: Any) -> None:
    assert set(parameters(target)) == TABLE[target].takes
    tried = 0
    for samples in itertools.product(SAMPLES.values(), repeat=2):
        tensors = iter(samples)
        kinds = [str(argument.type) for argument in schema(target)]
        args = [next(tensors, f(3, 4)) if kind == "Tensor" else 2 for kind in kinds]
        try:
            expected = eager(target, *args)
        except (RuntimeError, TypeError):
            continue  # torch refuses these types
        found = support_of(target, *args)
        if found.role is Role.TORCH:
            assert "operand dtypes" in found.reason
            continue
        tried += 1
        close(interpreted(target, *args), expected)
    assert tried >= 1


@pytest.mark.parametrize("target", sorted(RANDOM, key=str), ids=str)
def test_random_numbers_follow_the_seed(target: Any) -> None:
    like = "like" in str(target)
    args = (f(50, 40),) if like else ([50, 40],)
    torch.manual_seed(1)
    (first,) = interpreted(target, *args)
    torch.manual_seed(1)
    (again,) = interpreted(target, *args)
    (other,) = interpreted(target, *args)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    (theirs,) = eager(target, *args)
    assert (first.shape, first.dtype) == (theirs.shape, theirs.dtype)
    assert abs(first.mean() - theirs.mean()) < 0.1
    assert abs(first.std() - theirs.std()) < 0.1


@pytest.mark.parametrize(("call", "reason"), REFUSED, ids=lambda given: str(given)[:40])
def test_what_is_not_covered_has_a_reason(call: Any, reason: str) -> None:
    target, args, kwargs = call
    found = support_of(target, *args, **kwargs)
    assert found.role is Role.TORCH
    assert reason in found.reason


def test_a_number_in_the_place_of_a_tensor_is_said() -> None:
    with FusionDefinition() as fd, pytest.raises(ArgumentTypeError, match=r"a tensor, got 2\.0"):
        Lowering(fd).tensor(2.0)


def test_the_pointwise_table_is_reached_through_aten() -> None:
    names = {str(target).split(".")[1] for target in TABLE}
    ours = {"erfcinv", "mod", "segment_set", "set", "logical_right_shift", "add_alpha", "sub_alpha"}
    ours |= {"truediv", "isreal", "imag", "real", "float4_pair", "float4_low", "float4_high"}
    ours |= {"bits", "float_of_bits", "double_of_bits"}  # of a view as another type
    assert POINTWISE.keys() - names == ours


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: torch.nn.functional.leaky_relu(x, 1 / n),
        torch.nn.functional.elu,
        lambda x, n: torch.nn.functional.elu(x, n / 2) * x.var(0, correction=n - 1),
    ],
    ids=["leaky_relu", "elu", "var"],
)
def test_numbers_are_known_at_the_call_only(function: Any) -> None:
    run = torch.compile(function, backend="fuser", dynamic=True)
    for rows, number in ((5, 2), (7, 3), (6, 4)):
        x = f(rows, 4)
        torch.testing.assert_close(run(x, number), function(x, number))


def test_torch_computes_what_a_row_fails_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> Any:
        raise TypeError("a mistake")

    broken = replace(TABLE[torch.ops.aten.erf.default], lower=failing)
    monkeypatch.setitem(TABLE, torch.ops.aten.erf.default, broken)
    with pytest.raises(TypeError, match="a mistake"):
        support_of(torch.ops.aten.erf.default, f(3))
    monkeypatch.delenv("FUSER_STRICT")
    found = support_of(torch.ops.aten.erf.default, f(3))
    assert (found.role, found.reason) == (Role.TORCH, "TypeError: a mistake")
