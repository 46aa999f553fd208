"""Along which dimensions the elements of a tensor may differ, as far as its definition says so.

T1 = fd.ops.expand(T0, shape=[8, -1])      T0: Float[1, -1]
T2 = fd.ops.add(T1, S1)                    T2 may differ along dimension 1 only
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
    Operation,
    Permute,
    Pointwise,
    Slice,
    Squeeze,
    StrideOrder,
    Value,
)
from fuser.ir.types import dims_slowest_first

Dims = frozenset[int]


def varying_dims(fusion: Fusion) -> dict[Value, Dims]:
    """Of each tensor, the dimensions along which its elements may differ: all that have more than
    one, but those that are expanded, and what follows from them."""
    found = {value: _of_input(value) for value in fusion.inputs if value.is_tensor}
    for statement in fusion.statements:
        for out in statement.outs:
            if out.is_tensor:
                found[out] = _long(out) & _of_result(statement.op, out, found)
    return found


def _long(value: Value) -> Dims:
    return frozenset(dim for dim, size in enumerate(value.shape) if size != 1)


def _of_input(value: Value) -> Dims:
    """An input says by its contiguity that it is expanded."""
    layout = value.tensor.layout
    if layout is None:
        return _long(value)
    dims = zip(dims_slowest_first(layout.stride_order), layout.contiguity, strict=True)
    return _long(value).difference(dim for dim, known in dims if known is None)


def _of_result(op: Operation, out: Value, found: Mapping[Value, Dims]) -> Dims:
    match op:
        case Full():
            return frozenset()
        case Cast() | CheckIndex() | Expand() | Slice() | StrideOrder():
            return found[op.arg]
        case Broadcast():
            kept = [dim for dim, new in enumerate(op.is_broadcast) if not new]
            return frozenset(kept[dim] for dim in found[op.arg])
        case Squeeze():
            kept = [dim for dim in range(len(op.arg.shape)) if dim not in op.dims]
            return frozenset(number for number, dim in enumerate(kept) if dim in found[op.arg])
        case Permute():
            return frozenset(op.dims.index(dim) for dim in found[op.arg])
        case Pointwise():
            new = {arg: len(out.shape) - len(arg.shape) for arg in op.args if arg.is_tensor}
            return frozenset(dim + new[arg] for arg in new for dim in found[arg])
        case _:
            return _long(out)
