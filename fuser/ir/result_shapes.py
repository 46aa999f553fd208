"""The extents of each structural operation's result, with the rules its sizes must keep."""

from __future__ import annotations

from collections.abc import Sequence

from fuser.errors import ArgumentError, DimensionError, IndexOutOfRangeError
from fuser.ir import shapes
from fuser.ir.nodes import (
    Broadcast,
    Cat,
    CheckIndex,
    Expand,
    Extent,
    Gather,
    Pad,
    Reduce,
    Scatter,
    Slice,
    Squeeze,
    Value,
    View,
    static,
)
from fuser.ir.types import DYNAMIC


def static_extent(extent: Extent) -> int:
    """An extent as it stands in a type: scalars of the definition are dynamic."""
    return DYNAMIC if isinstance(extent, Value) else extent


def factory(operation: str, shape: tuple[Extent, ...], argument: str = "shape") -> tuple[int, ...]:
    """The shape of a tensor that is made: no literal size below 0."""
    for extent in shape:
        if not isinstance(extent, Value) and extent < 0:
            raise _argument(operation, argument, _sizes(shape), "sizes are 0 or more")
    return tuple(map(static_extent, shape))


def view(op: View) -> tuple[int, ...]:
    """The new shape, its -1 computed where the operand's sizes are known."""
    literals = [extent for extent in op.shape if not isinstance(extent, Value)]
    if literals.count(DYNAMIC) > 1 or min(literals, default=0) < DYNAMIC:
        expected = "sizes are 0 or more, and at most one is -1"
        raise _argument("reshape", "new_shape", _sizes(op.shape), expected)
    sizes = tuple(map(static_extent, op.shape))
    if len(literals) < len(sizes):
        return sizes
    return shapes.resolve_view("reshape", op.arg.name, op.arg.shape, sizes)


def broadcast(op: Broadcast) -> tuple[int, ...]:
    """The operand's extents with 1 where a dimension is new."""
    if op.is_broadcast.count(False) != len(op.arg.shape):
        raise _argument(
            "broadcast",
            "is_broadcast_dim",
            list(op.is_broadcast),
            f"expected one False for each of the {len(op.arg.shape)} dimension(s) of {op.arg}",
        )
    kept = iter(op.arg.shape)
    return tuple(1 if new else next(kept) for new in op.is_broadcast)


def expand(op: Expand) -> tuple[int, ...]:
    """The wanted extents; -1 keeps the operand's."""
    original, wanted = op.arg.shape, _sizes(op.shape)
    if len(op.shape) != len(original):
        expected = f"expected {len(original)} sizes, one for each dimension of {op.arg}"
        raise _argument(_EXPAND, "shape", wanted, expected)
    result: list[int] = []
    for have, extent in zip(original, op.shape, strict=True):
        want = static_extent(extent)
        if have not in (1, DYNAMIC, want) and want != DYNAMIC:
            expected = f"only dimensions of size 1 expand; {op.arg} has sizes {list(original)}"
            raise _argument(_EXPAND, "shape", wanted, expected)
        keeps = want == DYNAMIC and not isinstance(extent, Value)
        result.append(have if keeps else want)
    return tuple(result)


def squeeze(op: Squeeze) -> tuple[int, ...]:
    """The operand's extents without those of `dims`."""
    check_dims("squeeze", op.arg, op.dims)
    for dim in op.dims:
        if op.arg.shape[dim] not in (1, DYNAMIC):
            expected = f"dimension {dim} of {op.arg} has size {op.arg.shape[dim]}, not 1"
            raise _argument("squeeze", "dims", list(op.dims), expected)
    return tuple(size for dim, size in enumerate(op.arg.shape) if dim not in op.dims)


