"""Views, which change no element, and what moves elements by fixed rules: pads, cat, flip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fuser.frontend.handles import Handle
from fuser.integrations.aten.row import Kind, Row, row
from fuser.integrations.fx_types import NO_END
from fuser.integrations.lowering import Lowering
from fuser.ir.dtypes import DataType
from fuser.ir.shapes import row_major_strides

_aten: Any = torch.ops.aten


def _view(b: Lowering, self: Any, size: Sequence[Any]) -> Handle:
    return b.ops.reshape(b.tensor(self), b.extents(size))


def _reshape(b: Lowering, self: Any, shape: Sequence[Any]) -> Handle:
    return _view(b, self, shape)


def _as_strided(
    b: Lowering, self: Any, size: Sequence[Any], stride: Sequence[int], storage_offset: Any
) -> Handle:
    return _view(b, self, size)


def _no_reshape(node: Any, **given: Any) -> str | None:
    """Decompositions view dense tensors by strides; as a function of elements it is a reshape."""
    x, sizes = given["self"].meta["val"], list(given["size"])
    known = all(isinstance(size, int) for size in (*sizes, *x.shape))
    dense = known and x.is_contiguous() and x.numel() == math.prod(sizes)
    if dense and list(given["stride"]) == list(row_major_strides(sizes)):
        begins = given["storage_offset"] in (None, x.storage_offset())
        return None if begins else "it begins elsewhere in memory"
    return "it is another view of memory than a reshape"


def _permute(b: Lowering, self: Any, dims: Sequence[int]) -> Handle:
    x = b.tensor(self)
    return b.ops.permute(x, dims) if dims else x


def _transpose(b: Lowering, self: Any, dim0: int, dim1: int) -> Handle:
    x = b.tensor(self)
    order = list(range(x.ndim))
    if x.ndim:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return b.ops.permute(x, order) if order else x


def _t(b: Lowering, self: Any) -> Handle:
    x = b.tensor(self)
    return b.ops.permute(x, [1, 0]) if x.ndim == 2 else x


def _expand(b: Lowering, self: Any, size: Sequence[Any]) -> Handle:
    x, new = b.tensor(self), len(size) - b.tensor(self).ndim
    if new:
        x = b.ops.broadcast(x, [dim < new for dim in range(len(size))])
    return b.ops.expand(x, b.extents(size)) if size else x


def _unsqueeze(b: Lowering, self: Any, dim: int) -> Handle:
    rank = b.tensor(self).ndim + 1
    return b.ops.broadcast(b.tensor(self), [at == dim % rank for at in range(rank)])


def _squeeze(b: Lowering, self: Any, dim: int | Sequence[int]) -> Handle:
    x = b.tensor(self)
    wrapped = [at % x.ndim for at in ([dim] if isinstance(dim, int) else dim)] if x.ndim else []
    ones = [at for at in wrapped if x.value.shape[at] == 1]
    return b.ops.squeeze(x, ones) if ones else x


def _squeeze_all(b: Lowering, self: Any) -> Handle:
    return _squeeze(b, self, list(range(b.tensor(self).ndim)))


def _same(b: Lowering, self: Any) -> Handle:
    return b.tensor(self)


def _slice(b: Lowering, self: Any, dim: int, start: Any, end: Any, step: Any) -> Handle:
    x = b.tensor(self)
    return sliced(b, x, dim % x.ndim, start, end, step)


def sliced(b: Lowering, x: Handle, dim: int, start: Any, end: Any, step: Any = 1) -> Handle:
    """`x[..., start:end:step]` along `dim`; numbers, nodes, or None for the whole.

    Where an end is not a number before the call, it is a gather by a range, which becomes a slice
    once sizes are known.
    """
    size = x.value.shape[dim]
    first, last = 0 if start is None else start, NO_END if end is None else end
    known = isinstance(first, int) and isinstance(last, int) and isinstance(step, int)
    if known and (size >= 0 or (first >= 0 and (last >= 0))):
        low, high = _wrapped(first, size), max(_wrapped(last, size), _wrapped(first, size))
        starts, ends, steps = [0] * x.ndim, [NO_END] * x.ndim, [1] * x.ndim
        starts[dim], ends[dim], steps[dim] = low, high, step
        whole = low == 0 and step == 1 and high >= (size if size >= 0 else NO_END)
        return x if whole else b.ops.slice(x, starts, ends, steps)
    low, high = bounds(b, x, dim, start, end)
    pace = b.extent(step)
    count = b.ops.sub(high, low)
    if pace != 1:
        count = b.ops.div(b.ops.add(count, b.ops.sub(pace, 1)), pace)
    return b.ops.index_select(x, b.ops.iota(count, low, pace), dim)


def _wrapped(place: int, size: int) -> int:
    if size < 0:
        return place
    return min(max(place + size if place < 0 else place, 0), size)


def bounds(b: Lowering, x: Handle, dim: int, start: Any, end: Any) -> tuple[Handle, Handle]:
    """Where a slice begins and ends, as scalars from 0 to the size; the end not before."""
    size = b.ops.size(x, dim)

    def place(given: Any, otherwise: Any) -> Handle:
        if given is None:
            return b.ops.add(otherwise, 0)
        at = b.operand(given)
        if isinstance(at, Handle):
            at = b.ops.where(b.ops.lt(at, 0), b.ops.add(at, size), at)
        elif at < 0:  # pyright: ignore[reportOperatorIssue]
            at = b.ops.add(size, at)
        return b.ops.minimum(b.ops.maximum(at, 0), size)

    low = place(start, 0)
    return low, b.ops.maximum(place(end, size), low)


def _select(b: Lowering, self: Any, dim: int, index: Any) -> Handle:
    x = b.tensor(self)
    at, size = b.operand(index), x.value.shape[dim % x.ndim]
    if isinstance(at, int) and (at >= 0 or size >= 0):
        at = at + size if at < 0 else at
        return b.ops.squeeze(sliced(b, x, dim % x.ndim, at, at + 1), [dim])
    return b.ops.select(x, at, dim)


def _split(b: Lowering, self: Any, split_sizes: Sequence[Any], dim: int) -> tuple[Handle, ...]:
    x, parts = b.tensor(self), list[Handle]()
    start: Any = 0
    for size in split_sizes:
        parts.append(sliced(b, x, dim % x.ndim, start, start + size))
        start += size
    return tuple(parts)


def _split_even(b: Lowering, self: Any, split_size: int, dim: int) -> tuple[Handle, ...]:
    size = b.tensor(self).value.shape[dim % b.tensor(self).ndim]
    even, rest = divmod(size, split_size) if split_size else (1, 0)
    return _split(b, self, [split_size] * even + [rest] * bool(rest), dim)


def _unbind(b: Lowering, self: Any, dim: int) -> tuple[Handle, ...]:
    x = b.tensor(self)
    return tuple(_select(b, self, dim, at) for at in range(x.value.shape[dim % x.ndim]))


def _symbolic_split(node: Any, **given: Any) -> str | None:
    size: Any
    size, dim = given.get("split_size", given.get("split_sizes")), given["dim"]
    along = given["self"].meta["val"].shape[dim]
    listed: list[Any] = [size] if isinstance(size, int | Node) else list(size)
    known = isinstance(along, int) and not any(isinstance(part, Node) for part in listed)
    return None if known else "it splits into sizes that are not known before the call"


# -- copies --------------------------------------------------------------------------------------


def _cat(b: Lowering, tensors: Sequence[Any], dim: int) -> Handle:
    # torch skips what is empty and of one dimension, whatever the others are.
    rank = b.out.dim()
    parts = [b.exact(part) for part in tensors if b.tensor(part).ndim == rank]
    parts = [part if part.dtype() is b.dtype else b.ops.cast(part, b.dtype) for part in parts]
    return b.ops.cat(parts, dim) if len(parts) > 1 else b.ops.set(parts[0])


def _flip(b: Lowering, self: Any, dims: Sequence[int]) -> Handle:
    x = b.tensor(self)
    return b.ops.set(b.ops.flip(x, dims)) if dims and x.ndim else b.ops.set(x)


def _repeat(b: Lowering, self: Any, repeats: Sequence[int]) -> Handle:
    x, new = b.tensor(self), len(repeats) - b.tensor(self).ndim
    if new:
        x = b.ops.broadcast(x, [dim < new for dim in range(len(repeats))])
    sizes = b.sizes(x)
    apart = b.ops.broadcast(x, [at % 2 == 0 for at in range(2 * len(repeats))])
    wide = [part for pair in zip(repeats, sizes, strict=True) for part in pair]
    joined = [
        times * size if isinstance(size, int) else b.ops.mul(size, times)
        for times, size in zip(repeats, sizes, strict=True)
    ]
    return b.ops.reshape(b.ops.expand(apart, wide), joined) if repeats else b.ops.set(x)


def _constant_pad(b: Lowering, self: Any, pad: Sequence[Any], value: Any) -> Handle:
    x = b.exact(self)
    if all(isinstance(width, int) for width in pad):
        return b.ops.pad(x, list(pad), b.operand(value))
    for at in range(0, len(pad), 2):
        x = _padded(b, x, x.ndim - 1 - at // 2, b.extent(pad[at]), b.extent(pad[at + 1]), value)
    return x


def _padded(b: Lowering, x: Handle, dim: int, before: Any, after: Any, value: Any) -> Handle:
    """A pad of widths that are known at the call only: reads at clamped places, then a choice."""
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
    x, source, dim = b.tensor(self), b.tensor(src), dim % b.tensor(self).ndim
    low, high = bounds(b, x, dim, start, end)
    place = b.ops.sub(b.ops.iota(b.ops.size(x, dim)), low)
    inside = b.ops.logical_and(b.ops.ge(place, 0), b.ops.lt(place, b.ops.sub(high, low)))
    if step != 1:
        inside = b.ops.logical_and(inside, b.ops.eq(b.ops.remainder(place, step), 0))
        place = b.ops.div(place, step)
    last = b.ops.sub(b.ops.size(source, dim), 1)
    read = b.ops.index_select(source, b.ops.clamp(place, 0, last), dim)
    return b.ops.where(along(b, inside, dim, x.ndim), read, x)


def _placed(b: Lowering, self: Any, src: Any, dim: int, start: Any, end: Any, step: Any) -> Handle:
    """slice_scatter: into zeros a pad, else the parts one after the other."""
    dim, size = dim % b.tensor(self).ndim, b.tensor(self).value.shape[dim % b.tensor(self).ndim]
    whole = [0 if start is None else start, NO_END if end is None else end]
    if size < 0 or not all(isinstance(place, int) for place in (*whole, step)):
        return _slice_scatter(b, self, src, dim, start, end, step)
    low, high = (_wrapped(place, size) for place in whole)
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
    ends = [sliced(b, x, dim, 0, low)] * (low > 0), [sliced(b, x, dim, high, size)] * (high < size)
    parts = [*ends[0], source, *ends[1]]
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


def _select_scatter(b: Lowering, self: Any, src: Any, dim: int, index: int) -> Handle:
    x = b.tensor(self)
    dim, size = dim % x.ndim, x.value.shape[dim % x.ndim]
    source = b.ops.broadcast(b.tensor(src), [axis == dim for axis in range(x.ndim)])
    if size >= 0:
        at = index % size
        return _put(b, self, b.ops.cast(source, b.dtype), dim, range(at, at + 1))
    at = b.ops.add(b.size(x, dim), index) if index < 0 else index
    chosen = along(b, b.ops.eq(b.ops.iota(b.size(x, dim)), at), dim, x.ndim)
    return b.ops.where(chosen, source, x)


ROWS: tuple[Row, ...] = (
    row(_aten.view.default, _view, Kind.VIEW),
    row(_aten._unsafe_view.default, _view, Kind.VIEW),
    row(_aten.reshape.default, _reshape, Kind.VIEW),
    row(_aten.as_strided.default, _as_strided, Kind.VIEW, _no_reshape),
    row(_aten.permute.default, _permute, Kind.VIEW),
    row(_aten.transpose.int, _transpose, Kind.VIEW),
    row(_aten.t.default, _t, Kind.VIEW),
    row(_aten.expand.default, _expand, Kind.VIEW),
    row(_aten.unsqueeze.default, _unsqueeze, Kind.VIEW),
    row(_aten.squeeze.default, _squeeze_all, Kind.VIEW),
    row(_aten.squeeze.dim, _squeeze, Kind.VIEW),
    row(_aten.squeeze.dims, _squeeze, Kind.VIEW),
    row(_aten.alias.default, _same, Kind.VIEW),
    row(_aten.detach.default, _same, Kind.VIEW),
    row(_aten.slice.Tensor, _slice, Kind.VIEW),
    row(_aten.select.int, _select, Kind.VIEW),
    row(_aten.split.Tensor, _split_even, Kind.VIEW, _symbolic_split),
    row(_aten.split_with_sizes.default, _split, Kind.VIEW, _symbolic_split),
    row(_aten.unbind.int, _unbind, Kind.VIEW),
    row(_aten.cat.default, _cat),
    row(_aten.flip.default, _flip),
    row(_aten.repeat.default, _repeat),
    row(_aten.constant_pad_nd.default, _constant_pad),
    row(_aten.slice_scatter.default, _placed),
    row(_aten.select_scatter.default, _select_scatter),
)
