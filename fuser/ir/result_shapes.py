"""The extents of each structural operation's result, with the rules its sizes must keep."""

from __future__ import annotations

from collections.abc import Sequence

from fuser.errors import ArgumentError, DimensionError
from fuser.ir import shapes
from fuser.ir.nodes import (
    Broadcast,
    Cat,
    CheckIndex,
    Expand,
    Extent,
    Pad,
    Reduce,
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
            raise ArgumentError(operation, argument, shown_sizes(shape), "sizes are 0 or more")
    return tuple(map(static_extent, shape))


def view(op: View) -> tuple[int, ...]:
    """The new shape, its -1 computed where the operand's sizes are known."""
    literals = [extent for extent in op.shape if not isinstance(extent, Value)]
    if literals.count(DYNAMIC) > 1 or min(literals, default=0) < DYNAMIC:
        expected = "sizes are 0 or more, and at most one is -1"
        raise ArgumentError("reshape", "new_shape", shown_sizes(op.shape), expected)
    sizes = tuple(map(static_extent, op.shape))
    if len(literals) < len(sizes):
        return sizes
    return shapes.resolve_view("reshape", op.arg.name, op.arg.shape, sizes)


def broadcast(op: Broadcast) -> tuple[int, ...]:
    """The operand's extents with 1 where a dimension is new."""
    rank, flags = len(op.arg.shape), list(op.is_broadcast)
    if flags.count(False) != rank:
        expected = f"expected one False for each of the {rank} dimension(s) of {op.arg}"
        raise ArgumentError("broadcast", "is_broadcast_dim", flags, expected)
    kept = iter(op.arg.shape)
    return tuple(1 if new else next(kept) for new in flags)


def expand(op: Expand) -> tuple[int, ...]:
    """The wanted extents; -1 keeps the operand's."""
    original, wanted = op.arg.shape, shown_sizes(op.shape)
    if len(op.shape) != len(original):
        expected = f"expected {len(original)} sizes, one for each dimension of {op.arg}"
        raise ArgumentError(_EXPAND, "shape", wanted, expected)
    result: list[int] = []
    for have, extent in zip(original, op.shape, strict=True):
        want = static_extent(extent)
        if want < DYNAMIC:
            expected = "sizes are 0 or more, and -1 keeps a dimension"
            raise ArgumentError(_EXPAND, "shape", wanted, expected)
        if have not in (1, DYNAMIC, want) and want != DYNAMIC:
            expected = f"only dimensions of size 1 expand; {op.arg} has sizes {list(original)}"
            raise ArgumentError(_EXPAND, "shape", wanted, expected)
        keeps = want == DYNAMIC and not isinstance(extent, Value)
        result.append(have if keeps else want)
    return tuple(result)


def squeeze(op: Squeeze) -> tuple[int, ...]:
    """The operand's extents without those of `dims`."""
    check_dims("squeeze", op.arg, op.dims)
    for dim in op.dims:
        if op.arg.shape[dim] not in (1, DYNAMIC):
            expected = f"dimension {dim} of {op.arg} has size {op.arg.shape[dim]}, not 1"
            raise ArgumentError("squeeze", "dims", list(op.dims), expected)
    return tuple(size for dim, size in enumerate(op.arg.shape) if dim not in op.dims)


def slice_(op: Slice) -> tuple[int, ...]:
    """How many elements each span takes; dynamic where the size is."""
    rank = len(op.arg.shape)
    parts = {"start_indices": op.starts, "end_indices": op.ends, "strides": op.steps}
    for name, given in parts.items():
        if len(given) != rank:
            expected = f"expected one for each of the {rank} dimension(s) of {op.arg}"
            raise ArgumentError("slice", name, shown_sizes(given), expected)
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
        got = list(map(tuple, map(shown_sizes, spans)))
        expected = "expected 0 <= start <= end and step >= 1 in each dimension"
        raise ArgumentError("slice", "(start, end, step)", got, expected)


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
            got = [tuple(shown_sizes(pair)) for pair in op.widths]
            raise ArgumentError("pad", "pad_widths", got, expected)
        result.append(size + before + after)
    return tuple(result)


def cat(op: Cat) -> tuple[int, ...]:
    """The sum of the sizes along `dim`; the other sizes, which must agree."""
    along = [arg.shape[op.dim] for arg in op.args if op.dim < len(arg.shape)]
    got, expected = [list(arg.shape) for arg in op.args], f"sizes beside dimension {op.dim} differ"
    shape = list(op.args[0].shape)
    for arg in op.args[1:]:
        if len(arg.shape) != len(shape):
            raise ArgumentError("cat", "tensors", got, "their numbers of dimensions differ")
        for dim, (left, right) in enumerate(zip(shape, arg.shape, strict=True)):
            if dim != op.dim and not same_size(left, right):
                raise ArgumentError("cat", "tensors", got, expected)
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
                expected = f"dimension {dim} of {op.arg} is empty: there is no {op.op} of nothing"
                raise ArgumentError(op.op, "dims", list(op.dims), expected)
    return tuple(
        1 if dim in op.dims else size
        for dim, size in enumerate(op.arg.shape)
        if op.keepdim or dim not in op.dims
    )


def check_index(op: CheckIndex) -> tuple[int, ...]:
    """The operand's extents; the size must be one of a dimension."""
    if op.size < 0:
        raise ArgumentError(op.operation, "size", op.size, "sizes are 0 or more")
    return op.arg.shape


def check_dims(operation: str, operand: Value, dims: tuple[int, ...]) -> None:
    """Raises DimensionError or ArgumentError unless `dims` are different ones of the operand."""
    rank = len(operand.shape)
    for dim in dims:
        if not 0 <= dim < rank:
            raise DimensionError(operation=operation, dim=dim, operand=operand.name, rank=rank)
    if len(set(dims)) < len(dims):
        raise ArgumentError(operation, "dims", list(dims), "expected each dimension at most once")


def same_size(left: int, right: int) -> bool:
    """Whether two extents may be equal at execution."""
    return DYNAMIC in (left, right) or left == right


def same_sizes(left: Sequence[int], right: Sequence[int]) -> bool:
    """Whether two shapes may be equal at execution."""
    return len(left) == len(right) and all(map(same_size, left, right))


_EXPAND = "expand or broadcast_in_dim"
"""What may be made of an Expand; a definition's errors name the one that was called."""


def shown_sizes(shape: tuple[Extent, ...]) -> list[int | str]:
    """Sizes as an error shows them: numbers, and the names of scalars."""
    return [extent if isinstance(extent, int) else extent.name for extent in shape]
