"""Arithmetic on extents: broadcasting, views and dimensions, with -1 for what is not known yet."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from fuser.errors import (
    ArgumentError,
    BroadcastError,
    DimensionError,
    ViewSizeError,
)
from fuser.ir.types import DYNAMIC


def wrap_dim(operation: str, operand: str, dim: int, rank: int) -> int:
    """A dimension in 0..rank-1; negative ones count from the end. Raises DimensionError."""
    if not -rank <= dim < rank:
        raise DimensionError(operation=operation, dim=dim, operand=operand, rank=rank)
    return dim % rank


def places(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Each place of a static shape, in row-major order; one where there are no dimensions."""
    return itertools.product(*map(range, shape))


def check_permutation(operation: str, argument: str, dims: Sequence[int], rank: int) -> None:
    """Raises ArgumentError unless `dims` names each of `rank` dimensions once."""
    if sorted(dims) != list(range(rank)):
        expected = f"expected each of the dimensions 0 to {rank - 1} once"
        raise ArgumentError(operation, argument, list(dims), expected)


def broadcast(operation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape operands broadcast to. Raises BroadcastError."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for position in range(1, len(shape) + 1):
            have, new = result[-position], shape[-position]
            if have == new or new == 1:
                continue
            if have in (1, DYNAMIC):
                result[-position] = new
            elif new != DYNAMIC:
                raise BroadcastError(
                    operation=operation,
                    left=result,
                    right=list(shape),
                    dim=position,
                    left_size=have,
                    right_size=new,
                )
    return tuple(result)


def resolve_view(
    operation: str, operand: str, original: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[int, ...]:
    """`shape` with its one -1 computed where the original sizes are known. Raises ViewSizeError."""
    if DYNAMIC in original:
        return shape
    elements = math.prod(original)
    known = math.prod(size for size in shape if size != DYNAMIC)
    unknown = shape.count(DYNAMIC)
    fits = elements == known if unknown == 0 else known != 0 and elements % known == 0
    if not fits or unknown > 1:
        raise ViewSizeError(
            operation=operation,
            operand=operand,
            original=list(original),
            elements=elements,
            shape=list(shape),
        )
    return tuple(elements // known if size == DYNAMIC else size for size in shape)


def view_strides(
    sizes: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides of a view without copying, or None where the memory does not allow one.

    The rule is torch's: dimensions that lie one within the other in memory form a run, and each run
    must be divided up by whole new dimensions.
    """
    if math.prod(shape) == 0:
        return strides if sizes == shape else row_major_strides(shape)
    runs = _runs(sizes, strides)
    result = [0] * len(shape)
    position = len(shape) - 1
    for extent, stride in runs:
        step, covered = stride, 1
        while position >= 0 and (covered < extent or shape[position] == 1):
            result[position] = step
            step *= shape[position]
            covered *= shape[position]
            position -= 1
        if covered != extent:
            return None
    return tuple(result)


def with_size(shape: tuple[int, ...], dim: int, size: int = 1) -> tuple[int, ...]:
    """`shape` with another size in one dimension, which may be counted from the end."""
    at = dim if dim >= 0 else dim + len(shape)
    return (*shape[:at], size, *shape[at + 1 :])


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous tensor."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    return tuple(strides)


def _runs(sizes: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """(elements, innermost stride) of each maximal run of nested dimensions, innermost first."""
    runs: list[tuple[int, int]] = []
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size == 1:
            continue
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * size, runs[-1][1])
        else:
            runs.append((size, stride))
    return runs or [(1, 1)]
