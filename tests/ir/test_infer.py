"""Types: torch's promotion with 16-bit floats widened, and the extents of every operation."""

from __future__ import annotations

import itertools

import pytest
import torch

from fuser import errors
from fuser.ir.dtypes import DataType, from_torch
from fuser.ir.infer import infer
from fuser.ir.interpret import evaluate
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
from fuser.ir.pointwise import TABLE, letter
from fuser.ir.types import ScalarType, TensorType

DTYPES = list(DataType)
PROMOTED = [dtype for dtype in DTYPES if not dtype.is_only_kept]
PAIRS = list(itertools.product(PROMOTED, repeat=2))


def tensor(id_: int, *shape: int, dtype: DataType = DataType.Float) -> Value:
    return Value(id_, TensorType(dtype, shape))


def number(id_: int, dtype: DataType = DataType.Double) -> Value:
    return Value(id_, ScalarType(dtype))


def added(left: Value, right: Value) -> DataType:
    (type_,) = infer(Pointwise("add", (left, right)))
    return type_.dtype


SHORT_COMPLEX = {torch.complex32, getattr(torch, "bcomplex32", None)}  # the second since torch 2.14


def torch_result(left: object, right: object) -> DataType:
    promoted = torch.result_type(left, right)  # pyright: ignore
    dtype = from_torch(torch.complex64 if promoted in SHORT_COMPLEX else promoted)
    assert dtype is not None
    return dtype.compute


@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize(("left_shape", "right_shape"), [((2,), (2,)), ((2,), ()), ((), ())])
def test_tensors_promote_as_in_torch(
    left: DataType, right: DataType, left_shape: tuple[int, ...], right_shape: tuple[int, ...]
) -> None:
    inferred = added(tensor(0, *left_shape, dtype=left), tensor(1, *right_shape, dtype=right))
    expected = torch_result(
        torch.ones(left_shape, dtype=left.torch), torch.ones(right_shape, dtype=right.torch)
    )
    assert inferred is expected


@pytest.mark.parametrize("dtype", PROMOTED)
@pytest.mark.parametrize("shape", [(2,), ()])
@pytest.mark.parametrize("literal", [True, 2, 0.5, 1j])
def test_literals_promote_as_in_torch(
    dtype: DataType, shape: tuple[int, ...], literal: complex
) -> None:
    of_literal = {bool: DataType.Bool, int: DataType.Int, float: DataType.Double}
    scalar = number(1, of_literal.get(type(literal), DataType.ComplexDouble))
    expected = torch_result(torch.ones(shape, dtype=dtype.torch), literal)
    assert added(tensor(0, *shape, dtype=dtype), scalar) is expected


@pytest.mark.parametrize("name", sorted(TABLE))
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_give_the_inferred_dtype_or_refuse(name: str, dtype: DataType) -> None:
    row = TABLE[name]
    dtypes = [dtype] * row.arity
    if name == "where":
        dtypes[0] = DataType.Bool
    args = tuple(tensor(i, 3, dtype=given) for i, given in enumerate(dtypes))
    op = Pointwise(name, args)
    if letter(dtype) not in row.accepts:
        with pytest.raises(errors.OperandDtypeError, match=dtype.name):
            infer(op)
        return
    (type_,) = infer(op)
    held = {arg: torch.ones(3).to(arg.dtype.torch) for arg in args}
    (out,) = evaluate(op, held, torch.device("cpu"))
    assert from_torch(out.dtype) is type_.dtype
    assert isinstance(type_, TensorType)
    assert tuple(out.shape) == type_.shape


X = tensor(0, 3, -1, 1)
INDEX = tensor(1, 2, -1, 1, dtype=DataType.Int)
ROWS = tensor(1, 7, dtype=DataType.Int32)
N = number(2, DataType.Int)

