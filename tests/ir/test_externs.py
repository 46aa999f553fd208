"""The operations torch runs: their results are torch's, of the inferred types, for all sizes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from fuser import errors
from fuser.ir.builder import FusionBuilder
from fuser.ir.concretize import concretize
from fuser.ir.dtypes import DataType, from_torch
from fuser.ir.externs import TABLE, arguments, options
from fuser.ir.infer import infer
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Extern, Value, map_operands, operands
from fuser.ir.types import DYNAMIC, TensorType
from fuser.ir.verify import verify

Given = torch.Tensor | None
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def value_of(id_: int, tensor: Given, *, static: bool = True) -> Value | None:
    if tensor is None:
        return None
    dtype = from_torch(tensor.dtype)
    assert dtype is not None
    shape = tuple(tensor.shape) if static else (DYNAMIC,) * tensor.dim()
    return Value(id_, TensorType(dtype, shape))


def run(
    function: str, given: Sequence[Given], chosen: tuple[object, ...] = ()
) -> list[torch.Tensor]:
    """The results, which have the types inferred from static and from dynamic sizes."""
    builder = FusionBuilder()
    tensors = [tensor for tensor in given if tensor is not None]
    args: list[Value | None] = []
    for tensor in given:
        declared = value_of(0, tensor, static=False)
        args.append(None if declared is None else builder.input(declared.type))
    for out in builder.add(Extern(function, tuple(args), chosen)):
        builder.output(out)
    verify(builder.fusion, "as defined")
    sizes = {v: tuple(t.shape) for v, t in zip(builder.fusion.inputs, tensors, strict=True)}
    static = concretize(builder.fusion, sizes, {})
    verify(static, "concretized")
    results = interpret(static, tensors)
    for dynamic, value, result in zip(
        builder.fusion.output_values, static.output_values, results, strict=True
    ):
        assert value.type == TensorType(value.dtype, tuple(result.shape))
        assert value.dtype.torch is result.dtype
        assert dynamic.dtype is value.dtype
        assert all(a in (DYNAMIC, b) for a, b in zip(dynamic.shape, value.shape, strict=True))
    return results


def test_absent_arguments_are_no_operands() -> None:
    query, mask = (Value(i, TensorType(DataType.Float, ())) for i in range(2))
    op = Extern("sdpfa_fwd", (query, query, query, None, mask))
    assert list(operands(op)) == [query, query, query, mask]
    assert map_operands(op, lambda value: query).args == (query, query, query, None, query)
    assert arguments(Extern("linear", (query, mask))) == (query, mask, None)


def test_options_left_out_have_their_defaults() -> None:
    value = Value(0, TensorType(DataType.Float, (3,)))
    assert options(Extern("topk", (value,), (2, 0))) == {
        "k": 2,
        "dim": 0,
        "largest": True,
        "sorted": False,
    }


def test_positional_arguments_come_first_in_every_row() -> None:
    assert all(0 < row.positional <= len(row.args) for row in TABLE.values())


@pytest.mark.parametrize("dtype", FLOATS)
def test_products_are_torchs(dtype: torch.dtype) -> None:
    left, right = torch.randn(2, 3, 4).to(dtype), torch.randn(5, 4).to(dtype)
    bias = torch.randn(5).to(dtype)
    (result,) = run("matmul", (left, right.t()))
    assert torch.equal(result, left @ right.t())
    (result,) = run("linear", (left, right, bias))
    assert torch.equal(result, torch.nn.functional.linear(left, right, bias))
    (result,) = run("linear", (left, right, bias[0]))
    assert torch.equal(result, torch.nn.functional.linear(left, right, bias[:1].expand(5)))
    (result,) = run("linear", (left, right[0], bias[0]))
    assert torch.equal(result, torch.nn.functional.linear(left, right[0]) + bias[0])
    (result,) = run("linear", (left, right))
    assert torch.equal(result, torch.nn.functional.linear(left, right))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.int8])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_is_torchs(dtype: torch.dtype, dim: int, largest: bool) -> None:
    x = torch.randperm(35).reshape(5, 7).to(dtype)
    for k in (0, 1, 3, x.shape[dim]):
        values, indices = run("topk", (x,), (k, dim, largest, True))
        expected = torch.topk(x, k, dim, largest, True)
        assert torch.equal(values, expected.values)
        assert torch.equal(indices, expected.indices)
    values, indices = run("topk", (x,), (4, dim, largest))
    assert torch.equal(values, x.gather(dim, indices))
    assert torch.equal(values.sort(dim).values, torch.topk(x, 4, dim, largest).values.sort(dim)[0])


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool])
@pytest.mark.parametrize("descending", [True, False])
def test_argsort_is_torchs(dtype: torch.dtype, descending: bool) -> None:
    x = torch.randint(0, 4, (6, 5)).to(dtype).t()
    for dim in (0, 1):
        (result,) = run("argsort", (x,), (dim, descending, True))
        assert torch.equal(result, torch.argsort(x, dim=dim, descending=descending, stable=True))


def test_one_element_is_in_order() -> None:
    x = torch.tensor(2.5)
    assert torch.equal(run("argsort", (x,), (0,))[0], torch.tensor(0))
    for k in (0, 1):  # torch gives the one element in both cases
        assert list(run("topk", (x,), (k, 0))) == list(torch.topk(x, k))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("shape", [(), (0,), (4,), (2, 3)])
def test_embedding_is_torchs(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    index, weight = torch.randint(0, 7, shape, dtype=dtype), torch.randn(7, 5)
    before = weight.clone()
    (result,) = run("embedding_fwd", (index, weight), (-7, None, None, True, False))
    assert torch.equal(result, torch.nn.functional.embedding(index, weight))
    (result,) = run("embedding_fwd", (index, weight), (None, 0.5, 1.0))
    assert torch.equal(weight, before)
    expected = torch.nn.functional.embedding(index, before, max_norm=0.5, norm_type=1.0)
    torch.testing.assert_close(result, expected)
    (result,) = run("embedding_fwd", (index, weight.long()))
    assert torch.equal(result, weight.long()[index])


def test_an_embedded_index_out_of_range_is_named() -> None:
    with pytest.raises(errors.IndexOutOfRangeError, match=r"embedding_fwd: index -1 .* 0 to 6"):
        run("embedding_fwd", (torch.tensor([0, -1]), torch.randn(7, 5)))


def tensor(*shape: int, dtype: DataType = DataType.Float) -> Value:
    return Value(0, TensorType(dtype, shape))


INT = DataType.Int
REFUSED: list[tuple[Extern, type[errors.FuserError], str]] = [
    (Extern("topk", (tensor(3),), (4, 0)), errors.ArgumentError, "at most 3"),
    (Extern("topk", (tensor(-1),), (-1, 0)), errors.ArgumentError, "0 or more"),
    (Extern("topk", (tensor(3),), (1, 1)), errors.DimensionError, "dimension 1"),
    (Extern("topk", (tensor(3, dtype=DataType.Bool),), (1, 0)), errors.OperandDtypeError, "Bool"),
    (Extern("topk", (tensor(),), (2, 0)), errors.ArgumentError, "at most 1"),
    (Extern("argsort", (tensor(),), (1,)), errors.DimensionError, "dimension 1"),
    (Extern("linear", (tensor(3), tensor(3), tensor(2))), errors.ArgumentError, r"must be \[1\]"),
    (Extern("argsort", (tensor(3),), (-2,)), errors.DimensionError, "dimension -2"),
    (
        Extern("argsort", (tensor(3, dtype=DataType.ComplexFloat),), (0,)),
        errors.OperandDtypeError,
        "ComplexFloat",
    ),
    (Extern("embedding_fwd", (tensor(3), tensor(4, 2))), errors.OperandDtypeError, "index"),
    (Extern("embedding_fwd", (tensor(3, dtype=INT), tensor(4))), errors.ArgumentError, "weight"),
    (
        Extern("embedding_fwd", (tensor(3, dtype=INT), tensor(4, 2)), (4,)),
        errors.ArgumentError,
        "padding_idx",
    ),
    (
        Extern("embedding_fwd", (tensor(3, dtype=INT), tensor(4, 2, dtype=INT)), (None, 1.0)),
        errors.OperandDtypeError,
        "floating",
    ),
    (Extern("matmul", (tensor(3, 4), tensor(3, 4))), errors.ArgumentError, "multiplied"),
    (Extern("matmul", (tensor(3, dtype=INT), tensor(3, dtype=INT))), errors.FuserError, "Int"),
    (
        Extern("linear", (tensor(3, 4), tensor(5, 4), tensor(4))),
        errors.ArgumentError,
        r"must be \[5\]",
    ),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_a_mistake_is_refused(case: int) -> None:
    op, kind, words = REFUSED[case]
    with pytest.raises(kind, match=f"{op.function}.*{words}"):
        infer(op)


def test_a_number_too_large_for_dynamic_sizes_is_refused_when_they_are_known() -> None:
    builder = FusionBuilder()
    value = builder.input(TensorType(DataType.Float, (DYNAMIC,)))
    builder.output(builder.add(Extern("topk", (value,), (4, 0)))[0])
    with pytest.raises(errors.ArgumentError, match="k = 4"):
        concretize(builder.fusion, {value: (3,)}, {})
