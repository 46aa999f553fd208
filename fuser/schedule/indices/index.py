"""Index arithmetic: affine sums over loop axes, with quotients and remainders where it must divide.

Everything is exact on concrete sizes. `divide` simplifies by bounds, so a view whose factors nest
leaves no division behind; `cuts.clean_cut` finds where an axis, cut in two, removes one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop axis: 0 <= axis < extent. `path` orders axes and tells the halves of a split apart."""

    path: tuple[int, ...]
    extent: int

    def split(self, inner: int) -> tuple[Axis, Axis]:
        """(outer, inner) with axis = outer * inner.extent + inner."""
        return Axis((*self.path, 0), self.extent // inner), Axis((*self.path, 1), inner)


Axes = tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A number that the kernel reads or computes: 0 <= variable < extent."""

    name: str
    extent: int


class _Nested:
    """What is inside of others, over and over: its hash, and its place among the terms of a sum,
    are found once."""

    __slots__ = ("_hash", "_key")
    _hash: int
    _key: tuple[object, ...]

    def made_of(self) -> tuple[object, ...]:
        """Its fields."""
        raise NotImplementedError

    def find_key(self) -> tuple[object, ...]:
        """What it is ordered by."""
        raise NotImplementedError

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash(self.made_of()))
            return self._hash

    @property
    def key(self) -> tuple[object, ...]:
        """What it is ordered by, found once."""
        try:
            return self._key
        except AttributeError:
            object.__setattr__(self, "_key", self.find_key())
            return self._key


@dataclass(frozen=True, slots=True)
class _Division(_Nested):
    of: Index
    divisor: int
    __hash__ = _Nested.__hash__

    def made_of(self) -> tuple[object, ...]:
        return type(self), self.of, self.divisor


@dataclass(frozen=True, slots=True)
class Quotient(_Division):
    """of // divisor."""

    __hash__ = _Nested.__hash__

    def find_key(self) -> tuple[object, ...]:
        return 1, (), self.divisor, *self.of.key


@dataclass(frozen=True, slots=True)
class Remainder(_Division):
    """of % divisor, not negative."""

    __hash__ = _Nested.__hash__

    def find_key(self) -> tuple[object, ...]:
        return 2, (), self.divisor, *self.of.key


@dataclass(frozen=True, slots=True)
class Clamped(_Nested):
    """`of`, or the nearest of 0 to extent - 1: where an element outside is read instead."""

    of: Index
    extent: int
    __hash__ = _Nested.__hash__

    def made_of(self) -> tuple[object, ...]:
        return self.of, self.extent

    def find_key(self) -> tuple[object, ...]:
        return 4, (), self.extent, *self.of.key


Term = Axis | Variable | Quotient | Remainder | Clamped


@dataclass(frozen=True, slots=True)
class Index(_Nested):
    """constant + sum of coefficient * term; no coefficient is 0 and no term appears twice."""

    constant: int = 0
    terms: tuple[tuple[Term, int], ...] = ()
    __hash__ = _Nested.__hash__

    def made_of(self) -> tuple[object, ...]:
        return self.constant, self.terms

    def find_key(self) -> tuple[object, ...]:
        return self.constant, tuple((_term_key(term), factor) for term, factor in self.terms)

    def __add__(self, other: Index) -> Index:
        return total(((self, 1), (other, 1)))

    def __mul__(self, factor: int) -> Index:
        return total(((self, factor),))

    def coefficient(self, term: Term) -> int:
        """The factor of `term`, 0 where it does not appear."""
        return dict(self.terms).get(term, 0)

    def without(self, term: Term) -> Index:
        """The sum without what `term` adds to it."""
        return Index(self.constant, tuple(part for part in self.terms if part[0] != term))

    def is_multiple_of(self, number: int) -> bool:
        """Whether it is one whatever its terms are: the constant is, and every coefficient."""
        return all(n % number == 0 for n in (self.constant, *(c for _, c in self.terms)))

    @property
    def is_of_axes(self) -> bool:
        """Whether it is a sum of axes: nothing is gathered by it, divided or clamped."""
        return all(isinstance(term, Axis) for term, _ in self.terms)

    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest value."""
        low = high = self.constant
        for term, coefficient in self.terms:
            bottom, top = _term_bounds(term)
            low += min(bottom * coefficient, top * coefficient)
            high += max(bottom * coefficient, top * coefficient)
        return low, high


ZERO = Index()
_LANE = -1
"""Tells lanes of an axis from the inner half that another piece of the domain may split off it."""


def lanes_of(axis: Axis, count: int) -> tuple[Axis, dict[Axis, Index]]:
    """An axis of `count` lanes from a point of `axis`, and what takes the place of `axis` then."""
    lane = Axis((*axis.path, _LANE), count)
    return lane, {axis: Index(0, ((axis, 1), (lane, 1)))}


def index_of(term: Term) -> Index:
    """The term itself."""
    return Index(0, ((term, 1),))


def of_axis(axis: Axis) -> Index:
    """The axis itself; 0 where it has one element."""
    return ZERO if axis.extent == 1 else index_of(axis)


def compose(axes: Sequence[Axis]) -> Index:
    """The coordinate that several axes number, the outermost first."""
    parts: list[tuple[Index, int]] = []
    stride = 1
    for axis in reversed(axes):
        parts.append((of_axis(axis), stride))
        stride *= axis.extent
    return total(parts)


def total(parts: Iterable[tuple[Index, int]]) -> Index:
    """The sum of index * factor over `parts`, simplified."""
    constant = 0
    terms: dict[Term, int] = {}
    for index, factor in parts:
        constant += index.constant * factor
        for term, coefficient in index.terms:
            terms[term] = terms.get(term, 0) + coefficient * factor
    present = {term: coefficient for term, coefficient in terms.items() if coefficient}
    joined = _rejoin(constant, present)
    in_order = sorted(present.items(), key=lambda item: _term_key(item[0]))
    return joined or Index(constant, tuple(in_order))


def linear(coordinates: Iterable[Index], strides: Iterable[int], offset: int = 0) -> Index:
    """offset + sum of coordinate * stride."""
    pairs = zip(coordinates, strides, strict=True)
    return total([(Index(offset), 1), *pairs])


def divide(index: Index, divisor: int) -> tuple[Index, Index]:
    """(index // divisor, index % divisor), simplified by divisibility and by bounds."""
    if divisor == 1:
        return index, ZERO
    whole = {t: c // divisor for t, c in index.terms if c % divisor == 0}
    part = {t: c for t, c in index.terms if c % divisor}
    constant, rest = divmod(index.constant, divisor)
    quotient, remainder = Index(constant, tuple(whole.items())), Index(rest, tuple(part.items()))
    low, high = remainder.bounds()
    if low >= 0 and high < divisor:
        return quotient, remainder
    nearest = _by_nearest_multiples(index, divisor)
    if nearest is not None:
        return nearest
    common = math.gcd(divisor, *part.values())
    reduced, left = divmod(rest, common)
    scaled = Index(reduced, tuple((t, c // common) for t, c in part.items()))
    inner = divisor // common
    below = -(scaled.bounds()[0] // inner) if scaled.bounds()[0] < 0 else 0
    scaled += Index(below * inner)  # C rounds towards 0, so nothing negative is divided
    return (
        quotient + index_of(Quotient(scaled, inner)) + Index(-below),
        index_of(Remainder(scaled, inner)) * common + Index(left),
    )


def _by_nearest_multiples(index: Index, divisor: int) -> tuple[Index, Index] | None:
    """(index // divisor, index % divisor) where coefficients are near multiples of the divisor, and
    what is left stays within a row: of 10i + j, (i, i + j) of rows of 9, if i + j is below 9."""
    whole = {t: (2 * c + divisor) // (2 * divisor) for t, c in index.terms}
    constant, rest = divmod(index.constant, divisor)
    left = {t: c - whole[t] * divisor for t, c in index.terms}
    remainder = Index(rest, tuple((t, c) for t, c in left.items() if c))
    low, high = remainder.bounds()
    if low < 0 or high >= divisor:
        return None
    return Index(constant, tuple((t, c) for t, c in whole.items() if c)), remainder


def clamp(index: Index, extent: int) -> Index:
    """`index`, or the nearest of 0 to `extent` - 1."""
    low, high = index.bounds()
    if low >= 0 and high < extent:
        return index
    if high <= 0 or extent == 1:
        return ZERO
    return Index(extent - 1) if low >= extent - 1 else index_of(Clamped(index, extent))


def unravel(index: Index, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """The coordinates of a row-major linear index into `shape`; of no element where it is empty."""
    coordinates: list[Index] = []
    for extent in reversed(shape[1:]):
        index, coordinate = divide(index, max(extent, 1))
        coordinates.append(coordinate)
    return (index, *reversed(coordinates)) if shape else ()


def _rejoin(constant: int, terms: dict[Term, int]) -> Index | None:
    """c*d*(x // d) + c*(x % d) is c*x: what a view and its memory undo."""
    for term, coefficient in terms.items():
        if not isinstance(term, Remainder):
            continue
        partner = Quotient(term.of, term.divisor)
        if terms.get(partner) == coefficient * term.divisor:
            rest = {t: c for t, c in terms.items() if t not in (term, partner)}
            return total(((Index(constant, tuple(rest.items())), 1), (term.of, coefficient)))
    return None


def _term_bounds(term: Term) -> tuple[int, int]:
    match term:
        case Axis() | Variable() | Clamped():
            return 0, max(term.extent - 1, 0)
        case Quotient():
            low, high = term.of.bounds()
            return low // term.divisor, high // term.divisor
        case Remainder():
            return 0, term.divisor - 1


def _term_key(term: Term) -> tuple[object, ...]:
    if isinstance(term, Axis):
        return (0, term.path, 0)
    if isinstance(term, Variable):
        return (3, (), term.name)
    return term.key