EXTENTS: list[tuple[Operation, tuple[int, ...] | None]] = [
    (Constant(2.0, DataType.Float), None),
    (SizeOf(X, 1), None),
    (Cast(N, DataType.Float), None),
    (Pointwise("add", (X, tensor(3, 5, 3, 1, 7))), (5, 3, -1, 7)),
    (Pointwise("add", (X, tensor(3, 4, 1))), (3, 4, 1)),
    (View(X, (-1, 3)), (-1, 3)),
    (View(tensor(0, 4, 3), (2, -1)), (2, 6)),
    (View(tensor(0, 0, 3), (-1, 3)), (0, 3)),
    (View(X, (N, 3)), (-1, 3)),
    (Permute(X, (2, 0, 1)), (1, 3, -1)),
    (Broadcast(X, (True, False, False, True, False)), (1, 3, -1, 1, 1)),
    (Expand(X, (-1, 4, N)), (3, 4, -1)),
    (Expand(X, (3, -1, 0)), (3, -1, 0)),
    (Squeeze(X, (1, 2)), (3,)),
    (Slice(X, (1, 0, 0), (9, 5, 1), (1, 2, 1)), (2, -1, 1)),
    (Slice(tensor(0, 7), (1,), (7,), (3,)), (2,)),
    (Slice(tensor(0, 7), (9,), (12,), (1,)), (0,)),
    (Flip(X, (2, 0)), (3, -1, 1)),
    (StrideOrder(X, (0, 1, 2)), (3, -1, 1)),
    (Full((2, N), N, DataType.Half), (2, -1)),
    (Iota(5, N, N, DataType.Int), (5,)),
    (Iota(N, N, N, DataType.Int), (-1,)),
    (Random("uniform", (N, 3), (N, N), N, N, DataType.Half), (-1, 3)),
    (GeneratorState(), None),
    (Reduce("sum", X, (0, 2)), (-1,)),
    (Reduce("max", X, (0, 2), keepdim=True), (1, -1, 1)),
    (Scan("cumsum", X, 0), (3, -1, 1)),
    (Pad(X, ((1, 2), (0, 1), (-1, 0)), N), (6, -1, 0)),
    (Cat((X, X), 0), (6, -1, 1)),
    (Cat((X, tensor(3, 3, 5, 1)), 1), (3, -1, 1)),
    (Cat((X, tensor(3, 4, 5, 1)), 0), (7, 5, 1)),
    (Gather("select", X, N, 1), (3, 1)),
    (Gather("index_select", X, tensor(1, 4, dtype=DataType.Int32), 1), (3, 4, 1)),
    (Gather("index_select", X, tensor(1, dtype=DataType.Int), 0), (1, -1, 1)),
    (Gather("gather", X, INDEX, 0), (2, -1, 1)),
    (Gather("take_along_axis", X, tensor(1, 1, 9, 1, dtype=DataType.Int), 1), (3, 9, 1)),
    (Scatter(X, INDEX, N, 0), (3, -1, 1)),
    (Scatter(X, INDEX, X, 0, "scatter_add"), (3, -1, 1)),
    (Scatter(X, ROWS, tensor(3, 3, 7, 1), 1, "index_add"), (3, -1, 1)),
    (Scatter(X, tensor(1, dtype=DataType.Int), tensor(3, 1, 9, 1), 0, "index_add"), (3, -1, 1)),
    (Scatter(X, ROWS, tensor(3, 7, 4, 1), 0, "index_put_accumulate"), (3, -1, 1)),
    (Scatter(X, INDEX, tensor(3, 2, 5, 1, 4, 1), 0, "index_put_accumulate"), (3, -1, 1)),
    (
        Scatter(X, tensor(1, dtype=DataType.Int), tensor(3, 4, 1), 0, "index_put_accumulate"),
        X.shape,
    ),
    (CheckIndex(INDEX, 3, "scatter"), (2, -1, 1)),
    (Extern("matmul", (tensor(0, 5, 1, 3, 4), tensor(1, 2, 4, 6))), (5, 2, 3, 6)),
    (Extern("matmul", (tensor(0, 4), tensor(1, 2, 4, 6))), (2, 6)),
    (Extern("matmul", (tensor(0, 2, 3, 4), tensor(1, 4))), (2, 3)),
    (Extern("matmul", (tensor(0, 4), tensor(1, -1))), ()),
    (Extern("linear", (tensor(0, 2, 3, 4), tensor(1, 6, 4), tensor(2, 6))), (2, 3, 6)),
    (Extern("linear", (tensor(0, 3, 4), tensor(1, 4), tensor(2))), (3,)),
]


@pytest.mark.parametrize("case", range(len(EXTENTS)))
def test_extents_of_the_result(case: int) -> None:
    op, expected = EXTENTS[case]
    type_ = infer(op)[0]
    assert (type_.shape if isinstance(type_, TensorType) else None) == expected


