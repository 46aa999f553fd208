"""What follows from constants is computed here.

S3 = fd.ops.mul(S1, S2)                                      S1, S2: constants 2.0 and 3.0
T4 = fd.ops.full(shape=[8, 1], fill_value=S1, dtype=DataType.Float)
T5 = fd.ops.expand(T4, shape=[8, 6])
T6 = fd.ops.mul(T0, T5)                                      T0: Float[8, 6]
T7 = fd.ops.sub(T6, S8)                                      S8: constant 0
->
S3 = fd.define_scalar(6.0, dtype=DataType.Double)
S9 = fd.define_scalar(2.0, dtype=DataType.Float)
T6 = fd.ops.mul(T0, S9)                                      T7 is T6

Only what changes no bit of a result: `x + 0` stays for floating types, as -0.0 + 0.0 is 0.0.
"""

from __future__ import annotations

from fuser.ir.infer import infer, signature
from fuser.ir.neutral import neutral_number
from fuser.ir.nodes import (
    Cast,
    Constant,
    Full,
    Fusion,
    MetadataOperation,
    Operation,
    Pointwise,
    Statement,
    Value,
)
from fuser.passes.constants import computed, converted, converted_scalar, number_of
from fuser.passes.rewrite import Emitter, rewrite

Change = Operation | Value | None


def fold_constants(fusion: Fusion) -> Fusion:
    """`fusion` with constants computed, and with operations that change nothing left out."""
    return rewrite(fusion, _fold)


def _fold(statement: Statement, emit: Emitter) -> Change:
    op = statement.op
    match op:
        case Pointwise(op="segment_set"):
            return None
        case Pointwise() | Cast() if not statement.out.is_tensor:
            return _on_constants(op, statement.out, emit)
        case Pointwise():
            found = _on_constants(op, statement.out, emit)
            if found is None:
                found = _neutral(op, statement.out, emit)
            return _with_scalars(op, statement.out, emit) if found is None else found
        case _ if isinstance(op, Cast | MetadataOperation):
            full = emit.producer(op.arg)
            if not isinstance(full, Full):
                return None
            fill, dtype = converted_scalar(full.fill, full.dtype, emit), statement.out.dtype
            if fill.dtype.is_complex and not dtype.is_complex:  # of which a full takes none
                fill = converted_scalar(fill, dtype, emit)
            return Full(statement.out.shape, fill, dtype)
        case _:
            return None


def _on_constants(op: Pointwise | Cast, out: Value, emit: Emitter) -> Change:
    """An operation all of whose operands are known: a constant, or a tensor full of one."""
    numbers: dict[Value, Constant] = {}
    for arg in op.args if isinstance(op, Pointwise) else (op.arg,):
        number = number_of(arg, emit)
        if number is None:
            return None
        if number.is_size:
            return None  # the text has a parameter for it, and computes with that
        numbers[arg] = number
    result = computed(op, numbers, out.dtype)
    if result is None or not out.is_tensor:
        return result
    return Full(out.shape, emit.add(result), out.dtype)


# -- operations that change nothing --------------------------------------------------------------

_INVOLUTIONS = ("neg", "logical_not", "bitwise_not")


def _neutral(op: Pointwise, out: Value, emit: Emitter) -> Value | None:
    """The operand that the result equals, bit for bit and in type."""
    match op.args:
        case (arg,) if op.op in _INVOLUTIONS:
            inner = emit.producer(arg)
            if not isinstance(inner, Pointwise) or inner.op != op.op:
                return None
            return inner.args[0] if _same_type(inner.args[0], out) else None
        case (arg,) if op.op == "set":
            return arg
        case (condition, left, right) if op.op == "where":
            number = number_of(condition, emit)
            chosen = None if number is None else left if number.value else right
            return chosen if chosen is not None and _same_type(chosen, out) else None
        case (left, right):
            if _same_type(left, out) and _is_neutral(op, 1, emit):
                return left
            return right if _same_type(right, out) and _is_neutral(op, 0, emit) else None
        case _:
            return None


def _same_type(value: Value, out: Value) -> bool:
    return value.is_tensor and value.dtype is out.dtype and value.shape == out.shape


def _is_neutral(op: Pointwise, position: int, emit: Emitter) -> bool:
    """Whether the operand at `position` leaves the other as it is."""
    number = number_of(op.args[position], emit)
    if number is None:
        return False
    compute = signature(op).args[position]
    neutral = neutral_number(op.op, compute, position)
    return neutral is not None and converted(number, compute) == Constant(neutral, compute)


# -- full tensors as scalars ---------------------------------------------------------------------


def _with_scalars(op: Pointwise, out: Value, emit: Emitter) -> Pointwise | None:
    """The operation on scalars in place of full tensors, where that changes no type."""
    for position, arg in enumerate(op.args):
        full = emit.producer(arg)
        if not isinstance(full, Full):
            continue
        before = len(emit.statements)
        fill = converted_scalar(full.fill, full.dtype, emit)
        args = (*op.args[:position], fill, *op.args[position + 1 :])
        changed = Pointwise(op.op, args)
        if signature(changed) == signature(op) and infer(changed)[0] == out.type:
            return _with_scalars(changed, out, emit) or changed
        emit.drop(before)
    return None
