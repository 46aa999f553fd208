"""Types of values: scalars and tensors with symbolic extents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuser.ir.dtypes import DataType

DYNAMIC = -1
"""The extent of a dimension whose size is known only at execution."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How an input is declared to lie in memory.

    `stride_order[d]` is dimension d's rank by stride: rank-1 for the slowest, 0 for the fastest.
    `contiguity` runs from the slowest to the fastest dimension; None marks a broadcast dimension,
    True that its stride is the size times the stride of the next one that is not None.
    """

    contiguity: tuple[bool | None, ...]
    stride_order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """dtype and extents: -1 is dynamic, 1 broadcasts, any other n is static.

    `layout` is declared for inputs and None for everything that is computed.
    """

    dtype: DataType
    shape: tuple[int, ...]
    layout: Layout | None = None
    is_cpu: bool = False

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A number: a constant, a runtime input, or computed from those and from sizes."""

    dtype: DataType

    @property
    def rank(self) -> None:
        return None

    def __str__(self) -> str:
        return self.dtype.name


ValueType = TensorType | ScalarType


def row_major_order(rank: int) -> tuple[int, ...]:
    """The stride order of a row-major tensor: the last dimension is the fastest."""
    return tuple(range(rank - 1, -1, -1))


def dims_slowest_first(stride_order: Sequence[int]) -> tuple[int, ...]:
    """Dimensions sorted from the slowest to the fastest."""
    return tuple(sorted(range(len(stride_order)), key=lambda d: -stride_order[d]))


def compute_tensor_descriptor(
    sizes: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[bool | None, ...], tuple[int, ...]]:
    """The (contiguity, stride_order) that describe a tensor of these sizes and strides.

    Strides are in elements. Dimensions of equal stride, and those of stride 0, keep their place.
    Size-1 and stride-0 dimensions have contiguity None.
    """
    slowest_first = _slowest_first(strides)
    order = [0] * len(sizes)
    for position, dim in enumerate(slowest_first):
        order[dim] = len(sizes) - 1 - position
    contiguity = compute_contiguity(
        [sizes[dim] for dim in slowest_first], [strides[dim] for dim in slowest_first]
    )
    return tuple(contiguity), tuple(order)


def compute_contiguity(sizes: Sequence[int], strides: Sequence[int]) -> list[bool | None]:
    """Whether each dimension, in row-major order, steps over just what is inside of it.

    Strides are in elements. Size-1 and stride-0 dimensions have None.
    """
    contiguity: list[bool | None] = []
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size == 1 or stride == 0:
            contiguity.append(None)
            continue
        contiguity.append(stride == expected)
        expected = stride * size
    return contiguity[::-1]


def _slowest_first(strides: Sequence[int]) -> list[int]:
    """Dimensions by falling stride; a stride of 0 says nothing, so it is skipped over."""
    dims = list(range(len(strides)))
    for end in range(1, len(dims)):
        moving = end
        for position in reversed(range(end)):
            slower, faster = strides[dims[position]], strides[dims[moving]]
            if 0 in (slower, faster):
                continue
            if slower >= faster:
                break
            dims[position], dims[moving] = dims[moving], dims[position]
            moving = position
    return dims


def dense_strides(shape: Sequence[int], stride_order: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a dense tensor whose dimensions are laid out in `stride_order`."""
    strides = [1] * len(shape)
    step = 1
    for dim in reversed(dims_slowest_first(stride_order)):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)
