"""Sums with a zero that change nothing: what a pad adds outside of its operand.

    T3 = T1 + 0.0                   T3 = T1 + 0.0
    T4 = T3 + T2            ->      T4 = T3 + T2
    T5 = 0.0 + T4                   T4 is used for T5

A negative zero plus a zero is a zero. So a sum with a zero is left out only where the other operand
is *not signed*: never a negative zero. A sum is none if one of its operands is none.
"""

from __future__ import annotations

from collections.abc import Container

from fuser.ir.dtypes import DataType
from fuser.schedule.tree.expressions import Call, Convert, Expression, Literal, Ref


def without_zero(expression: Expression, unsigned: Container[str]) -> Expression:
    """The other operand of a sum with a zero, if that is it; else the expression.

    `unsigned` are names that never stand for a negative zero.
    """
    match expression:
        case Call("add", (one, other), dtype):
            for zero, rest in ((one, other), (other, one)):
                if _is_zero(zero, dtype) and rest.dtype is dtype and is_unsigned(rest, unsigned):
                    return rest
        case _:
            pass
    return expression


def _is_zero(expression: Expression, dtype: DataType) -> bool:
    return not dtype.is_complex and expression == Literal(0, dtype)


def is_unsigned(expression: Expression, unsigned: Container[str]) -> bool:
    """Whether an expression of names, some of which are `unsigned`, is never a negative zero."""
    if expression.dtype.is_integral:
        return True
    match expression:
        case Literal():
            return expression != Literal(-0.0, expression.dtype)
        case Ref(name):
            return name in unsigned
        case Call("add", args):
            return any(is_unsigned(arg, unsigned) for arg in args)
        case Call("where", (_, one, other)):
            return is_unsigned(one, unsigned) and is_unsigned(other, unsigned)
        case Convert(of):
            return of.dtype.is_integral
        case _:
            return False