def slice_(op: Slice) -> tuple[int, ...]:
    """How many elements each span takes; dynamic where the size is."""
    rank = len(op.arg.shape)
    parts = {"start_indices": op.starts, "end_indices": op.ends, "strides": op.steps}
    for name, given in parts.items():
        if len(given) != rank:
            expected = f"expected one for each of the {rank} dimension(s) of {op.arg}"
            raise _argument("slice", name, _sizes(given), expected)
    spans = list(zip(op.starts, op.ends, op.steps, strict=True))
    check_spans(spans)
    return tuple(
        DYNAMIC
        if size == DYNAMIC or any(isinstance(part, Value) for part in span)
        else _taken(size, *static(span))
        for size, span in zip(op.arg.shape, spans, strict=True)
    )


def check_spans(spans: Sequence[tuple[Extent, Extent, Extent]]) -> None:
    """Raises ArgumentError unless each (start, end, step) may be one of a slice."""
    if not all(map(_is_span, spans)):
        got = list(map(tuple, map(_sizes, spans)))
        expected = "expected 0 <= start <= end and step >= 1 in each dimension"
        raise _argument("slice", "(start, end, step)", got, expected)


def _is_span(span: tuple[Extent, Extent, Extent]) -> bool:
    """Whether it may be one, as far as its numbers are known."""
    start, end, step = (None if isinstance(part, Value) else part for part in span)
    first = 0 if start is None else start
    return first >= 0 and (end is None or end >= first) and (step is None or step >= 1)


def _taken(size: int, start: int, end: int, step: int) -> int:
    """How many elements of a dimension a span takes."""
    return len(range(min(start, size), min(end, size), step))


def pad(op: Pad) -> tuple[int, ...]:
    """Sizes with both widths added."""
    result: list[int] = []
    for size, (before, after) in zip(op.arg.shape, op.widths, strict=True):
        if size == DYNAMIC or isinstance(before, Value) or isinstance(after, Value):
            result.append(DYNAMIC)
            continue
        if size + before + after < 0:
            expected = f"{op.arg} has sizes {list(op.arg.shape)}, which are cut below 0"
            raise _argument("pad", "pad_widths", list(map(tuple, map(_sizes, op.widths))), expected)
        result.append(size + before + after)
    return tuple(result)


def cat(op: Cat) -> tuple[int, ...]:
    """The sum of the sizes along `dim`; the other sizes, which must agree."""
    along = [arg.shape[op.dim] for arg in op.args if op.dim < len(arg.shape)]
    got, expected = [list(arg.shape) for arg in op.args], f"sizes beside dimension {op.dim} differ"
    shape = list(op.args[0].shape)
    for arg in op.args[1:]:
        if len(arg.shape) != len(shape):
            raise _argument("cat", "tensors", got, "their numbers of dimensions differ")
        for dim, (left, right) in enumerate(zip(shape, arg.shape, strict=True)):
            if dim != op.dim and DYNAMIC not in (left, right) and left != right:
                raise _argument("cat", "tensors", got, expected)
            if left == DYNAMIC:
                shape[dim] = right
    shape[op.dim] = DYNAMIC if DYNAMIC in along else sum(along)
    return tuple(shape)


def reduce_(op: Reduce) -> tuple[int, ...]:
    """The operand's extents without those of `dims`, or with 1 for them."""
    check_dims(op.op, op.arg, op.dims)
    if op.op in ("max", "min", "argmax", "argmin"):
        for dim in op.dims:
            if op.arg.shape[dim] == 0:
                expected = f"dimension {dim} of {op.arg} is empty, and nothing has no {op.op}"
                raise _argument(op.op, "dims", list(op.dims), expected)
    return tuple(
        1 if dim in op.dims else size
        for dim, size in enumerate(op.arg.shape)
        if op.keepdim or dim not in op.dims
    )


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
            raise _argument("gather", "mode", op.mode, "not a gather")


