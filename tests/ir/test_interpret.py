"""The oracle: every operation class is what torch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
import torch

from fuser import FusionDefinition
from fuser.ir.builder import FusionBuilder
from fuser.ir.dtypes import DataType, from_torch
from fuser.ir.interpret import interpret
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Cat,
    CheckIndex,
    Constant,
    Expand,
    Extern,
    Flip,
    Full,
    Gather,
    GeneratorState,
    Iota,
    Operation,
    Pad,
    Permute,
    Pointwise,
    Random,
    Reduce,
    Scan,
    Scatter,
    SizeOf,
    Slice,
    Squeeze,
    StrideOrder,
    Value,
    View,
)
from fuser.ir.types import ScalarType, TensorType

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
I = torch.tensor([[2, 0, 1, 1], [0, 1, 2, 2]])  # noqa: E741
Make = Callable[[Value, Value, Value], Operation]

CASES: list[tuple[Make, object]] = [
    (lambda x, i, s: Constant(2, DataType.Int), torch.tensor(2)),
    (lambda x, i, s: SizeOf(x, 1), torch.tensor(4)),
    (lambda x, i, s: Pointwise("mul", (x, s)), X * 0.5),
    (lambda x, i, s: Pointwise("add", (s, s)), torch.tensor(1.0, dtype=torch.float64)),
    (lambda x, i, s: Cast(x, DataType.Half), X.half()),
    (lambda x, i, s: View(x, (2, -1)), X.reshape(2, 6)),
    (lambda x, i, s: Permute(x, (1, 0)), X.t()),
    (lambda x, i, s: Broadcast(x, (False, True, False)), X[:, None]),
    (lambda x, i, s: Expand(x, (-1, 4)), X),
    (lambda x, i, s: Squeeze(x, ()), X),
    (lambda x, i, s: Slice(x, (1, 0), (9, 4), (1, 2)), X[1:, ::2]),
    (lambda x, i, s: Flip(x, (1,)), X.flip(1)),
    (lambda x, i, s: StrideOrder(x, (0, 1)), X),
    (lambda x, i, s: Full((2,), s, DataType.Float), torch.full((2,), 0.5)),
    (lambda x, i, s: Iota(3, s, s, DataType.Float), torch.tensor([0.5, 1.0, 1.5])),
    (lambda x, i, s: Reduce("sum", x, (0,), dtype=DataType.Int), X.long().sum(0)),
    (lambda x, i, s: Reduce("sum", x, (1,), dtype=DataType.Half), X.sum(1).half()),
    (lambda x, i, s: Reduce("var_mean", x, (0, 1)), torch.var_mean(X)),
    (lambda x, i, s: Reduce("prod", x, (0, 1), keepdim=True), X.prod().reshape(1, 1)),
    (lambda x, i, s: Reduce("prod", i, (0,)), I.prod(0)),
    (lambda x, i, s: Scan("cumsum", i, 1), I.cumsum(1)),
    (lambda x, i, s: Scan("cummin", x, 1), X.cummin(1).values),
    (lambda x, i, s: Scan("cumsum", i, 1, reverse=True), I.flip(1).cumsum(1).flip(1)),
    (
        lambda x, i, s: Pad(x, ((1, 0), (0, -1)), s),
        torch.nn.functional.pad(X, (0, -1, 1, 0), value=0.5),
    ),
    (lambda x, i, s: Cat((x, x), 1), torch.cat([X, X], 1)),
    (lambda x, i, s: Gather("gather", x, i, 0), X.gather(0, I)),
    (lambda x, i, s: Gather("take_along_axis", x, i, 0), X.gather(0, I)),
    (lambda x, i, s: Scatter(x, i, s, 0), X.scatter(0, I, 0.5)),
    (lambda x, i, s: Scatter(x, i, x, 0), X.scatter(0, I, X)),
    (lambda x, i, s: Scatter(x, i, x, 0, "scatter_add"), X.scatter_add(0, I, X)),
    (lambda x, i, s: CheckIndex(i, 3, "gather"), I),
    (lambda x, i, s: Extern("linear", (x, x)), X @ X.t()),
    (lambda x, i, s: Extern("topk", (x,), (2, 1, True, True)), tuple(X.topk(2))),
]


def evaluate_one(make: Make) -> tuple[Operation, list[torch.Tensor]]:
    builder = FusionBuilder()
    x = builder.input(TensorType(DataType.Float, (3, 4)))
    index = builder.input(TensorType(DataType.Int, (2, 4)))
    scalar = builder.input(ScalarType(DataType.Double))
    op = make(x, index, scalar)
    outs = builder.add(op)
    for out in outs:
        builder.output(out)
    results = interpret(builder.fusion, [X, I, 0.5])
    for out, result in zip(outs, results, strict=True):
        assert from_torch(result.dtype) is out.dtype
        assert tuple(result.shape) == out.shape
    return op, results


@pytest.mark.parametrize("case", range(len(CASES)))
def test_operation_is_torchs(case: int) -> None:
    make, expected = CASES[case]
    listed = list(expected) if isinstance(expected, tuple) else [expected]  # pyright: ignore
    for result, want in zip(evaluate_one(make)[1], listed, strict=True):
        torch.testing.assert_close(result, want)


def test_every_operation_class_is_tested() -> None:
    tested = {type(evaluate_one(make)[0]) for make, _ in CASES}
    elsewhere = {Random, GeneratorState}  # test_random_numbers.py
    assert set(get_args(Operation)) - tested == elsewhere


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("mode", ["gather", "take_along_axis", "index_select"])
def test_both_index_types(dtype: torch.dtype, mode: str) -> None:
    index = I[0].to(dtype) if mode == "index_select" else I.to(dtype)
    builder = FusionBuilder()
    x = builder.input(TensorType(DataType.Float, (3, 4)))
    element = from_torch(dtype)
    assert element is not None
    i = builder.input(TensorType(element, tuple(index.shape)))
    builder.output(*builder.add(Gather(mode, x, i, 0)))
    (out,) = interpret(builder.fusion, [X, index])
    expected = X[I[0]] if mode == "index_select" else X.gather(0, I)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("widths", [((0, 2), (1, 3)), ((-1, 2), (1, -2)), ((-1, -2), (0, 0))])
@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Bool, DataType.Half, DataType.Int])
def test_pad_is_torchs(widths: tuple[tuple[int, int], ...], dtype: DataType) -> None:
    builder = FusionBuilder()
    x = builder.input(TensorType(dtype, (3, 4)))
    fill = builder.input(ScalarType(DataType.Int))
    builder.output(*builder.add(Pad(x, widths, fill)))
    given = X.to(dtype.torch)
    (out,) = interpret(builder.fusion, [given, 1])
    flat = [width for pair in reversed(widths) for width in pair]
    assert torch.equal(out, torch.nn.functional.pad(given, flat, value=1))


def test_pad_of_complex_numbers() -> None:
    builder = FusionBuilder()
    x = builder.input(TensorType(DataType.ComplexFloat, (1,)))
    fill = builder.input(ScalarType(DataType.ComplexDouble))
    builder.output(*builder.add(Pad(x, ((1, 0),), fill)))
    (out,) = interpret(builder.fusion, [torch.tensor([2j]), 1 + 1j])
    assert out.tolist() == [1 + 1j, 2j]


@pytest.mark.parametrize("dtype", list(DataType))
@pytest.mark.parametrize("op", ["sum", "prod", "max", "any", "all", "argmax", "mean", "var_mean"])
@pytest.mark.parametrize("dims", [(0,), (0, 1), (1,)])
def test_reductions_give_the_inferred_dtype(
    dtype: DataType, op: str, dims: tuple[int, ...]
) -> None:
    if len(dims) > 1 and op == "argmax":
        return
    builder = FusionBuilder()
    x = builder.input(TensorType(dtype, (3, 4)))
    try:
        outs = builder.add(Reduce(op, x, dims))
    except TypeError:
        assert dtype.is_only_kept or op in ("max", "argmax", "mean", "var_mean")
        return
    for out in outs:
        builder.output(out)
    results = interpret(builder.fusion, [X.to(dtype.torch)])
    assert [from_torch(result.dtype) for result in results] == [out.dtype for out in outs]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_the_least_integer_over_minus_one_is_itself(dtype: torch.dtype) -> None:
    """As in kernels, where it wraps; torch's quotient of the two ends the process."""
    least = torch.iinfo(dtype).min
    x, y = torch.tensor([least, least, 7, -7], dtype=dtype), torch.tensor([-1, 2, -1, -2]).to(dtype)
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        fd.add_output(fd.ops.div(a, b))
        fd.add_output(fd.ops.div(a, -1))
    for outputs in (interpret(fd.fusion, [x, y]), fd.validate([x, y])):
        assert outputs[0].tolist() == [least, least // 2, -7, 3]
        assert outputs[1].tolist() == [least, least, -7, 7]
        assert outputs[0].dtype is dtype