REDUCED = [
    ("sum", DataType.Bool, DataType.Int),
    ("sum", DataType.Int32, DataType.Int),
    ("prod", DataType.UInt8, DataType.Int),
    ("sum", DataType.Half, DataType.Float),
    ("max", DataType.Int32, DataType.Int32),
    ("max", DataType.BFloat16, DataType.Float),
    ("mean", DataType.ComplexFloat, DataType.ComplexFloat),
    ("var", DataType.ComplexDouble, DataType.Double),
    ("any", DataType.Float, DataType.Bool),
    ("argmax", DataType.Float, DataType.Int),
]


@pytest.mark.parametrize(("op", "dtype", "expected"), REDUCED)
def test_dtypes_of_reductions(op: str, dtype: DataType, expected: DataType) -> None:
    (type_,) = infer(Reduce(op, tensor(0, 3, dtype=dtype), (0,)))
    assert type_.dtype is expected


def test_variance_of_complex_is_real_and_its_mean_complex() -> None:
    variance, mean = infer(Reduce("var_mean", tensor(0, 3, dtype=DataType.ComplexFloat), (0,)))
    assert (variance.dtype, mean.dtype) == (DataType.Float, DataType.ComplexFloat)


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        ("cumsum", DataType.Int32, DataType.Int),
        ("cumprod", DataType.Bool, DataType.Int),
        ("cummax", DataType.Int32, DataType.Int32),
        ("cummin", DataType.Half, DataType.Float),
    ],
)
def test_dtypes_of_scans(op: str, dtype: DataType, expected: DataType) -> None:
    (type_,) = infer(Scan(op, tensor(0, 3, dtype=dtype), 0))
    assert type_.dtype is expected


REFUSED = [
    Reduce("sum", X, (3,)),
    Reduce("sum", X, (0, 0)),
    Reduce("max", tensor(0, 0, 3), (0,)),
    Reduce("max", tensor(0, 3, dtype=DataType.ComplexFloat), (0,)),
    Reduce("var", tensor(0, 3, dtype=DataType.Int), (0,)),
    Scan("cummax", tensor(0, 3, dtype=DataType.ComplexFloat), 0),
    View(tensor(0, 6), (4, -1)),
    View(tensor(0, 6), (5,)),
    View(X, (-1, -1)),
    Pad(X, ((-2, -2), (0, 0), (0, 0)), N),
    Full((-3,), N, DataType.Int),
    Iota(3, number(1, DataType.ComplexFloat), N, DataType.Int),
    Squeeze(X, (0,)),
    Cat((X, tensor(1, 3, 3)), 0),
    Gather("gather", X, tensor(1, 4, 5, 1, dtype=DataType.Int), 1),
    Flip(X, (3,)),
    Flip(X, (0, 0)),
    Scatter(X, INDEX, N, 0, "scatter_add"),
    Scatter(X, INDEX, X, 0, "scatter_max"),
    Scatter(X, INDEX, tensor(3, 1, 4, 1), 0, "scatter_add"),
    Scatter(X, INDEX, tensor(3, 3, 4, 1, dtype=DataType.Half), 0, "scatter_add"),
    Scatter(X, X, X, 0, "scatter_add"),
    Scatter(X, INDEX, X, 0, "index_add"),
    Scatter(X, ROWS, X, 0, "index_add"),
    Scatter(X, ROWS, tensor(3, 7, 4, 2), 0, "index_add"),
    Scatter(X, ROWS, tensor(3, 7, 4, 2), 0, "index_put_accumulate"),
    Scatter(X, ROWS, tensor(3, 7, 4), 0, "index_put_accumulate"),
    Scatter(X, ROWS, tensor(3, 3, 7, 1), 1, "index_put_accumulate"),
    CheckIndex(X, 3, "scatter"),
    CheckIndex(INDEX, -1, "scatter"),
    Extern("linear", (tensor(0, 2, 3), tensor(1, 4, 3), tensor(2, 5))),
    Extern("matmul", (tensor(0), tensor(1, 4))),
]


@pytest.mark.parametrize("op", REFUSED)
def test_impossible_operations_are_refused(op: Operation) -> None:
    with pytest.raises(errors.FuserError):
        infer(op)
