"""`infer(op)`: the types of an operation's results, with every rule an operation imposes."""

from __future__ import annotations

import functools
from typing import assert_never

from fuser.ir import externs, index_shapes, result_shapes, shapes
from fuser.ir.dtype_rules import (
    category_words,
    check_drawn,
    check_dtype,
    check_fill,
    check_index,
    check_same_dtype,
    not_promoted,
    refused,
    with_cast,
)
from fuser.ir.dtypes import DataType
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
from fuser.ir.promotion import Operand, Signature, common_dtype
from fuser.ir.types import ScalarType, TensorType, ValueType


def infer(op: Operation) -> tuple[ValueType, ...]:
    """The types of the results of `op`. Raises an error that names the operation and operand."""
    match op:
        case Constant():
            return (ScalarType(op.dtype),)
        case SizeOf():
            return (ScalarType(DataType.Int),)
        case Pointwise():
            return (_like(op.op, op.args, signature(op).result),)
        case Cast():
            return (_like("cast", (op.arg,), op.dtype),)
        case View():
            return (TensorType(op.arg.dtype, result_shapes.view(op)),)
        case Permute():
            shapes.check_permutation("permute", "dims", op.dims, len(op.arg.shape))
            return (TensorType(op.arg.dtype, tuple(op.arg.shape[d] for d in op.dims)),)
        case Broadcast():
            return (TensorType(op.arg.dtype, result_shapes.broadcast(op)),)
        case Expand():
            return (TensorType(op.arg.dtype, result_shapes.expand(op)),)
        case Squeeze():
            return (TensorType(op.arg.dtype, result_shapes.squeeze(op)),)
        case Slice():
            return (TensorType(op.arg.dtype, result_shapes.slice_(op)),)
        case Flip():
            result_shapes.check_dims("flip", op.arg, op.dims)
            return (TensorType(op.arg.dtype, op.arg.shape),)
        case StrideOrder():
            shapes.check_permutation("stride_order", "stride_order", op.order, len(op.arg.shape))
            return (TensorType(op.arg.dtype, op.arg.shape),)
        case Full():
            return (_full_type(op),)
        case Iota():
            return (_iota_type(op),)
        case GeneratorState():
            return (ScalarType(DataType.Int), ScalarType(DataType.Int))
        case Random():
            return (_random_type(op),)
        case Reduce():
            return _reduce_types(op)
        case Scan():
            return (_scan_type(op),)
        case Pad():
            check_fill("pad", op.fill, op.arg.dtype)
            return (TensorType(op.arg.dtype, result_shapes.pad(op)),)
        case Cat():
            check_same_dtype("cat", op.args)
            return (TensorType(op.args[0].dtype, result_shapes.cat(op)),)
        case Gather():
            check_index(op.mode, op.index)
            return (TensorType(op.arg.dtype, index_shapes.gather(op)),)
        case Scatter():
            return (_scatter_type(op),)
        case CheckIndex():
            check_index(op.operation, op.arg)
            return (TensorType(op.arg.dtype, result_shapes.check_index(op)),)
        case Extern():
            return externs.result_types(op)
        case _:
            assert_never(op)


def _full_type(op: Full) -> TensorType:
    check_fill("full", op.fill, op.dtype)
    return TensorType(op.dtype, result_shapes.factory("full", op.shape))


def _iota_type(op: Iota) -> TensorType:
    check_dtype("iota", op.dtype, [])
    check_fill("iota", op.start, op.dtype)
    check_fill("iota", op.step, op.dtype)
    return TensorType(op.dtype, result_shapes.factory("iota", (op.length,), "length"))


def _random_type(op: Random) -> TensorType:
    check_dtype(op.distribution, op.dtype, [])
    check_drawn(op)
    return TensorType(op.dtype, result_shapes.factory(op.distribution, op.shape))


def signature(op: Pointwise) -> Signature:
    """The types a pointwise operation's operands are converted to, and its result's."""
    operand_types = tuple(Operand(arg.dtype, arg.type.rank) for arg in op.args)
    found = _signature(op.op, operand_types)
    if isinstance(found, str):
        raise refused(op.op, found, op.args)
    return found


@functools.lru_cache(maxsize=4096)
def _signature(op: str, operand_types: tuple[Operand, ...]) -> Signature | str:
    """The signature of an operation for these operands, or why it does not take them."""
    row = TABLE[op]
    promoted = operand_types[1:] if op == "where" else operand_types
    kept = _promoted_kept(promoted)
    if kept is not None:
        return not_promoted(kept)
    tested = common_dtype(promoted)
    if letter(tested) not in row.accepts:
        return with_cast(f"takes {category_words(row.accepts)} operands", tested)
    if op == "where" and operand_types[0].dtype is not DataType.Bool:
        return "the condition must be Bool"
    return row.rule(operand_types)


def _promoted_kept(operands: tuple[Operand, ...]) -> DataType | None:
    """The dtype that is only kept and would be promoted with another, if there is one."""
    only_kept = (operand for operand in operands if operand.dtype.is_only_kept)
    mixed = (kept.dtype for kept in only_kept if not all(_fits(one, kept) for one in operands))
    return next(mixed, None)


def _fits(operand: Operand, kept: Operand) -> bool:
    """Whether an operand is of a dtype that is only kept, or a scalar that takes it from a tensor:
    of no higher category."""
    if operand.dtype is kept.dtype:
        return True
    is_scalar = operand.rank is None and kept.rank is not None and not operand.dtype.is_only_kept
    return is_scalar and operand.dtype.category.value <= kept.dtype.category.value


def _like(operation: str, args: tuple[Value, ...], dtype: DataType) -> ValueType:
    operands = [arg.shape for arg in args if arg.is_tensor]
    return (
        TensorType(dtype, shapes.broadcast(operation, operands)) if operands else ScalarType(dtype)
    )


def _reduce_types(op: Reduce) -> tuple[ValueType, ...]:
    check_dtype(op.op, op.dtype or op.arg.dtype, [op.arg])
    shape = result_shapes.reduce_(op)
    result = TensorType(op.dtype or _reduced_dtype(op), shape)
    match op.op:
        case "var_mean":
            return (result, TensorType(op.arg.dtype.compute, shape))
        case "welford":
            of_squares = TensorType(op.arg.dtype.compute.real, shape)
            return (result, of_squares, TensorType(DataType.Int, shape))
        case _:
            return (result,)


def _scan_type(op: Scan) -> TensorType:
    check_dtype(op.op, op.arg.dtype, [op.arg])
    sums = op.op in ("cumsum", "cumprod") and op.arg.dtype.is_integral
    return TensorType(DataType.Int if sums else op.arg.dtype.compute, op.arg.shape)


def _scatter_type(op: Scatter) -> TensorType:
    check_index(op.mode, op.index)
    if op.joins is not None:
        check_dtype(op.mode, op.arg.dtype, [op.arg])
    if op.src.is_tensor:
        check_same_dtype(op.mode, (op.arg, op.src))
    else:
        check_fill(op.mode, op.src, op.arg.dtype)
    return TensorType(op.arg.dtype, index_shapes.scatter(op))


def _reduced_dtype(op: Reduce) -> DataType:
    if op.op in ("any", "all"):
        return DataType.Bool
    if op.op in ("argmax", "argmin"):
        return DataType.Int
    if op.op in ("sum", "prod") and op.arg.dtype.is_integral:
        return DataType.Int
    if op.op in ("var", "var_mean"):
        return op.arg.dtype.compute.real
    return op.arg.dtype.compute
