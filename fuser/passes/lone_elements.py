"""Folds and scans of one element are that element.

T2 = fd.ops.sum(T1, dims=[0])        T1: Float[1, 768]
->
T3 = T1 + 0.0
T2 = fd.ops.squeeze(T3, dims=[0])

Gradients over a batch of one are such, and whatever is folded of a tensor without dimensions, or
scanned along a dimension of one element: they need no kernel of rows.
"""

from __future__ import annotations

from fuser.ir.nodes import (
    Constant,
    Fusion,
    Operation,
    Pointwise,
    Reduce,
    Scan,
    Squeeze,
    Statement,
    Value,
)
from fuser.ir.pointwise import FOLDS
from fuser.passes.rewrite import Emitter, rewrite


def take_lone_elements(fusion: Fusion) -> Fusion:
    """`fusion` without folds and scans of one element; reductions are folds already."""
    return rewrite(fusion, _element, may_copy=True)


def _element(statement: Statement, emit: Emitter) -> Operation | Value | None:
    match op := statement.op:
        case Reduce() if op.op in FOLDS and not op.arg.dtype.is_complex:
            dims, squeezed = op.dims, () if op.keepdim else op.dims
        case Scan():
            dims, squeezed = (op.dim,), ()
        case _:
            return None
    if any(op.arg.shape[dim] != 1 for dim in dims):
        return None
    element = op.arg
    if op.op in ("sum", "cumsum") and element.dtype.is_floating:
        # The sum of -0.0 alone is 0.
        zero = emit.add(Constant(0.0, element.dtype))
        element = emit.add(Pointwise("add", (element, zero)))
    element = emit.cast(element, statement.out.dtype)
    return emit.add(Squeeze(element, squeezed)) if squeezed else element
