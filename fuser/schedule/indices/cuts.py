"""Where to cut an axis in two, so that a division in an index goes away.

    x / 6 of x < 24           x is 6 i + j               i          a clean cut: equal parts
    (x + 2) / 100, x < 250    x < 98, x < 198, x < 250   0, 1, 2    ragged: where its rows begin

What is cut so is indexed without a division in each of its parts.
"""

from __future__ import annotations

from fuser.schedule.indices.index import Axis, Clamped, Index, Quotient, Remainder, Variable
from fuser.schedule.indices.rewrites import terms_in

LEAST_ROW = 16
"""Elements of a row that is worth a loop of its own, where an axis is no whole number of them: of
shorter ones, a vector has parts of several."""


def clean_cut(index: Index) -> tuple[Axis, int] | None:
    """An axis and the inner extent at which to split it so that a division in `index` goes away."""
    for term, _ in index.terms:
        if isinstance(term, Axis | Variable):
            continue
        found = clean_cut(term.of)
        if found is None and not isinstance(term, Clamped):
            found = _cut(term.of, term.divisor)
        if found is not None:
            return found
    return None


def ragged_cut(index: Index) -> tuple[Axis, tuple[int, ...]] | None:
    """An axis that is divided by itself, and where to cut it so that a division in `index` goes
    away: where the first whole row of the divisor begins, and where the last one ends."""
    divisions = (t for t in terms_in(index) if isinstance(t, Quotient | Remainder))
    return next(filter(None, (_whole_rows(t.of, t.divisor) for t in divisions)), None)


def _cut(of: Index, divisor: int) -> tuple[Axis, int] | None:
    for term, coefficient in of.terms:
        if not isinstance(term, Axis) or divisor % coefficient:
            continue
        inner = divisor // abs(coefficient)
        if inner < term.extent and term.extent % inner == 0:
            return term, inner
    return None


def _whole_rows(of: Index, divisor: int) -> tuple[Axis, tuple[int, ...]] | None:
    if len(of.terms) != 1:
        return None
    ((axis, step),) = of.terms
    if not isinstance(axis, Axis) or step < 0 or divisor % step or of.constant % step:
        return None
    row = divisor // step
    first = -(of.constant // step) % row
    last = first + (axis.extent - first) // row * row
    inside = tuple(point for point in sorted({first, last}) if 0 < point < axis.extent)
    return (axis, inside) if row >= LEAST_ROW and inside else None
