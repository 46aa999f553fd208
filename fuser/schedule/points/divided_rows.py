"""An innermost axis that a view divides, as loops over the rows of the division.

    for j < 1023: out[i, j] = x[(1024 i + j) / 1025, (1024 i + j) % 1025]
->  for r < 2: for c < 1025, where j = 1025 (1024 i / 1025 + r) + c - 1024 i is from 0 to 1022:
      out[i, j] = x[1024 i / 1025 + r, c]

Nothing is divided inside, and what was read element by element is read in vectors. A row is cut
where it decides a clamp or a selection: if x has 512 columns and 513 of a pad, at c = 512.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuser.schedule.code.axes import replace_axes
from fuser.schedule.code.body import Body
from fuser.schedule.code.pieces import in_span, spans_along
from fuser.schedule.code.resolve import resolve
from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.indices.index import (
    ZERO,
    Axis,
    Index,
    Quotient,
    Remainder,
    compose,
    divide,
    total,
)
from fuser.schedule.indices.rewrites import substitute, terms_in, variables_of
from fuser.schedule.points.common import scalar_nodes
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import Loop, Within
from fuser.schedule.tree.vectors import step_along

Division = Quotient | Remainder


def over_divided_rows(body: Body, parameters: CpuParameters) -> Loop | None:
    """The loop over the rows of a division that decides where neighbours are, and inside one over
    each part of a row; None if there is none, or others decide it too."""
    inner = body.axes[-1]
    found = next(_divisions(body, parameters.divided_row), None)
    if found is None or inner.extent < parameters.divided_row:
        return None
    place, row, column = _place_in_rows(inner, found)
    divided = replace_axes(body, {inner: place})
    spans = spans_along(column, divided.lets, dict.fromkeys(divided.indices()))
    parts = [in_span(column, number, span) for number, span in enumerate(spans)]
    loops = [_part(divided, own, {column: at}, place, inner) for own, at in parts]
    whole = tuple(loop for loop in loops if loop is not None)
    return Loop(row, Binding.SERIAL, whole) if len(whole) == len(loops) else None


def _divisions(body: Body, least: int) -> Iterator[Division]:
    """The divisions, by rows of `least` elements or more, of what goes up by one from neighbour to
    neighbour, in places of memory whose steps they decide."""
    inner = body.axes[-1]
    apart = (a.at for a in body.accesses if step_along(a.at, inner) is None)
    for term in (term for at in apart for term in terms_in(at)):
        if not isinstance(term, Quotient | Remainder) or term.divisor < least:
            continue
        if step_along(term.of, inner) == 1 and not variables_of(term.of):
            yield term


def _place_in_rows(inner: Axis, division: Division) -> tuple[Index, Axis, Axis]:
    """Where on `inner` a column of a row is, and the axes of these."""
    divisor = division.divisor
    first = substitute(division.of, {inner: ZERO})
    row_of_first, column_of_first = divide(first, divisor)
    rows = (column_of_first.bounds()[1] + inner.extent - 1) // divisor + 1
    row, column = Axis((*inner.path, 0), rows), Axis((*inner.path, 1), divisor)
    place = total([(compose((row, column)), 1), (row_of_first, divisor), (first, -1)])
    return place, row, column


def _part(
    divided: Body, own: Axis, column: dict[Axis, Index], place: Index, inner: Axis
) -> Loop | None:
    """The loop over a part of a row; None where neighbours are still apart by a division."""
    part = resolve(replace_axes(divided, column))
    if any(step_along(access.at, own) is None for access in part.accesses):
        return None
    within = Within(substitute(place, column), inner.extent)
    return Loop(own, Binding.SIMD, scalar_nodes(part), within=within)
