"""Views, which change no element: other sizes, other orders of dimensions, parts of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fuser.frontend.handles import Handle
from fuser.integrations.aten.lowering import Lowering
from fuser.integrations.aten.row import Kind, Row, row
from fuser.integrations.fx.nodes import NO_END, is_static, tensor_of
from fuser.ir.dtypes import NUMBERS, DataType, from_torch
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


_WHOLE = (DataType.Float, DataType.Double)
"""Floats that are read as integers of their size, and made of them, in a definition."""


def _as_other_bits(b: Lowering, self: Any, dtype: torch.dtype) -> Handle:
    """The same bytes as elements of another type of the same size."""
    x, to = b.exact(self), b.dtype
    if x.dtype() is to:
        return b.ops.set(x)
    if x.dtype() is DataType.BFloat16:  # the upper half of a float32
        wide = b.ops.bits(b.ops.cast(x, DataType.Float))
        return b.ops.cast(b.ops.bitwise_right_shift(wide, 16), to)
    if x.dtype().is_floating:
        bits = b.ops.bits(x)
        return bits if bits.dtype() is to else b.ops.cast(bits, to)
    if to in _WHOLE:
        return b.ops.float_of_bits(x) if to is DataType.Float else b.ops.double_of_bits(x)
    return b.ops.cast(x, to)


def _no_other_bits(node: Node, **given: Any) -> str | None:
    of, to = (from_torch(dtype) for dtype in (tensor_of(given["self"]).dtype, given["dtype"]))
    if of not in NUMBERS or to not in NUMBERS or DataType.Bool in (of, to):
        return "there is no integer of these bits"
    if of.itemsize != to.itemsize:
        return "its elements are of another size"
    is_read = of.is_integral or of in (*_WHOLE, DataType.BFloat16) or of.is_byte_float
    is_made = to.is_integral or (to in _WHOLE and of.is_integral)
    return None if of is to or (is_read and is_made) else f"no {to.name} is made of bits"


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
    return b.expanded(b.tensor(self), b.extents(size))


def _unsqueeze(b: Lowering, self: Any, dim: int) -> Handle:
    rank = b.tensor(self).ndim + 1
    return b.ops.broadcast(b.tensor(self), [at == dim % rank for at in range(rank)])


def _squeeze(b: Lowering, self: Any, dim: int | Sequence[int] | None = None) -> Handle:
    """All dimensions of one element where none is named."""
    x = b.tensor(self)
    named = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    wrapped = [at % x.ndim for at in named] if x.ndim else []
    ones = [at for at in wrapped if x.value.shape[at] == 1]
    return b.ops.squeeze(x, ones) if ones else x


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
        low, high = wrapped(first, size), max(wrapped(last, size), wrapped(first, size))
        starts, steps = [0] * x.ndim, [1] * x.ndim
        ends = [extent if extent >= 0 else NO_END for extent in x.value.shape]
        starts[dim], ends[dim], steps[dim] = low, high, step
        whole = low == 0 and step == 1 and high >= (size if size >= 0 else NO_END)
        return x if whole else b.ops.slice(x, starts, ends, steps)
    low, high = bounds(b, x, dim, start, end)
    pace = b.extent(step)
    count = b.ops.sub(high, low)
    if isinstance(pace, Handle) or pace != 1:
        count = b.ops.div(b.ops.add(count, b.ops.sub(pace, 1)), pace)
    return b.ops.index_select(x, b.ops.iota(count, low, pace), dim)


def wrapped(place: int, size: int) -> int:
    """A place counted from the start, within a size; as it is where the size is not known."""
    if size < 0:
        return place
    return min(max(place + size if place < 0 else place, 0), size)


def from_start(b: Lowering, place: int | Handle, size: int | Handle) -> int | Handle:
    """A place counted from the start, of one that is counted from the end if it is negative."""
    if isinstance(place, Handle):
        return b.ops.where(b.ops.lt(place, 0), b.ops.add(place, size), place)
    return place if place >= 0 else b.ops.add(size, place)


def bounds(b: Lowering, x: Handle, dim: int, start: Any, end: Any) -> tuple[Handle, Handle]:
    """Where a slice begins and ends, as scalars from 0 to the size; the end not before."""
    size = b.ops.size(x, dim)

    def place(given: Any, otherwise: Any) -> Handle:
        if given is None:
            return b.ops.add(otherwise, 0)
        at = from_start(b, b.extent(given), size)
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
    start: int | Handle = 0
    for size in b.extents(split_sizes):
        known = isinstance(start, int) and isinstance(size, int)
        end = start + size if known else b.ops.add(start, size)
        parts.append(sliced(b, x, dim % x.ndim, start, end))
        start = end
    return tuple(parts)


def _split_even(b: Lowering, self: Any, split_size: int, dim: int) -> tuple[Handle, ...]:
    size = b.tensor(self).value.shape[dim % b.tensor(self).ndim]
    even, rest = divmod(size, split_size) if split_size else (1, 0)
    return _split(b, self, [split_size] * even + [rest] * bool(rest), dim)


def _unbind(b: Lowering, self: Any, dim: int) -> tuple[Handle, ...]:
    x = b.tensor(self)
    return tuple(_select(b, self, dim, at) for at in range(x.value.shape[dim % x.ndim]))


def _open_parts(node: Node, **given: Any) -> str | None:
    """Tracing writes such a split as one into a list of sizes."""
    dim: int = given["dim"]
    along = tensor_of(given["self"]).shape[dim]
    known = is_static(along) and isinstance(given["split_size"], int)
    return None if known else "it splits into sizes that are not known before the call"


def _unfold(b: Lowering, self: Any, dimension: int, size: int, step: int) -> Handle:
    """Windows that are apart, [..., how many, ..., size]: a reshape of what they are taken from."""
    x = b.tensor(self)
    dim, sizes = dimension % x.ndim, b.sizes(x)
    count: int | Handle = b.out.shape[dim]
    if is_static(count):
        count = int(count)
        pace = step if count > 1 else size
        blocks = sliced(b, x, dim, 0, count * pace)
    else:
        pace, count = size, b.ops.div(sizes[dim], size)
        blocks = sliced(b, x, dim, 0, b.ops.mul(count, size))
    split = b.ops.reshape(blocks, [*sizes[:dim], count, pace, *sizes[dim + 1 :]])
    windows = sliced(b, split, dim + 1, 0, size)
    return b.ops.permute(windows, [at for at in range(x.ndim + 1) if at != dim + 1] + [dim + 1])


def _not_apart(node: Node, **given: Any) -> str | None:
    """Windows that overlap would be a gather; torch's view of them is read by strides."""
    x, size, step = tensor_of(given["self"]), given["size"], given["step"]
    if not x.dim():
        return "the tensor has no dimension"
    if not all(isinstance(number, int) for number in (size, step)):
        return "its windows are not known before the call"
    dim: int = given["dimension"] % x.dim()
    count = tensor_of(node).shape[dim]
    if not is_static(count):
        # Whether there is an only window is not known, nor what lies behind the last one.
        return None if size == step else "how many windows it has is not known before the call"
    if count > 1 and step < size:
        return "its windows overlap"
    whole = count == 1 or count * step <= x.shape[dim]
    return None if whole else "nothing lies between its last window and the end"


