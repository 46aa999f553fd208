"""Diagonals of two dimensions.

diagonal(x, offset)               every (columns + 1)-th element of the two dimensions as one
diagonal_scatter(x, s, offset)    a choice between `s`, as a column, and `x`, by the element's place
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from fuser.frontend.handles import Handle
from fuser.integrations.aten.lowering import Lowering
from fuser.integrations.aten.moves import along, padded
from fuser.integrations.aten.row import Kind, Row, row
from fuser.integrations.aten.views import sliced

_aten: Any = torch.ops.aten
Size = int | Handle


@dataclass(frozen=True, slots=True)
class _Diagonal:
    """The diagonal of dimensions `dims` that begins at `row` and `column`; `count` elements."""

    dims: tuple[int, int]
    rows: Size
    columns: Size
    row: int
    column: int
    count: Size

    @classmethod
    def of(cls, b: Lowering, x: Handle, offset: int, dim1: int, dim2: int) -> _Diagonal:
        dims = dim1 % x.ndim, dim2 % x.ndim
        rows, columns = (b.size(x, dim) for dim in dims)
        row, column = max(-offset, 0), max(offset, 0)
        if isinstance(rows, int) and isinstance(columns, int):
            count: Size = max(min(rows - row, columns - column), 0)
        else:
            shorter = b.ops.minimum(b.ops.sub(rows, row), b.ops.sub(columns, column))
            count = b.ops.maximum(shorter, 0)
        return cls(dims, rows, columns, row, column, count)


def _diagonal(b: Lowering, self: Any, offset: int, dim1: int, dim2: int) -> Handle:
    x = b.tensor(self)
    found = _Diagonal.of(b, x, offset, dim1, dim2)
    others = [dim for dim in range(x.ndim) if dim not in found.dims]
    order = [*others, *found.dims]
    lines = x if order == list(range(x.ndim)) else b.ops.permute(x, order)
    sizes = b.sizes(lines)[:-2]
    rows, columns, count = found.rows, found.columns, found.count
    if isinstance(rows, int) and isinstance(columns, int) and isinstance(count, int):
        flat = b.ops.reshape(lines, [*sizes, rows * columns])
        first, step = found.row * columns + found.column, columns + 1
        end = first + (count - 1) * step + 1 if count else first
        return sliced(b, flat, flat.ndim - 1, first, end, step)
    flat = b.ops.reshape(lines, [*sizes, b.ops.mul(rows, columns)])
    first = b.ops.add(b.ops.mul(columns, found.row), found.column)
    places = b.ops.iota(count, first, b.ops.add(columns, 1))
    return b.ops.index_select(flat, places, flat.ndim - 1)


def _diagonal_scatter(
    b: Lowering, self: Any, src: Any, offset: int, dim1: int, dim2: int
) -> Handle:
    x, source = b.exact(self), b.exact(src)
    found = _Diagonal.of(b, x, offset, dim1, dim2)
    # One element for each row of `x`. Rows that the diagonal does not meet take none of them.
    behind = _less(b, _less(b, found.rows, found.row), found.count)
    one_a_row = padded(b, source, source.ndim - 1, found.row, behind, 0)
    others = [dim for dim in range(x.ndim) if dim not in found.dims]
    spread = b.ops.broadcast(one_a_row, [dim == x.ndim - 1 for dim in range(x.ndim)])
    order = [*others, *found.dims]
    spread = b.ops.permute(spread, [order.index(dim) for dim in range(x.ndim)])
    down, across = found.dims
    shift = found.column - found.row
    row = along(b, b.ops.iota(found.rows, shift), down, x.ndim)
    column = along(b, b.ops.iota(found.columns), across, x.ndim)
    return b.ops.where(b.ops.eq(row, column), spread, x)


def _less(b: Lowering, size: Size, by: Size) -> Size:
    known = isinstance(size, int) and isinstance(by, int)
    return size - by if known else b.ops.sub(size, by)


ROWS: tuple[Row, ...] = (
    row(_aten.diagonal.default, _diagonal, Kind.VIEW),
    row(_aten.diagonal_scatter.default, _diagonal_scatter),
)
