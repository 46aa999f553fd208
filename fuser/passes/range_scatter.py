"""Adding to zeros at a range is a pad; at a range that covers everything, a scatter is its source.

T1 = fd.ops.full(shape=[8, 12], fill_value=S0, dtype=DataType.Float)        S0: 0
T2 = fd.ops.iota(4, start=S1, step=S2)               3, 5, 7, 9       T3: Float[8, 4]
T4 = fd.ops.index_add(T1, T2, T3, dim=1)
->
T5 = fd.ops.broadcast(T3, is_broadcast_dim=[False, False, True])      one element, then ...
T6 = fd.ops.pad(T5, pad_widths=[0, 1], value=S0)                      ... step - 1 zeros
T7 = fd.ops.reshape(T6, new_shape=[8, 8])
T4 = fd.ops.pad(T7, pad_widths=[3, 1], value=S0)

A falling range is flipped first. Added to anything but zeros, the pad is added. A range that stays
at one place or leaves the dimension is left as it is. The sign of a zero may differ: a -0.0 that is
added to 0.0 is 0.0, and padded stays -0.0.
"""

from __future__ import annotations

from fuser.ir.infer import infer
from fuser.ir.neutral import zero_to_add
from fuser.ir.nodes import (
    Broadcast,
    Constant,
    Flip,
    Full,
    Fusion,
    Operation,
    Pad,
    Pointwise,
    Scatter,
    Statement,
    Value,
    View,
)
from fuser.passes.constants import zero_in
from fuser.passes.ranges import Range, Ranges
from fuser.passes.rewrite import Emitter, rewrite


def pad_range_scatters(fusion: Fusion) -> Fusion:
    """`fusion` with additions at constant ranges taken as pads."""
    ranges = Ranges()

    def rule(statement: Statement, emit: Emitter) -> Operation | Value | None:
        ranges.note(statement)
        op = statement.op
        if not isinstance(op, Scatter) or op.joins not in (None, "add"):
            return None
        places = _places(op, ranges)
        if places is None or (places.step == 0 and places.count > 1):
            return None
        if op.joins is None:
            return _overwritten(op, places, emit)
        return _added(op, places, emit)

    return rewrite(fusion, rule, may_copy=True)


def _places(op: Scatter, ranges: Ranges) -> Range | None:
    """Where elements go along `dim`."""
    match op.mode:
        case "scatter" | "scatter_add":
            found = ranges.along(op.index, op.dim)
        case _:
            found = ranges.flat(op.index)
    wraps = op.mode == "index_put_accumulate"
    return None if found is None else found.within(op.arg.shape[op.dim], wraps=wraps)


def _overwritten(op: Scatter, places: Range, emit: Emitter) -> Operation | Value | None:
    """The source, where it replaces every element."""
    if op.index.shape != op.arg.shape or abs(places.step) > 1:
        return None
    if not op.src.is_tensor:
        return Full(op.arg.shape, op.src, op.arg.dtype)
    source = emit.leading(op.src, op.index.shape)
    return emit.add(Flip(source, (op.dim,))) if places.step < 0 else source


def _added(op: Scatter, places: Range, emit: Emitter) -> Operation | Value | None:
    source = op.src
    if op.mode == "scatter_add":
        source = emit.leading(source, op.index.shape)
    elif op.mode == "index_put_accumulate" and len(op.index.shape) != 1:
        source = emit.add(View(source, (places.count, *op.arg.shape[1:])))
    zero = zero_in(op.arg, emit)
    if zero is not None:
        return _spread(op, source, places, emit.add(zero), emit)
    if infer(Pointwise("add", (op.arg, op.arg)))[0].dtype is not op.arg.dtype:
        return None
    fill = emit.add(Constant(zero_to_add(op.arg.dtype), op.arg.dtype))
    return Pointwise("add", (op.arg, _spread(op, source, places, fill, emit)))


def _spread(op: Scatter, source: Value, places: Range, fill: Value, emit: Emitter) -> Value:
    """`source` at its places in a tensor of `fill`, of the sizes of the data."""
    dim, pace = op.dim, max(abs(places.step), 1)
    if places.step < 0:
        source = emit.add(Flip(source, (dim,)))
    if pace > 1:
        rank = len(source.shape)
        apart = emit.add(Broadcast(source, tuple(d == dim + 1 for d in range(rank + 1))))
        widths = tuple((0, pace - 1 if d == dim + 1 else 0) for d in range(rank + 1))
        apart = emit.add(Pad(apart, widths, fill))
        shape = source.shape
        source = emit.add(View(apart, (*shape[:dim], shape[dim] * pace, *shape[dim + 1 :])))
    before = tuple(places.low if d == dim else 0 for d in range(len(source.shape)))
    sizes = zip(before, source.shape, op.arg.shape, strict=True)
    widths = tuple((start, size - start - have) for start, have, size in sizes)
    nothing = all(width == (0, 0) for width in widths)
    return source if nothing else emit.add(Pad(source, widths, fill))
