"""Where results must not depend on how a compiler rounds: comparisons with an extreme.

T1 = fd.ops.max(T0, dims=[1], keepdim=True)       T0: computed in the sweep that finds the largest,
T2 = fd.ops.eq(T0, T1)                            and again in the sweep that compares with it

Compilers contract a product and a sum to one operation that rounds once, where both are in one
expression. If they do so in one sweep only, no element equals the largest one.
"""

from __future__ import annotations

from collections.abc import Mapping

from fuser.ir.nodes import (
    Cast,
    Fusion,
    MetadataOperation,
    Pointwise,
    Reduce,
    Scan,
    Statement,
    StrideOrder,
    Value,
)

_EXTREMES = ("max", "min", "cummax", "cummin")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def may_contract(fusion: Fusion) -> bool:
    """Whether kernels of a fusion may round a product and a sum at once."""
    definitions = fusion.definitions()
    return not any(map(_finds_extreme, fusion.statements)) or not any(
        arg.dtype.is_floating and _is_extreme(arg, definitions)
        for statement in fusion.statements
        if isinstance(statement.op, Pointwise) and statement.op.op in _COMPARISONS
        for arg in statement.op.args
    )


def _finds_extreme(statement: Statement) -> bool:
    return isinstance(statement.op, Reduce | Scan) and statement.op.op in _EXTREMES


def _is_extreme(value: Value, definitions: Mapping[Value, Statement]) -> bool:
    """Whether a value is a largest or smallest element, perhaps in another type or shape."""
    while value in definitions:
        op = definitions[value].op
        if isinstance(op, Reduce | Scan):
            return op.op in _EXTREMES
        if not isinstance(op, Cast | StrideOrder | MetadataOperation):
            return False
        value = op.arg
    return False
