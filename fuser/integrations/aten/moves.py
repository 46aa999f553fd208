"""What moves elements by fixed rules: cat, flip, repeat, pads, and writes to a slice.

slice_scatter(full(0), x, ...)    a pad of x
slice_scatter(y, x, ...)          cat of a slice of y, x, and another slice of y; with steps, and
                                  at places known at the call only, a choice between both
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fuser.frontend.handles import Handle
from fuser.integrations.aten.lowering import Lowering
from fuser.integrations.aten.row import Row, row
from fuser.integrations.aten.views import bounds, from_start, sliced, wrapped
from fuser.integrations.fx.nodes import NO_END, static_sizes, tensor_of
from fuser.ir.dtypes import DataType

_aten: Any = torch.ops.aten


def _cat(b: Lowering, tensors: Sequence[Any], dim: int) -> Handle:
    # torch skips what is empty and of one dimension, whatever the others are.
    rank = b.out.dim()
    parts = [b.exact(part) for part in tensors if b.tensor(part).ndim == rank]
    parts = [part if part.dtype() is b.dtype else b.ops.cast(part, b.dtype) for part in parts]
    return b.ops.cat(parts, dim) if len(parts) > 1 else b.ops.set(parts[0])


def _flip(b: Lowering, self: Any, dims: Sequence[int]) -> Handle:
    x = b.tensor(self)
    return b.ops.set(b.ops.flip(x, dims)) if dims and x.ndim else b.ops.set(x)


def _repeat(b: Lowering, self: Any, repeats: Sequence[Any]) -> Handle:
    x = b.with_rank(b.tensor(self), len(repeats))
    pairs = list(zip(b.extents(repeats), b.sizes(x), strict=True))
    apart = b.ops.broadcast(x, [at % 2 == 0 for at in range(2 * len(pairs))])
    wide = [part for pair in pairs for part in pair]
    joined = [b.product(pair) for pair in pairs]
    return b.ops.reshape(b.ops.expand(apart, wide), joined) if repeats else b.ops.set(x)


def _constant_pad(b: Lowering, self: Any, pad: Sequence[Any], value: Any) -> Handle:
    x = b.exact(self)
    if all(isinstance(width, int) for width in pad):
        if not any(pad):
            return b.ops.set(x)
        return b.ops.pad(x, list(pad), b.operand(value))
    for at in range(0, len(pad), 2):
        x = padded(b, x, x.ndim - 1 - at // 2, b.extent(pad[at]), b.extent(pad[at + 1]), value)
    return x


def padded(b: Lowering, x: Handle, dim: int, before: Any, after: Any, value: Any) -> Handle:
    """A pad of one dimension; of widths that are known at the call only, reads at clamped places,
    then a choice."""
    if isinstance(before, int) and isinstance(after, int):
        widths = [*([0, 0] * (x.ndim - 1 - dim)), before, after]
        return b.ops.pad(x, widths, b.operand(value)) if before or after else x
    if x.value.shape[dim] == 0:  # no place in it to clamp to
        sizes = b.sizes(x)
        sizes[dim] = b.ops.add(before, after)
        return b.ops.full(sizes, b.operand(value), x.dtype())
    size = b.ops.size(x, dim)
    place = b.ops.sub(b.ops.iota(b.ops.add(b.ops.add(size, before), after)), before)
    read = b.ops.index_select(x, b.ops.clamp(place, 0, b.ops.sub(size, 1)), dim)
    inside = b.ops.logical_and(b.ops.ge(place, 0), b.ops.lt(place, size))
    return b.ops.where(along(b, inside, dim, x.ndim), read, b.operand(value))


def along(b: Lowering, vector: Handle, dim: int, rank: int) -> Handle:
    """A vector as dimension `dim` of a tensor."""
    return b.ops.broadcast(vector, [at != dim for at in range(rank)]) if rank > 1 else vector


def _slice_scatter(
    b: Lowering, self: Any, src: Any, dim: int, start: Any, end: Any, step: Any
) -> Handle:
    x, source = b.tensor(self), b.tensor(src)
    size = static_sizes(tensor_of(src))[dim]
    if size == 0:  # no place in it to clamp to
        return b.ops.set(x)
    if size < 0:  # perhaps none: one more, which nothing takes
        source = b.ops.pad(source, [0, 0] * (x.ndim - 1 - dim) + [0, 1])
    low, high = bounds(b, x, dim, start, end)
    place = b.ops.sub(b.ops.iota(b.ops.size(x, dim)), low)
    inside = b.ops.logical_and(b.ops.ge(place, 0), b.ops.lt(place, b.ops.sub(high, low)))
    if step != 1:
        pace = b.extent(step)
        inside = b.ops.logical_and(inside, b.ops.eq(b.ops.remainder(place, pace), 0))
        place = b.ops.div(place, pace)
    last = b.ops.sub(b.ops.size(source, dim), 1)
    read = b.ops.index_select(source, b.ops.clamp(place, 0, last), dim)
    return b.ops.where(along(b, inside, dim, x.ndim), read, x)


def _placed(b: Lowering, self: Any, src: Any, dim: int, start: Any, end: Any, step: Any) -> Handle:
    """slice_scatter: into zeros a pad, else the parts one after the other."""
    dim %= b.tensor(self).ndim
    size = b.tensor(self).value.shape[dim]
    whole = [0 if start is None else start, NO_END if end is None else end]
    if size < 0 or not all(isinstance(place, int) for place in (*whole, step)):
        return _slice_scatter(b, self, src, dim, start, end, step)
    low, high = (wrapped(place, size) for place in whole)
    return _put(b, self, b.ops.cast(b.tensor(src), b.dtype), dim, range(low, high, step))


def _put(b: Lowering, self: Any, source: Handle, dim: int, places: range) -> Handle:
    """`self` with `source` at some places along `dim`."""
    x, size, fill = b.exact(self), b.tensor(self).value.shape[dim], filled_with(self)
    if not places:
        return b.ops.set(x)
    if len(places) > 1 and places.step > 1:
        spread = _spread(b, source, dim, places, size, 0 if fill is None else fill)
        if fill is not None:
            return spread
        each = b.ops.full([len(places)], True, DataType.Bool)
        taken = _spread(b, each, 0, places, size, False)
        return b.ops.where(along(b, taken, dim, x.ndim), spread, x)
    low, high = places[0], places[-1] + 1
    if fill is not None:
        widths = [0, 0] * (x.ndim - 1 - dim) + [low, size - high]
        return b.ops.pad(source, widths, fill)
    parts = [sliced(b, x, dim, 0, low)] if low > 0 else []
    parts.append(source)
    if high < size:
        parts.append(sliced(b, x, dim, high, size))
    return b.ops.cat(parts, dim) if len(parts) > 1 else b.ops.set(source)


def _spread(b: Lowering, x: Handle, dim: int, places: range, size: int, fill: float) -> Handle:
    """`x` at some places along `dim`, which becomes `size`, and `fill` between, before and after:
    each element is padded to a block of its own, then all of them are."""
    step, sizes = places.step, b.sizes(x)
    blocks, within = divmod(places[0], step)
    before, after = blocks * step, size - (blocks + len(places)) * step
    inner = [0, 0] * (x.ndim - 1 - dim)
    apart = b.ops.broadcast(x, [at == dim + 1 for at in range(x.ndim + 1)])
    apart = b.ops.pad(apart, [*inner, within, step - 1 - within], fill)
    sizes[dim] = len(places) * step
    return b.ops.pad(b.ops.reshape(apart, sizes), [*inner, before, after], fill)


def filled_with(node: Any) -> float | None:
    """The number that a factory's tensor is full of."""
    targets = (_aten.full.default, _aten.full_like.default)
    fill = node.args[1] if node.target in targets else None
    return fill if isinstance(fill, int | float) else None


def _select_scatter(b: Lowering, self: Any, src: Any, dim: int, index: Any) -> Handle:
    x = b.tensor(self)
    dim = dim % x.ndim
    size, at = b.size(x, dim), b.extent(index)
    source = b.ops.broadcast(b.tensor(src), [axis == dim for axis in range(x.ndim)])
    if isinstance(size, int) and isinstance(at, int):
        at %= size
        return _put(b, self, b.ops.cast(source, b.dtype), dim, range(at, at + 1))
    chosen = b.ops.eq(b.ops.iota(size), from_start(b, at, size))
    return b.ops.where(along(b, chosen, dim, x.ndim), source, x)


ROWS: tuple[Row, ...] = (
    row(_aten.cat.default, _cat),
    row(_aten.flip.default, _flip),
    row(_aten.repeat.default, _repeat),
    row(_aten.constant_pad_nd.default, _constant_pad),
    row(_aten.slice_scatter.default, _placed),
    row(_aten.select_scatter.default, _select_scatter),
)