def scatter(op: Scatter) -> tuple[int, ...]:
    """The extents of the data; index and source must lie within, or be slices of it."""
    check_dims(op.mode, op.arg, (op.dim,))
    if op.mode != "scatter" and not op.src.is_tensor:
        raise _argument(op.mode, "src", str(op.src), "expected a tensor, as it is added")
    match op.mode:
        case "scatter" | "scatter_add":
            _check_within(op.mode, op.index, op.arg, op.dim)
            if op.src.is_tensor:
                _check_within(op.mode, op.index, op.src, None)
        case "index_add":
            _check_at_most_one_dim(op.mode, op.index)
            along = op.index.shape or (1,)
            _check_sizes(op.mode, "src", op.src, _replaced(op.arg.shape, op.dim, along))
        case "index_put_accumulate":
            if op.dim != 0:
                raise _argument(op.mode, "dim", op.dim, "expected 0: rows are added to")
            _check_sizes(op.mode, "value", op.src, _replaced(op.arg.shape, 0, op.index.shape))
        case _:
            raise _argument("scatter", "mode", op.mode, "not a scatter")
    return op.arg.shape


def check_index(op: CheckIndex) -> tuple[int, ...]:
    """The operand's extents; the size must be one of a dimension."""
    if op.size < 0:
        raise _argument(op.operation, "size", op.size, "sizes are 0 or more")
    return op.arg.shape


def check_dims(operation: str, operand: Value, dims: tuple[int, ...]) -> None:
    """Raises DimensionError or ArgumentError unless `dims` are different ones of the operand."""
    rank = len(operand.shape)
    for dim in dims:
        if not 0 <= dim < rank:
            raise DimensionError(operation=operation, dim=dim, operand=operand.name, rank=rank)
    if len(set(dims)) < len(dims):
        raise _argument(operation, "dims", list(dims), "expected each dimension at most once")


def same_size(left: int, right: int) -> bool:
    """Whether two extents may be equal at execution."""
    return DYNAMIC in (left, right) or left == right


def _take_along_axis(op: Gather) -> tuple[int, ...]:
    _check_rank(op.mode, op.index, op.arg)
    data, index = op.arg.shape, op.index.shape
    for dim, (limit, size) in enumerate(zip(data, index, strict=True)):
        if dim != op.dim and 1 not in (limit, size) and not same_size(limit, size):
            sizes = f"the sizes of {op.arg}, {list(data)}, or 1"
            expected = f"expected {sizes}, beside dimension {op.dim}"
            raise _argument(op.mode, "index", list(index), expected)
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
        raise _argument(operation, "index", list(index.shape), expected)


def _check_rank(operation: str, index: Value, data: Value) -> None:
    if len(index.shape) != len(data.shape):
        expected = f"expected {len(data.shape)} dimension(s), as {data} has"
        raise _argument(operation, "index", list(index.shape), expected)


_EXPAND = "expand or broadcast_in_dim"
"""What may be made of an Expand; a definition's errors name the one that was called."""


def _replaced(shape: tuple[int, ...], dim: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` with `sizes` in the place of dimension `dim`."""
    return shape[:dim] + sizes + shape[dim + 1 :]


def _check_at_most_one_dim(operation: str, index: Value) -> None:
    if len(index.shape) > 1:
        raise _argument(operation, "index", list(index.shape), "expected 0 or 1 dimension")


def _check_sizes(operation: str, argument: str, given: Value, sizes: tuple[int, ...]) -> None:
    """Raises ArgumentError unless a tensor has these sizes, as far as they are known."""
    if len(given.shape) != len(sizes) or not all(map(same_size, given.shape, sizes)):
        expected = f"expected sizes {list(sizes)}, a slice of the data for each index"
        raise _argument(operation, argument, list(given.shape), expected)


def _argument(operation: str, argument: str, got: object, expected: str) -> ArgumentError:
    return ArgumentError(operation=operation, argument=argument, got=got, expected=expected)


def _sizes(shape: tuple[Extent, ...]) -> list[int | str]:
    """Sizes as an error shows them: numbers, and the names of scalars."""
    return [extent if isinstance(extent, int) else extent.name for extent in shape]
