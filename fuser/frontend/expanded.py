"""Which dimensions repeat one element, as far as the definition says so.

T1 = fd.ops.expand(T0, shape=[8, -1])      T0: Float[1, -1]
T2 = fd.ops.add(T1, S1)                    dimension 0 of T2 is expanded, dimension 1 is not
"""

from __future__ import annotations

from collections.abc import Mapping

from fuser.ir.nodes import (
    Broadcast,
    Cast,
    CheckIndex,
    Expand,
    Full,
    Fusion,
    Permute,
    Pointwise,
    Slice,
    Squeeze,
    Statement,
    StrideOrder,
    Value,
    operands,
)


def is_expanded(fusion: Fusion, value: Value, dim: int) -> bool:
    """Whether all elements along a dimension are one; it may also be of size 1."""
    return _repeats(fusion.definitions(), value, dim)


def _repeats(definitions: Mapping[Value, Statement], value: Value, dim: int) -> bool:
    """The operands decide, dimension by dimension; an input says it by its contiguity."""
    if value.shape[dim] == 1:
        return True
    if value not in definitions:
        layout = value.tensor.layout
        return layout is not None and layout.contiguity[-1 - layout.stride_order[dim]] is None
    op = definitions[value].op
    match op:
        case Full():
            return True
        case Permute():
            return _repeats(definitions, op.arg, op.dims[dim])
        case Broadcast():
            kept = op.is_broadcast[:dim].count(False)
            return op.is_broadcast[dim] or _repeats(definitions, op.arg, kept)
        case Squeeze():
            rest = [d for d in range(len(op.arg.shape)) if d not in op.dims]
            return _repeats(definitions, op.arg, rest[dim])
        case Expand() | Slice() | Cast() | Pointwise() | StrideOrder() | CheckIndex():
            beyond = len(value.shape) - dim
            read = [arg for arg in operands(op) if len(arg.shape) >= beyond]
            return all(_repeats(definitions, arg, len(arg.shape) - beyond) for arg in read)
        case _:
            return False
