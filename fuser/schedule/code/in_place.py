"""Whether a kernel may store a tensor where one lies that it reads.

It may if every element is read only by the thread that overwrites it, and before it does. So every
load of the old tensor must be at the element that is stored, at the same point of the loops or
at an earlier one of the same thread, and every element must be stored once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fuser.ir.nodes import Value
from fuser.schedule.code.body import Body
from fuser.schedule.code.row_body import RowBody, Sweep
from fuser.schedule.code.row_slots import conflict_free
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.statements import Load, Store, reads_in
from fuser.segmenter import Segment


def points_refusal(segment: Segment, body: Body) -> str | None:
    """Why a kernel of these points may not store where its memory says; None if it may."""
    refusals = (_of_points(segment, body, base) for base in segment.overwritten)
    return next(filter(None, refusals), None)


def rows_refusal(segment: Segment, *pieces: RowBody, by_team: bool) -> str | None:
    """Why a kernel of these rows, each a team's or a thread's, may not; None if it may. They may be
    in pieces, one after the other."""
    refusals = (_of_rows(segment, pieces, base, by_team) for base in segment.overwritten)
    return next(filter(None, refusals), None)


def scatter_refusal(segment: Segment) -> str | None:
    """Why a kernel with a scatter may not; None where it reads nothing of what it stores to."""
    reason = "a scatter makes it point by point, from all of its data"
    return reason if segment.overwritten else None


def _of_points(segment: Segment, body: Body, base: Value) -> str | None:
    """One thread does a point: its loads, then its stores."""
    (store,) = _stores(segment, base, body.stores)
    if any(load.at != store.at for load in _loads(segment, base, body.loads)):
        return _elsewhere(base)
    return _repeated([(store, body.axes)])


def _of_rows(segment: Segment, pieces: Sequence[RowBody], base: Value, by_team: bool) -> str | None:
    """No piece reads what another one stores, if each reads only where it stores itself."""
    rows = [_Rows(segment, piece, base, by_team) for piece in pieces]
    reason = next(filter(None, (piece.refusal() for piece in rows)), None)
    return reason or _repeated([stored for piece in rows for stored in piece.stored()])


class _Rows:
    """Rows, whose sweeps come one after the other, and may each store elements of their own.

    A thread of a processor has a row to itself, or meets the others between sweeps. Of a team, the
    threads give their points to themselves in every sweep over one axis, and read what is the same
    all along the row at their leisure.
    """

    def __init__(self, segment: Segment, body: RowBody, base: Value, by_team: bool) -> None:
        self._segment = segment
        self._body = body
        self._base = base
        self._by_team = by_team
        self._sweeps, self._epilogue = body.sweeps, len(body.stages)
        self._stored = [
            (number, store)
            for number, sweep in enumerate(self._sweeps)
            for store in _stores(segment, base, sweep.stores)
        ]
        """The stores, and in which sweeps they are."""

    def stored(self) -> list[tuple[Store, Sequence[Axis]]]:
        """The stores, and the axes over which each is done."""
        axes = [(*self._body.rows, *sweep.axes) for sweep in self._body.stages]
        axes += [sweep.axes for sweep in self._body.epilogue]
        return [(store, axes[number]) for number, store in self._stored]

    def refusal(self) -> str | None:
        """Why the rows may not be overwritten, each of whose elements is stored once."""
        reading: dict[Index, list[int]] = {store.at: [] for _, store in self._stored}
        for number, sweep in enumerate(self._sweeps):
            for load in _loads(self._segment, self._base, sweep.code):
                if load.at not in reading:
                    return _elsewhere(self._base)
                reading[load.at].append(number)
        refusals = (self._refusal(n, store, reading[store.at]) for n, store in self._stored)
        return next(filter(None, refusals), None)

    def _refusal(self, number: int, store: Store, reading: Sequence[int]) -> str | None:
        """Why an element may not be overwritten, which is read in some sweeps."""
        if max(reading, default=number) > number:
            return f"the old {self._base} is read again after {store.tensor} is stored"
        if number >= self._epilogue and min(reading, default=number) < number:
            return f"the old {self._base} is read by other rows"
        if self._by_team and not self._is_of_one_thread(self._sweeps[number], reading, number):
            return f"several threads read the old {self._base}"
        return None

    def _is_of_one_thread(self, sweep: Sweep, reading: Sequence[int], number: int) -> bool:
        """Whether one thread of a team has an element in all sweeps that read it."""
        if not sweep.axes or len(conflict_free(sweep)) > 1:
            return False
        before = [self._sweeps[other] for other in reading if other != number]
        return not before or (len(sweep.axes) == 1 and all(s.axes == sweep.axes for s in before))


def _stores(segment: Segment, base: Value, stores: Sequence[Store]) -> list[Store]:
    return [store for store in stores if segment.memory[store.tensor].base is base]


def _loads(segment: Segment, base: Value, code: Sequence[object]) -> list[Load]:
    return [load for load in reads_in(code) if segment.memory[load.tensor].base is base]


def _elsewhere(base: Value) -> str:
    return f"an element is computed from others of the old {base}"


def _repeated(stored: Sequence[tuple[Store, Sequence[Axis]]]) -> str | None:
    """A reason if an element is stored at more than one point of the axes of these stores, which
    together store a tensor."""
    points = 0
    for store, axes in stored:
        walked = [axis for axis in axes if axis.extent != 1]
        points += point_count(walked) if all(map(store.at.coefficient, walked)) else math.inf
    tensor = stored[0][0].tensor
    return None if points == tensor.elements else f"an element of {tensor} is stored more than once"
