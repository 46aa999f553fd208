"""What a value was before it became wider: what is known of the one is known of the other.

load T0                            T0 is a float of 16 bits
T1 = float32 of T0                 no number is changed: T1 unwidened is T0
T2 = exp(T1)                       T2 unwidened is T2
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fuser.schedule.code.row_body import Code
from fuser.schedule.tree.expressions import Convert, Expression, Ref
from fuser.schedule.tree.statements import Let


def widened_in(code: Iterable[Code]) -> dict[str, Expression]:
    """By the name of each value that is only made wider: what it is made of."""
    return {
        node.name: node.expression.of
        for node in code
        if isinstance(node, Let)
        and isinstance(node.expression, Convert)
        and _widens(node.expression)
    }


def unwidened(value: Expression, widened: Mapping[str, Expression]) -> Expression:
    """A value as it was before it became wider, under a name of `widened` or on the spot; itself,
    if it did not."""
    match value:
        case Ref(name):
            return widened.get(name, value)
        case Convert(of) if _widens(value):
            return of
        case _:
            return value


def _widens(conversion: Convert) -> bool:
    return conversion.dtype is conversion.of.dtype.compute
