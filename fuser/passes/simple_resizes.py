"""Pads and concatenations that are something simpler: a slice, a constant, or what is left of them.

T3 = fd.ops.cat([T0, T1, T2], dim=0)             T1: Float[0, 4]
T4 = fd.ops.pad(T0, pad_widths=[-1, 0])          T0: Float[8, 4]
T5 = fd.ops.pad(T1, pad_widths=[0, 0, 2, 0])
->
T3 = fd.ops.cat([T0, T2], dim=0)
T4 = fd.ops.slice(T0, start_indices=[0, 1], end_indices=[8, 4])
T5 = fd.ops.full(shape=[2, 4], fill_value=S0, dtype=DataType.Float)

So kernels never pad or concatenate what has no elements.
"""

from __future__ import annotations

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Cat,
    Constant,
    Full,
    Fusion,
    Operation,
    Pad,
    Slice,
    Statement,
    Value,
    static,
)
from fuser.passes.rewrite import Emitter, rewrite


def simplify_resizes(fusion: Fusion) -> Fusion:
    """`fusion` without pads that add nothing, and without what has no elements in its pads and
    concatenations."""
    return rewrite(fusion, _simpler, may_copy=True)


def _simpler(statement: Statement, emit: Emitter) -> Operation | Value | None:
    op, out = statement.op, statement.outs[0]
    if not isinstance(op, Pad | Cat):
        return None
    if out.elements == 0:
        return Full(out.shape, emit.add(Constant(0, DataType.Int)), out.dtype)
    return _padded(op, out) if isinstance(op, Pad) else _joined(op)


def _padded(op: Pad, out: Value) -> Operation | Value | None:
    if op.arg.elements == 0:
        return Full(out.shape, op.fill, out.dtype)
    befores = static(before for before, _ in op.widths)
    afters = static(after for _, after in op.widths)
    if any(width > 0 for width in befores + afters):
        return None
    starts = tuple(-before for before in befores)
    ends = tuple(size + after for size, after in zip(op.arg.shape, afters, strict=True))
    if out.shape == op.arg.shape:
        return op.arg
    return Slice(op.arg, starts, ends, (1,) * len(starts))


def _joined(op: Cat) -> Operation | Value | None:
    args = tuple(arg for arg in op.args if arg.elements)
    if len(args) == 1:
        return args[0]
    return None if args == op.args else Cat(args, op.dim)
