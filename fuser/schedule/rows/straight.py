"""All sweeps of a row of a few elements as straight-line code.

    i0 < 1000: i1 < 4: T1 folds T0[4 i0 + i1]; store T1 / 4
->  i0 < 1000: T1 = T0[4 i0] + T0[4 i0 + 1] + ...; store T1 / 4

Nothing is kept in memory between sweeps, and what two of them compute is computed once.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

from fuser.schedule.code.axes import places_along, replace_axes
from fuser.schedule.code.row_body import Code, Fold, RowBody, Sweep
from fuser.schedule.code.straight_line import Line, StraightLine
from fuser.schedule.indices.index import Index
from fuser.schedule.tree.expressions import Call, Expression, Ref, convert
from fuser.schedule.tree.folds import neutral
from fuser.schedule.tree.row_statements import Running
from fuser.schedule.tree.statements import CheckedIndex, Let, Load

Places = dict[tuple[str, Index], Fold]
"""By name and place, what several points fold."""


def straight_row(body: RowBody) -> Sweep:
    """All stages as a sweep over neighbouring rows, without loops inside."""
    line, places = StraightLine(), Places()
    for sweep in body.stages:
        for fold in sweep.folds_of_row:
            line.let(fold.name, fold.dtype, neutral(fold.operation, fold.dtype))
        for scan in sweep.scans:
            line.let(scan.carry, scan.dtype, neutral(scan.operation, scan.dtype))
        for point in _points(sweep):
            line.add(itertools.chain.from_iterable(map(_scanned, point.code)), point.stores)
            for fold in point.folds_of_row:
                line.let(fold.name, fold.dtype, _joined(fold, Ref(fold.name, fold.dtype)))
            add_folds(places, point.folds_over_rows, line)
    return Sweep(body.rows[-1:], tuple(line.code), tuple(places.values()), tuple(line.stores))


def _scanned(node: Code) -> Iterator[Line]:
    """A node of a point; of a scan, what it comes to there."""
    if isinstance(node, Load | Let | CheckedIndex):
        yield node
    elif isinstance(node, Running):
        held = Ref(node.carry, node.dtype)
        operands = held, convert(node.value, node.dtype)
        yield Let(held.name, held.dtype, Call(node.operation, operands, held.dtype))
        yield Let(node.name, node.dtype, held)


def add_folds(places: Places, folds: Iterable[Fold], line: StraightLine) -> None:
    """Add what a point folds, by the names of `line`, to what those before it fold to the same
    place."""
    for fold in folds:
        more = dataclasses.replace(fold, value=line.read(fold.value))
        held = places.get((fold.name, fold.at))
        if held is not None:
            more = dataclasses.replace(more, value=_joined(more, held.value))
        places[fold.name, fold.at] = more


def _joined(fold: Fold, held: Expression) -> Call:
    operands = convert(held, fold.dtype), convert(fold.value, fold.dtype)
    return Call(fold.operation, operands, fold.dtype)


def _points(sweep: Sweep) -> Iterator[Sweep]:
    """A sweep at each of its points, in order; what is done once a row has one."""
    return (replace_axes(sweep, place) for place in places_along(sweep.axes))
