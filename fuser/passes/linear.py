"""Tensors whose elements are a linear function of their coordinates, and what follows from it.

[4, 8] of 3 + 16 i + 2 j    as [32]: 3 + 2 k
[4, 8] of 3 + 8 i + 2 j     as [32]: none;  bounds: 3 and 41;  times -1: -3 - 8 i - 2 j
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from fuser.ir.dtypes import Category, DataType, holds
from fuser.ir.shapes import row_major_strides
from fuser.passes.factors import common_factors

_EXACT_BITS = {
    DataType.Double: 53,
    DataType.Float: 24,
    DataType.Half: 11,
    DataType.BFloat16: 8,
}
"""Floating types that hold every integer of so many bits; nobody counts in others."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Element [i, j, ...] is offset + steps[0] * i + steps[1] * j + ..."""

    offset: int
    steps: tuple[int, ...]

    def plus(self, other: Linear) -> Linear:
        """The sum of two tensors of one shape."""
        steps = zip(self.steps, other.steps, strict=True)
        return Linear(self.offset + other.offset, tuple(left + right for left, right in steps))

    def times(self, factor: int) -> Linear:
        """A multiple."""
        return Linear(self.offset * factor, tuple(step * factor for step in self.steps))

    def over(self, shape: tuple[int, ...]) -> Linear:
        """With steps of 0 where there is no second element."""
        pairs = zip(self.steps, shape, strict=True)
        return Linear(self.offset, tuple(step if size > 1 else 0 for step, size in pairs))

    def viewed(self, old: tuple[int, ...], new: tuple[int, ...]) -> Linear | None:
        """Dimensions are split freely, and merged where they lie in one another."""
        factors = common_factors(old, new)
        if factors is None:
            return None
        steps = [0] * len(factors.sizes)
        for dim, group in enumerate(factors.left):
            inner = row_major_strides([factors.sizes[number] for number in group])
            for number, stride in zip(group, inner, strict=True):
                steps[number] = self.steps[dim] * stride
        for group in factors.right:
            for outer, inner in itertools.pairwise(group):
                if steps[outer] != steps[inner] * factors.sizes[inner]:
                    return None
        last = (steps[group[-1]] if group else 0 for group in factors.right)
        return Linear(self.offset, tuple(last))

    def bounds(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """The smallest and the largest element."""
        spans = [step * max(size - 1, 0) for step, size in zip(self.steps, shape, strict=True)]
        low = self.offset + sum(min(span, 0) for span in spans)
        return low, self.offset + sum(max(span, 0) for span in spans)

    def fits(self, shape: tuple[int, ...], dtype: DataType) -> bool:
        """Whether a type holds every element."""
        low, high = self.bounds(shape)
        match dtype.category:
            case Category.INTEGER:
                return holds(dtype, low) and holds(dtype, high)
            case Category.FLOAT:
                return dtype in _EXACT_BITS and max(-low, high) <= 1 << _EXACT_BITS[dtype]
            case Category.BOOL:
                return low == high and low in (0, 1)
            case Category.COMPLEX:
                return False
