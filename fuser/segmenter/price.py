"""What kernels cost by what it is for, and the words for what is saved of that.

    saves 8650752 bytes: 262144 launch, 8388608 moved

All of it is in bytes of a machine's memory: what that moves while a kernel is launched, or
computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Price:
    """What one kernel costs or, where some are compared with others, what is saved of that."""

    launch: int = 0
    moved: int = 0
    """Each element once."""
    again: int = 0
    """What later sweeps of rows read from memory once more."""
    idle: int = 0
    """What memory could move while few rows leave processors idle."""
    computed: int = 0
    """Arithmetic that takes longer than what is moved."""
    repeated: int = 0
    """Arithmetic that is done more often than there are elements."""
    chosen: int = 0
    """Elements of rows that are read one by one, now from this tensor, now from that."""
    one_by_one: int = 0
    """Costly functions of one number after the other, which elsewhere are vectors'."""

    @property
    def total(self) -> int:
        waited = self.computed + self.repeated + self.chosen + self.one_by_one
        return self.launch + self.moved + self.again + self.idle + waited

    @property
    def lost(self) -> int:
        """What the terms below zero take from the others."""
        return -sum(term for term in self._terms().values() if term < 0)

    @property
    def reason(self) -> str:
        """What would cost most of what is lost, and what would be saved."""
        name = min(self._terms().items(), key=lambda item: item[1])[0]
        gained = self.total + self.lost
        return f"{_LOST[name]} would cost {self.lost} bytes' worth; one kernel would save {gained}"

    def __str__(self) -> str:
        terms = [f"{term} {_WORDS[name]}" for name, term in self._terms().items() if term]
        return f"saves {self.total} bytes" + (f": {', '.join(terms)}" if terms else "")

    def _terms(self) -> dict[str, int]:
        return dict(zip(_WORDS, _TERMS(self), strict=True))


def saved(before: Iterable[Price], after: Iterable[Price]) -> Price:
    """What kernels save by which others are replaced."""
    old, new = _sums(before), _sums(after)
    return Price(*(a - b for a, b in zip(old, new, strict=True)))


def _sums(prices: Iterable[Price]) -> list[int]:
    return [sum(terms) for terms in zip(*map(_TERMS, prices), strict=True)]


_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "launch": "launch",
        "moved": "moved",
        "again": "read again",
        "idle": "idle",
        "computed": "computed",
        "repeated": "recomputed",
        "chosen": "chosen",
        "one_by_one": "one by one",
    }
)
"""By term, in the order of their fields: what the log calls it. docs/inspecting.md says what each
is."""

_TERMS: Callable[[Price], tuple[int, ...]] = attrgetter(*_WORDS)

_LOST: Mapping[str, str] = MappingProxyType(
    {
        "launch": "launches",
        "moved": "more bytes moved",
        "again": "rows that are read again",
        "idle": "too few rows to keep the processors busy",
        "computed": "arithmetic that memory does not hide",
        "repeated": "recomputation",
        "chosen": "choosing between tensors, element by element,",
        "one_by_one": "functions of one number after the other",
    }
)
"""By term: what a merge is refused for, if it is that which costs most."""
