"""Values without elements are not computed.

T2 = fd.ops.mul(T0, T1)              T2: Float[0, 8]
->
T2 = fd.ops.full([0, 8], -0.0)

No scheduler has loops for them, so a kernel that makes something else besides would be torch's.
"""

from __future__ import annotations

from fuser.ir.neutral import zero_to_add
from fuser.ir.nodes import (
    Cast,
    Constant,
    Flip,
    Full,
    Fusion,
    Operation,
    Pointwise,
    Reduce,
    Statement,
    Value,
)
from fuser.passes.rewrite import Emitter, rewrite


def fill_empty_values(fusion: Fusion) -> Fusion:
    """`fusion` with results that have no elements filled, of whatever number."""
    return rewrite(fusion, _filled, may_copy=True)


def _filled(statement: Statement, emit: Emitter) -> Operation | Value | None:
    computed = isinstance(statement.op, Pointwise | Cast | Flip | Reduce)
    if not computed or len(statement.outs) > 1:
        return None
    out = statement.out
    if not out.is_tensor or out.elements > 0:
        return None
    number = Constant(zero_to_add(out.dtype), out.dtype)
    return Full(out.shape, emit.add(number), out.dtype)
