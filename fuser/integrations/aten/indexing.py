"""Reads and writes at computed coordinates.

Several indices at once are one: the dimensions they index are taken together, and their places
computed from the indices by row-major strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from fuser.frontend.handles import Handle
from fuser.integrations.aten.lowering import Lowering
from fuser.integrations.aten.masks import is_choice, put_where
from fuser.integrations.aten.row import Row, row
from fuser.integrations.fx.nodes import tensor_of

_aten: Any = torch.ops.aten


def _gather(b: Lowering, self: Any, dim: int, index: Any) -> Handle:
    return b.ops.gather(b.tensor(self), b.tensor(index), dim)


def _index_select(b: Lowering, self: Any, dim: int, index: Any) -> Handle:
    return b.ops.index_select(b.tensor(self), b.tensor(index), dim)


def _embedding(b: Lowering, weight: Any, indices: Any) -> Handle:
    return _rows_at(b, b.tensor(weight), b.tensor(indices))


def _rows_at(b: Lowering, x: Handle, index: Handle) -> Handle:
    """The rows of `x` at an index of any rank, whose dimensions take the place of the first."""
    if index.ndim == 1:
        return b.ops.index_select(x, index, 0)
    flat = b.ops.reshape(index, [-1]) if index.ndim else b.ops.broadcast(index, [True])
    read = b.ops.index_select(x, flat, 0)
    return b.ops.reshape(read, [*b.sizes(index), *b.sizes(x)[1:]])


# -- indices in several dimensions ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Indexed:
    """`x` with the indexed dimensions in front as one, and the place in it of each element.

    `order` has the dimensions of `x` as they come in `rows`. `others` are the sizes of those that
    are not indexed; `before` of them stand before the indices' own in the result.
    """

    rows: Handle
    order: list[int]
    place: Handle
    others: list[int | Handle]
    before: int


def _indexed(
    b: Lowering, x: Handle, indices: Sequence[Any], name: str, *, wraps: bool = False
) -> _Indexed:
    """`wraps` where what takes a single index counts negative places from the end itself."""
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    others = [dim for dim in range(x.ndim) if dim not in dims]
    sizes = b.sizes(x)
    order = [*dims, *others]
    rows = x if order == list(range(x.ndim)) else b.ops.permute(x, order)
    count = b.product(sizes[dim] for dim in dims)
    if len(dims) > 1:
        rows = b.ops.reshape(rows, [count, *(sizes[dim] for dim in others)])
    place: Handle | None = None
    for dim in dims:
        if wraps and len(dims) == 1:
            place = b.tensor(indices[dim])
            break
        at = _counted(b, indices[dim], sizes[dim], name, checked=len(dims) > 1)
        place = at if place is None else b.ops.add(b.ops.mul(place, sizes[dim]), at)
    assert place is not None
    together = dims == list(range(dims[0], dims[-1] + 1))
    before = dims[0] if together else 0
    return _Indexed(rows, order, place, [sizes[dim] for dim in others], before)


def _counted(b: Lowering, index: Any, size: int | Handle, name: str, *, checked: bool) -> Handle:
    """An index whose negative places count from the end."""
    at = b.tensor(index)
    if not _not_negative(index):
        at = b.ops.where(b.ops.lt(at, 0), b.ops.add(at, size), at)
    if checked and isinstance(size, int) and not _not_negative(index):
        return b.ops.check_index(at, size, name)
    return at


def _not_negative(index: Any) -> bool:
    """Whether an index is a range that begins at 0 or above, perhaps under another shape."""
    node: Node = index
    while node.target in _RELABELLED:
        (node, *_) = node.all_input_nodes
    if node.target is _aten.arange.default:
        return True
    if node.target is not _aten.arange.start_step:
        return False
    start, step = node.args[0], (*node.args, 1)[2]
    return isinstance(start, int) and start >= 0 and isinstance(step, int) and step >= 0


_RELABELLED = (
    _aten.view.default,
    _aten.unsqueeze.default,
    _aten.expand.default,
    _aten.squeeze.dim,
    _aten.squeeze.dims,
    _aten.permute.default,
)


def _one_behind(b: Lowering, indices: Sequence[Any]) -> int | None:
    """The one dimension that is indexed, by a list of places, if others are before it: it need not
    come in front of them."""
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    one = len(dims) == 1 and dims[0] > 0 and b.tensor(indices[dims[0]]).ndim == 1
    return dims[0] if one else None


def _index(b: Lowering, self: Any, indices: Sequence[Any]) -> Handle:
    x = b.tensor(self)
    dim = _one_behind(b, indices)
    if dim is not None:
        place = _counted(b, indices[dim], b.sizes(x)[dim], "index", checked=False)
        return b.ops.index_select(x, place, dim)
    found = _indexed(b, x, indices, "index")
    read = _rows_at(b, found.rows, found.place)
    rank, before = found.place.ndim, found.before
    if before == 0:
        return read
    # The result has the dimensions before the indices first.
    order = [*range(rank, rank + before), *range(rank), *range(rank + before, read.ndim)]
    return b.ops.permute(read, order)


def _index_put(
    b: Lowering, self: Any, indices: Sequence[Any], values: Any, accumulate: bool
) -> Handle:
    if is_choice(self, indices, values, accumulate):
        return put_where(b, self, indices, values, accumulate)
    x = b.exact(self)
    value = b.ops.cast(b.tensor(values), b.dtype)
    dim = _one_behind(b, indices)
    if dim is not None:
        return _put_along(b, x, dim, indices[dim], value, accumulate)
    found = _indexed(b, x, indices, "index_put", wraps=accumulate)
    rank, before, others = found.place.ndim, found.before, found.others
    at = b.sizes(found.place)
    whole = [*others[:before], *at, *others[before:]]
    value = b.expanded(value, whole)
    if before:
        order = [*range(before, before + rank), *range(before), *range(before + rank, len(whole))]
        value = b.ops.permute(value, order)
    place = b.ops.reshape(found.place, [-1]) if rank != 1 else found.place
    value = b.ops.reshape(value, [b.product(at), *others]) if rank != 1 else value
    written = _written(b, found.rows, place, value, accumulate)
    return _back(b, written, x, found.order)


def _put_along(
    b: Lowering, x: Handle, dim: int, index: Any, value: Handle, accumulate: bool
) -> Handle:
    """Slices along a dimension behind others, which need not be in front of them for it."""
    sizes = b.sizes(x)
    place = _counted(b, index, sizes[dim], "index_put", checked=False)
    whole = [*sizes[:dim], *b.sizes(place), *sizes[dim + 1 :]]
    return _written(b, x, place, b.expanded(value, whole), accumulate, dim)


def _written(
    b: Lowering, x: Handle, place: Handle, value: Handle, accumulate: bool, dim: int = 0
) -> Handle:
    """`x` with slices of a value at places along a dimension; only along the first may they be
    negative and added."""
    if accumulate:
        add = b.ops.index_add
        return add(x, place, value, dim) if dim else b.ops.index_put_accumulate(x, place, value)
    if value.ndim > 1:
        place = b.ops.broadcast(place, [other != dim for other in range(value.ndim)])
        place = b.ops.expand(place, b.sizes(value))
    return b.ops.scatter(x, place, value, dim)


def _back(b: Lowering, rows: Handle, x: Handle, order: list[int]) -> Handle:
    """Rows under the sizes and order of `x`."""
    sizes = b.sizes(x)
    if rows.ndim < x.ndim:
        rows = b.ops.reshape(rows, [sizes[dim] for dim in order])
    if order == list(range(x.ndim)):
        return rows
    return b.ops.permute(rows, [order.index(dim) for dim in range(x.ndim)])


def _not_indices(node: Node, **given: Any) -> str | None:
    indices = [index for index in given["indices"] if index is not None]
    kinds = {tensor_of(index).dtype for index in indices}
    if not kinds <= {torch.int64, torch.int32}:
        return f"an index is {next(iter(kinds))}: how many elements it reads is known afterwards"
    if not indices or not tensor_of(given["self"]).dim():
        return "there is no index"
    return None


def _not_places(node: Node, **given: Any) -> str | None:
    held, source = tensor_of(given["self"]).dtype, tensor_of(given["values"]).dtype
    if held != source:
        return f"{source} is put into {held}, for which torch raises an error"
    put = (given[name] for name in ("self", "indices", "values", "accumulate"))
    return None if is_choice(*put) else _not_indices(node, **given)


# -- scatters ------------------------------------------------------------------------------------


def _scatter_value(b: Lowering, self: Any, dim: int, index: Any, value: Any) -> Handle:
    return b.ops.scatter(b.exact(self), b.tensor(index), b.operand(value), dim)


def _scatter_src(b: Lowering, self: Any, dim: int, index: Any, src: Any) -> Handle:
    source = b.ops.cast(b.tensor(src), b.dtype)
    return b.ops.scatter(b.exact(self), b.tensor(index), source, dim)


def _scatter_add(b: Lowering, self: Any, dim: int, index: Any, src: Any) -> Handle:
    return b.ops.scatter_add(b.exact(self), b.tensor(index), b.exact(src), dim)


def _scatter_reduce(
    b: Lowering, self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool
) -> Handle:
    joined = _JOINED[reduce]
    return getattr(b.ops, joined)(b.exact(self), b.tensor(index), b.exact(src), dim)


_JOINED = {"amax": "scatter_amax", "amin": "scatter_amin", "prod": "scatter_prod"}


def _not_joined(node: Node, **given: Any) -> str | None:
    """Sums, means, and those without what was there, are decomposed before."""
    if given["reduce"] not in _JOINED or not given["include_self"]:
        return f"it is reduced by {given['reduce']!r} with include_self={given['include_self']}"
    return None


def _index_add(b: Lowering, self: Any, dim: int, index: Any, source: Any, alpha: Any) -> Handle:
    added = b.exact(source)
    if alpha != 1:
        added = b.ops.cast(b.ops.mul(added, b.operand(alpha)), b.dtype)
    return b.ops.index_add(b.exact(self), b.tensor(index), added, dim)


ROWS: tuple[Row, ...] = (
    row(_aten.gather.default, _gather),
    row(_aten.index_select.default, _index_select),
    row(_aten.embedding.default, _embedding),
    row(_aten.index.Tensor, _index, refuse=_not_indices),
    row(_aten._unsafe_index.Tensor, _index, refuse=_not_indices),
    row(_aten.index_put.default, _index_put, refuse=_not_places),
    row(_aten._unsafe_index_put.default, _index_put, refuse=_not_places),
    row(_aten.scatter.value, _scatter_value),
    row(_aten.scatter.src, _scatter_src),
    row(_aten.scatter_add.default, _scatter_add),
    row(_aten.scatter_reduce.two, _scatter_reduce, refuse=_not_joined),
    row(_aten.index_add.default, _index_add),
)
