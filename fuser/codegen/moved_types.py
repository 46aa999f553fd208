"""Narrow floats of which a kernel computes nothing, so that its text may have integers instead.

Of a loop over a class g++ makes two versions, and asks for each row which of them to run.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Cat,
    CheckIndex,
    Constant,
    Fusion,
    Gather,
    MetadataOperation,
    Operation,
    Pad,
    Pointwise,
    Statement,
    StrideOrder,
    Value,
    operands,
)

_WORDS = {1: DataType.Int8, 2: DataType.Int16}


def word_of(dtype: DataType) -> DataType:
    """The integer that has as many bits as a narrow float."""
    return _WORDS[dtype.itemsize]


def moved_types(fusion: Fusion) -> frozenset[DataType]:
    """The narrow floats that the operations of `fusion` move or choose, and do nothing else to.

    Zeros may be among them: they are zeros of the integers too.
    """
    values = (*fusion.inputs, *(out for statement in fusion.statements for out in statement.outs))
    narrow = {v.dtype for v in values if v.dtype.is_floating and v.dtype.itemsize < 4}
    zeros = {statement.out for statement in fusion.statements if _is_zero(statement.op)}
    computed = {v.dtype for v in fusion.inputs if not v.is_tensor}
    for statement in fusion.statements:
        if not _moves(statement, zeros):
            computed.update(v.dtype for v in (*statement.outs, *operands(statement.op)))
    return frozenset(narrow - computed)


def _is_zero(op: Operation) -> bool:
    return isinstance(op, Constant) and op in (Constant(0, op.dtype), Constant(0.0, op.dtype))


def _moves(statement: Statement, zeros: AbstractSet[Value]) -> bool:
    """Whether every element of the result is one of an operand, or zero."""
    match op := statement.op:
        case Pointwise("where", (_, *moved)) | Pointwise("set", moved):
            pass
        case Pad():
            moved = (op.arg, op.fill)
        case Cat():
            moved = op.args
        case CheckIndex():
            return True
        case _ if isinstance(op, MetadataOperation | Gather | StrideOrder):
            moved = (op.arg,)
        case _:
            return statement.outs[0] in zeros
    return all(value in zeros or value.dtype is statement.out.dtype for value in moved)