ROWS: tuple[Row, ...] = (
    row(_aten.view.default, _view, Kind.VIEW),
    row(_aten.view.dtype, _as_other_bits, Kind.VIEW, _no_other_bits),
    row(_aten._unsafe_view.default, _view, Kind.VIEW),
    row(_aten.reshape.default, _reshape, Kind.VIEW),
    row(_aten.as_strided.default, _as_strided, Kind.VIEW, _no_reshape),
    row(_aten.permute.default, _permute, Kind.VIEW),
    row(_aten.transpose.int, _transpose, Kind.VIEW),
    row(_aten.t.default, _t, Kind.VIEW),
    row(_aten.expand.default, _expand, Kind.VIEW),
    row(_aten.unsqueeze.default, _unsqueeze, Kind.VIEW),
    row(_aten.squeeze.default, _squeeze, Kind.VIEW),
    row(_aten.squeeze.dim, _squeeze, Kind.VIEW),
    row(_aten.squeeze.dims, _squeeze, Kind.VIEW),
    row(_aten.alias.default, _same, Kind.VIEW),
    row(_aten.detach.default, _same, Kind.VIEW),
    row(_aten.slice.Tensor, _slice, Kind.VIEW),
    row(_aten.select.int, _select, Kind.VIEW),
    row(_aten.split.Tensor, _split_even, Kind.VIEW, _open_parts),
    row(_aten.split_with_sizes.default, _split, Kind.VIEW),
    row(_aten.unbind.int, _unbind, Kind.VIEW),
    row(_aten.unfold.default, _unfold, Kind.VIEW, _not_apart),
)
