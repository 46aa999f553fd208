"""Which elements of a line that is resized read an old one: neighbours of each other.

    x[j] is read by y[first(j)], y[first(j) + 1], ...

Where they begin is found among whole numbers, so that every kernel finds the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

MOST_READERS = 16
"""Images that become up to 8 times as long. More would be more code than a gradient is worth."""

_BITS = 24
"""Of a fraction, in the numbers that say where the readers of an element begin."""
_ONE = 1 << _BITS

Span = tuple[int, int]
_Numbers = TypeVar("_Numbers", int, torch.Tensor)


@dataclass(frozen=True, slots=True)
class Readers:
    """Who reads element j of a line of `size`: `count` elements of the `resized`, the first of
    which is (j * factor + offset) >> 24, or the nearest to it with which all are in range.

    `are_all` tells that all of them do; else some of them do not read it.
    """

    size: int
    resized: int
    factor: int
    offset: int
    count: int
    are_all: bool = False

    def first(self, elements: torch.Tensor) -> torch.Tensor:
        """int64: the first reader of each of `elements`."""
        return self._begin(elements).clamp(0, self.resized - self.count)

    def spans(self) -> list[Span]:
        """Where the readers of each element begin and end."""
        last = self.resized - self.count
        begins = (max(min(self._begin(j), last), 0) for j in range(self.size))
        return [(begin, begin + self.count) for begin in begins]

    def _begin(self, element: _Numbers) -> _Numbers:
        """Where readers would begin, were all elements read by as many."""
        return element * self.factor + self.offset >> _BITS


def readers_of(
    spans: Sequence[Span], resized: int, step: float, before: float, after: float
) -> Readers | None:
    """Readers of lines that begin and end as `spans` do, or outside of them; None where they are
    too many.

    Readers lie `step` elements apart. Those of element j begin at (j - before) / step + after,
    rounded down.
    """
    size, least = len(spans), max(end - begin for begin, end in spans)
    factor, offset = _ONE / step, after * _ONE - before * _ONE / step
    for count in (least, least + 1):
        if count > min(MOST_READERS, resized):
            return None
        for slack in (0, size):  # fractions are rounded
            found = Readers(size, resized, round(factor), round(offset) - slack, count)
            pairs = list(zip(spans, found.spans(), strict=True))
            if all(b >= e or first <= b < e <= last for (b, e), (first, last) in pairs):
                return replace(found, are_all=all(span == own for span, own in pairs))
    return None
