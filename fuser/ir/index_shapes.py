"""The extents of what is read or written at indices, with the rules these must keep."""

from __future__ import annotations

from fuser.errors import ArgumentError, IndexOutOfRangeError
from fuser.ir import shapes
from fuser.ir.nodes import Gather, Scatter, Value
from fuser.ir.result_shapes import check_dims, same_size, same_sizes
from fuser.ir.types import DYNAMIC


def gather(op: Gather) -> tuple[int, ...]:
    """The extents of a select, index_select, gather or take_along_axis."""
    data, index = op.arg.shape, op.index.shape
    check_dims(op.mode, op.arg, (op.dim,))
    match op.mode:
        case "select":
            if data[op.dim] == 0:
                allowed = f"none, dimension {op.dim} of {op.arg} is empty"
                raise IndexOutOfRangeError(operation=op.mode, index=op.index, allowed=allowed)
            return _replaced(data, op.dim, ())
        case "index_select":
            _check_at_most_one_dim(op.mode, op.index)
            return _replaced(data, op.dim, index or (1,))
        case "gather":
            _check_within(op.mode, op.index, op.arg, op.dim)
            return index
        case "take_along_axis":
            return _take_along_axis(op)
        case _:
            raise ArgumentError("gather", "mode", op.mode, "not a gather")


def scatter(op: Scatter) -> tuple[int, ...]:
    """The extents of the data; index and source must lie within, or be slices of it."""
    check_dims(op.mode, op.arg, (op.dim,))
    if op.mode != "scatter" and not op.src.is_tensor:
        raise ArgumentError(op.mode, "src", str(op.src), "expected a tensor")
    match op.mode:
        case "scatter" | "scatter_add" | "scatter_amax" | "scatter_amin" | "scatter_prod":
            _check_within(op.mode, op.index, op.arg, op.dim)
            if op.src.is_tensor:
                _check_within(op.mode, op.index, op.src, None)
        case "index_add":
            _check_at_most_one_dim(op.mode, op.index)
            along = op.index.shape or (1,)
            _check_sizes(op.mode, "src", op.src, _replaced(op.arg.shape, op.dim, along))
        case "index_put_accumulate":
            if op.dim != 0:
                raise ArgumentError(op.mode, "dim", op.dim, "expected 0: rows are added to")
            _check_sizes(op.mode, "value", op.src, _replaced(op.arg.shape, 0, op.index.shape))
        case _:
            raise ArgumentError("scatter", "mode", op.mode, "not a scatter")
    return op.arg.shape


def _take_along_axis(op: Gather) -> tuple[int, ...]:
    _check_rank(op.mode, op.index, op.arg)
    data, index = op.arg.shape, op.index.shape
    for dim, (limit, size) in enumerate(zip(data, index, strict=True)):
        if dim != op.dim and 1 not in (limit, size) and not same_size(limit, size):
            sizes = f"the sizes of {op.arg}, {list(data)}, or 1"
            expected = f"expected {sizes}, beside dimension {op.dim}"
            raise ArgumentError(op.mode, "index", list(index), expected)
    beside = shapes.broadcast(op.mode, [_replaced(s, op.dim, (1,)) for s in (index, data)])
    return _replaced(beside, op.dim, (index[op.dim],))


def _check_within(operation: str, index: Value, data: Value, free: int | None) -> None:
    """Raises unless `index` has the rank of `data` and no larger size but along `free`."""
    _check_rank(operation, index, data)
    fits = all(
        dim == free or DYNAMIC in (size, limit) or size <= limit
        for dim, (size, limit) in enumerate(zip(index.shape, data.shape, strict=True))
    )
    if not fits:
        beside = "" if free is None else f" beside dimension {free}"
        expected = f"expected sizes within those of {data}{beside}, which are {list(data.shape)}"
        raise ArgumentError(operation, "index", list(index.shape), expected)


def _check_rank(operation: str, index: Value, data: Value) -> None:
    if len(index.shape) != len(data.shape):
        expected = f"expected {len(data.shape)} dimension(s), as {data} has"
        raise ArgumentError(operation, "index", list(index.shape), expected)


def _replaced(shape: tuple[int, ...], dim: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` with `sizes` in the place of dimension `dim`."""
    return shape[:dim] + sizes + shape[dim + 1 :]


def _check_at_most_one_dim(operation: str, index: Value) -> None:
    if len(index.shape) > 1:
        raise ArgumentError(operation, "index", list(index.shape), "expected 0 or 1 dimension")


def _check_sizes(operation: str, argument: str, given: Value, sizes: tuple[int, ...]) -> None:
    """Raises ArgumentError unless a tensor has these sizes, as far as they are known."""
    if not same_sizes(given.shape, sizes):
        expected = f"expected sizes {list(sizes)}, a slice of the data for each index"
        raise ArgumentError(operation, argument, list(given.shape), expected)
