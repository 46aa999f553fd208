"""Pads, concatenations and what is seen of them that is something simpler.

T3 = fd.ops.cat([T0, T1, T2], dim=0)             T1: Float[0, 4]
T4 = fd.ops.pad(T0, pad_widths=[-1, 0])          T0: Float[8, 4]
T5 = fd.ops.pad(T1, pad_widths=[0, 0, 2, 0])
->
T3 = fd.ops.cat([T0, T2], dim=0)
T4 = fd.ops.slice(T0, start_indices=[0, 1], end_indices=[8, 4])
T5 = fd.ops.full(shape=[2, 4], fill_value=S0, dtype=DataType.Float)

T3 = fd.ops.cat([T0, T1, T2], dim=0)             each Float[8, 4]
T4 = fd.ops.reshape(T3, new_shape=[3, 8, 4])
T5 = fd.ops.slice(T4, start_indices=[1, 0, 0], end_indices=[2, 8, 2])
->
T4 = fd.ops.cat([...], dim=0)                    of reshapes to Float[1, 8, 4]
T5 = fd.ops.slice(fd.ops.reshape(T1, ...), start_indices=[0, 0, 0], end_indices=[1, 8, 2])

So kernels never pad or concatenate what has no elements, and what is stacked is a dimension of its
own, of which nothing is made for a reader of one part.
"""

from __future__ import annotations

from operator import sub

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
    View,
    static,
)
from fuser.passes.rewrite import Emitter, rewrite


def simplify_resizes(fusion: Fusion) -> Fusion:
    """`fusion` without pads that add nothing, and without what has no elements in its pads and
    concatenations."""
    return rewrite(fusion, _simpler, may_copy=True)


def _simpler(statement: Statement, emit: Emitter) -> Operation | Value | None:
    op, out = statement.op, statement.outs[0]
    if isinstance(op, Pad | Cat) and out.elements == 0:
        return Full(out.shape, emit.add(Constant(0, DataType.Int)), out.dtype)
    match op:
        case Pad():
            return _padded(op, out)
        case Cat():
            return _joined(op)
        case View():
            return _stacked(op, out, emit)
        case Slice():
            return _part(op, emit)
        case _:
            return None


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


def _stacked(op: View, out: Value, emit: Emitter) -> Operation | Value | None:
    """A view in which the parts of a concatenation are along a dimension of their own."""
    whole = emit.producer(op.arg)
    if not isinstance(whole, Cat):
        return None
    dim, parts = whole.dim, whole.args
    size = parts[0].shape[dim]
    shape = op.arg.shape
    if any(part.shape[dim] != size for part in parts):
        return None
    if out.shape != (*shape[:dim], len(parts), size, *shape[dim + 1 :]):
        return None
    one = (*shape[:dim], 1, size, *shape[dim + 1 :])
    return Cat(tuple(emit.add(View(part, one)) for part in parts), dim)


def _part(op: Slice, emit: Emitter) -> Operation | Value | None:
    """A slice of one part of a concatenation."""
    whole = emit.producer(op.arg)
    if not isinstance(whole, Cat):
        return None
    dim = whole.dim
    starts = list(map(min, static(op.starts), op.arg.shape))
    ends = list(map(min, static(op.ends), op.arg.shape))
    low = 0
    for part in whole.args:
        high = low + part.shape[dim]
        if low <= starts[dim] and ends[dim] <= high:
            before = [low if each == dim else 0 for each in range(len(starts))]
            first, end = tuple(map(sub, starts, before)), tuple(map(sub, ends, before))
            return Slice(part, first, end, op.steps)
        low = high
    return None
