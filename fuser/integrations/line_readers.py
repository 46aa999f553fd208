"""Lines that are resized: where their elements lie, and which of the new ones read an old one.

y[i] reads x at place(i): its neighbours there
x[j] is read by y[first(j)], y[first(j) + 1], ...
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

_Numbers = TypeVar("_Numbers", float, torch.Tensor)

MOST_READERS = 16
"""Images that become up to 8 times as long. More would be more code than a gradient is worth."""

_BITS = 24
"""Of a fraction, in the numbers that say where the readers of an element begin."""
_NONE = 1e-9
"""Up to this, a weight is none."""


@dataclass(frozen=True, slots=True)
class Resize:
    """One dimension of an image: `size` becomes `resized`.

    `scale` is the factor that the caller gave, if it decides where elements lie; None where the two
    sizes do. With `align_corners` the first and the last elements of both coincide.
    """

    dim: int
    size: int
    resized: int
    scale: float | None
    align_corners: bool

    @property
    def step(self) -> float:
        """How far apart neighbours of the result lie in the image, in its elements."""
        if self.align_corners:
            return (self.size - 1) / (self.resized - 1) if self.resized > 1 else 0.0
        return 1 / self.scale if self.scale else self.size / self.resized

    @property
    def changes(self) -> bool:
        return self.size != self.resized or self.step != 1

    def place(self, number: _Numbers) -> _Numbers:
        """Where an element of the result lies in the image, by its number, or each of several."""
        return self.step * number if self.align_corners else self.step * (number + 0.5) - 0.5

    def along(self, factors: torch.Tensor, rank: int) -> torch.Tensor:
        """A factor for each element of the dimension, as one of tensors of `rank`."""
        return factors.reshape(-1, *[1] * (rank - 1 - self.dim))


@dataclass(frozen=True, slots=True)
class Readers:
    """Who reads element j of a line: `count` elements of the result, the first of which is
    (j * factor + offset) >> bits, or the nearest to it with which all are in range."""

    factor: int
    offset: int
    count: int
    bits: int = _BITS

    def first(self, elements: torch.Tensor, resized: int) -> torch.Tensor:
        """[size] int64: the first reader of each of `elements`, of `resized` in all."""
        return (elements * self.factor + self.offset >> self.bits).clamp(0, resized - self.count)

    def are_all(self, spans: Sequence[tuple[int, int]], resized: int) -> bool:
        """Whether the readers of each element begin and end as `spans` do, or outside of them."""
        for element, (begin, end) in enumerate(spans):
            first = element * self.factor + self.offset >> self.bits
            first = max(min(first, resized - self.count), 0)
            if begin < end and not first <= begin < end <= first + self.count:
                return False
        return True


def readers_of(resize: Resize) -> Readers | None:
    """The readers of a line; None where they are too many, or better found otherwise: where a line
    becomes shorter by a whole number, they are a slice."""
    if resize.step == int(resize.step):
        return None
    last = resize.size - 1.0
    at = [min(max(resize.place(number), 0.0), last) for number in range(resize.resized)]
    spans = [
        (bisect_right(at, element - 1 + _NONE), bisect_left(at, element + 1 - _NONE))
        for element in range(resize.size)
    ]
    least = max(end - begin for begin, end in spans)
    scale = (1 << _BITS) / resize.step
    offset = round((1.0 if resize.align_corners else 0.5) * ((1 << _BITS) - scale))
    for count in (least, least + 1):
        found = Readers(round(scale), offset, count)
        if count > min(MOST_READERS, resize.resized):
            return None
        if found.are_all(spans, resize.resized):
            return found
    return None
