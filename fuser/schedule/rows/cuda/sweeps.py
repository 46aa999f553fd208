"""The sweeps of a row on a GPU, by a team of threads.

    for each point that a thread of the team takes: fold it; join what the threads have
    for each round of the team: scan its points, from what it has come to before
    once a row: what needs no point of its own

Who takes which points follows from the team: of what is shared out, neighbouring threads take
neighbouring points, or vectors of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from itertools import chain

from fuser.ir.dtypes import DataType
from fuser.schedule.code.axes import replace_axes
from fuser.schedule.code.row_body import Fold, Sweep
from fuser.schedule.code.row_slots import folds_of_row, is_of_row, numbering_axes, row_partial
from fuser.schedule.cuda_parameters import WARP
from fuser.schedule.indices.index import ZERO, Axes, Axis, Index, of_axis
from fuser.schedule.rows.cuda.alone import Divided, divided_stages
from fuser.schedule.rows.cuda.lanes import in_lanes
from fuser.schedule.rows.cuda.scans import column_lanes, scan_lanes, scan_round
from fuser.schedule.rows.cuda.team import RowTeam
from fuser.schedule.rows.cuda.work import RowWork
from fuser.schedule.rows.powers import less_another, powers_pair
from fuser.schedule.rows.scans import carry_of, is_turned, totals_of
from fuser.schedule.rows.vectors import Vectors, vectors_for
from fuser.schedule.tree.bindings import Binding, Team
from fuser.schedule.tree.counts import ceil_div, point_count, power_of_two
from fuser.schedule.tree.expressions import Ref, join
from fuser.schedule.tree.folds import lowest_finite
from fuser.schedule.tree.loop_tree import Alone, Loop, Node, Region, Share, nested
from fuser.schedule.tree.names import own_name
from fuser.schedule.tree.row_statements import Accumulate, Finish, FinishPowers, Partial, Place
from fuser.schedule.tree.statements import Let

_AT_A_TIME = 4
"""Points, or vectors of them, for which a thread waits together."""


class TeamSweeps:
    """Makes the loops of stages; `partials` are those of the folds over the rows, by name."""

    def __init__(self, work: RowWork, team: RowTeam, partials: Mapping[str, Partial]) -> None:
        self._work = work
        self._team = team
        self._partials = partials

    def run(self, stages: Sequence[Sweep]) -> list[Node]:
        """The loops of all stages of a row, one after the other."""
        if self._is_split and (found := self._work.at_once):
            folds = [fold for sweep in found.sweeps for fold in folds_of_row(sweep)]
            loops = (loop for sweep in found.sweeps for loop in self._loops(sweep))
            before, after = ([*map(self._point, each)] for each in (found.before, found.after))
            return [*chain(*before), *self._folded(folds, tuple(loops)), *chain(*after)]
        nodes: list[Node] = []
        pair = pair_at_once(stages, self._team)
        several = self._team.team is Team.BLOCK and self._team.threads > WARP
        parts = divided_stages(stages) if several else stages
        for sweep in parts:
            if pair and sweep in pair:
                nodes += self._joined_powers(*pair) if sweep is pair[0] else ()
            elif isinstance(sweep, Divided):
                alone = Alone(tuple(self._point(sweep.alone)), sweep.reads, sweep.later)
                nodes += self._point(sweep.everyone)
                before = nodes[-1] if nodes else None
                if isinstance(before, Alone) and before.makes.isdisjoint(alone.makes):
                    nodes[-1] = before.followed_by(alone)
                else:
                    nodes.append(alone)
            else:
                nodes += self._stage(sweep)
        return nodes

    @property
    def _is_split(self) -> bool:
        """Whether several blocks do a row, which are not a cluster."""
        _, parts, _ = self._team.launch.grid
        return parts > self._team.launch.cluster

    def _stage(self, sweep: Sweep) -> list[Node]:
        if not sweep.axes:
            return self._point(sweep)
        if sweep.scans:
            return self._scanned(sweep)
        if numbering := self._taken_in_turn(sweep):
            return self._slot_by_slot(sweep, numbering)
        return self._folded(folds_of_row(sweep), self._loops(sweep))

    def _loops(self, sweep: Sweep) -> tuple[Node, ...]:
        """The loops in which a team shares out the points of a sweep."""
        outer, shared, inner = self._divided(sweep)
        vectors = Vectors() if inner else self._vectors(sweep, shared)
        *rest, last = shared
        points = in_lanes(sweep, self._accumulate, last, vectors, self._work.buffers)
        inside = nested(inner, Binding.SERIAL, points)
        of_thread = vectors.lanes, self._rounds(sweep, last, vectors)
        loop = Loop(last, Binding.TEAM, inside, *of_thread, vectors.whole, vectors.peel)
        inside = nested(rest, Binding.TEAM, (loop,))
        loops = self._outside(outer, inside)
        if vectors.peel:
            ends = in_lanes(sweep, self._accumulate, last, Vectors())
            loops = (*loops, Loop(last, Binding.ENDS, ends, peel=vectors.peel))
        return loops

    def _outside(self, axes: Sequence[Axis], inside: tuple[Node, ...]) -> tuple[Node, ...]:
        """Loops that every thread walks; of a short row, a number of rounds."""
        for axis in reversed(axes):
            rounds = power_of_two(axis.extent) if self._team.is_short else 0
            inside = (Loop(axis, Binding.SERIAL, inside, rounds=rounds),)
        return inside

    def _folded(self, folds: Sequence[Fold], loops: tuple[Node, ...]) -> list[Node]:
        """Loops in which the threads of a team fold, and what the team then makes of that."""
        finished = [Finish(row_partial(fold), ZERO) for fold in folds]
        after = [self._to_rows(fold) for fold in folds if fold.slots is not None]
        partials = tuple(map(row_partial, folds))
        return [Region(partials, loops, (*finished, *after))] if folds else list(loops)

    def _joined_powers(self, largest: Sweep, sums: Sweep) -> list[Node]:
        """Two sweeps, and what all threads of a row make of both."""
        found, summed = row_partial(largest.folds[0]), row_partial(sums.folds[0])
        own = Ref(own_name(found.name), found.kept)
        part = Ref(found.part, found.kept)
        finite = Let(own.name, own.dtype, join("maximum", part, lowest_finite(own.dtype)))
        apart = less_another(sums, Ref(found.name, found.dtype), own)
        body = (*self._loops(largest), finite, *self._loops(apart))
        return [Region((found, summed), body, (FinishPowers(found, summed, own),))]

    def _taken_in_turn(self, sweep: Sweep) -> Axes:
        """The axes that number slots of folds over the rows, if these are so few, and the points of
        each so many, that a team does better to take one after the other than each thread its own.
        """
        numbering, threads = numbering_axes(sweep), self._team.threads
        others = [axis for axis in sweep.axes if axis not in numbering]
        few = point_count(numbering) < threads <= point_count(others)
        return numbering if few and self._team.team is Team.BLOCK else ()

    def _slot_by_slot(self, sweep: Sweep, numbering: Axes) -> list[Node]:
        """A sweep, one slot of its folds over the rows after the other."""
        axes = tuple(axis for axis in sweep.axes if axis not in numbering)
        slot = dataclasses.replace(sweep, axes=axes)
        own = folds_of_row(sweep)
        of_slot = [fold for fold in folds_of_row(slot) if fold not in own]
        inside = self._folded(of_slot, self._loops(slot))
        return self._folded(own, nested(numbering, Binding.SERIAL, tuple(inside)))

    def _scanned(self, sweep: Sweep) -> list[Node]:
        """A sweep that scans, in rounds of the team; few long rows in a part for each block."""
        *outer, last = sweep.axes
        column = self._team.team is Team.COLUMN
        turned = is_turned(sweep) and not column
        vectors_of = self._turned_vectors if turned else self._own_vectors
        aligned = Vectors() if column else vectors_of(sweep, last)
        threads, given, launch = self._team.threads, self._work.parameters, self._team.launch
        lanes = scan_lanes(aligned, last.extent, threads, given)
        if column:
            lanes = column_lanes(sweep, threads, math.prod((*launch.grid, *launch.block)), given)
        turned = turned and aligned.lanes == lanes
        loop = scan_round(sweep, self._accumulate, lanes, aligned, turned=turned)
        carries = tuple(map(carry_of, sweep.scans))
        _, parts, _ = launch.grid
        if parts == 1:
            loops = (*carries, *nested(outer, Binding.SERIAL, (loop,)))
            return self._folded(folds_of_row(sweep), loops)
        summed = totals_of(sweep)
        alone = aligned if aligned.lanes == lanes and not turned else Vectors()
        inside = in_lanes(summed, self._accumulate, last, alone)
        loop_of_totals = Loop(last, Binding.TEAM, inside, alone.lanes, whole=alone.whole)
        totals = self._folded(folds_of_row(summed), (loop_of_totals,))
        each = lanes * self._team.threads
        share = ceil_div(last.extent, parts * each) * each
        return [Share(last, carries, tuple(totals), (loop,), share)]

    def _point(self, sweep: Sweep) -> list[Node]:
        """What is done once a row."""
        folds: list[Node] = []
        for fold in sweep.folds:
            if fold.slots is None:
                folds.append(Let(fold.name, fold.dtype, fold.value))
            else:
                folds.append(Accumulate(self._partials[fold.name], fold.at, fold.value))
        return [*sweep.code, *folds, *sweep.stores]

    def _accumulate(self, fold: Fold, sweep: Sweep) -> Accumulate:
        if is_of_row(fold, sweep):
            return Accumulate(row_partial(fold), ZERO, fold.value)
        return Accumulate(self._partials[fold.name], fold.at, fold.value)

    def _to_rows(self, fold: Fold) -> Accumulate:
        """Join what a row folded to what all rows have."""
        partial = self._partials[fold.name]
        return Accumulate(partial, fold.at, Ref(row_partial(fold).name, fold.dtype))

    def _divided(self, sweep: Sweep) -> tuple[Axes, Axes, Axes]:
        """Axes of a sweep to walk one by one, inside them those to share out, and the others.

        A slot of a fold over the rows always belongs to the same thread: what is shared out numbers
        the slots. Of several axes, the last alone is, if it keeps all threads of a row busy: then
        nothing is divided to find a point. What is kept of a row is of all its axes.
        """
        numbering = numbering_axes(sweep)
        last = sweep.axes[-1]
        if self._team.team is Team.GRID or self._team.keeps(sweep):
            return (), sweep.axes, ()
        if last in numbering and (len(numbering) == 1 or self._keeps_busy(sweep, last)):
            return sweep.axes[:-1], (last,), ()
        return (), numbering, tuple(axis for axis in sweep.axes if axis not in numbering)

    def _keeps_busy(self, sweep: Sweep, axis: Axis) -> bool:
        """Whether each thread of a row has so many points along an axis, or vectors of them, that
        it waits for several at a time; of a short row, whether it has some."""
        if self._team.is_short:  # all rounds are unrolled
            return axis.extent >= self._team.threads
        _, parts, _ = self._team.launch.grid
        lanes = 1 if self._team.team is Team.COLUMN else self._own_vectors(sweep, axis).lanes
        busy = _AT_A_TIME * parts * self._team.threads
        return ceil_div(axis.extent, lanes) >= busy

    def _vectors(self, sweep: Sweep, shared: Axes) -> Vectors:
        """How a thread takes neighbouring elements along the last of the axes shared out."""
        last = sweep.axes[-1]
        vectors = self._team.to_keep.vectors.get(sweep.axes)
        if vectors and (len(sweep.axes) == 1 or self._team.keeps(sweep)):
            return vectors
        if self._team.team is Team.COLUMN or last is not shared[-1]:
            return Vectors()
        vectors = self._own_vectors(sweep, last)
        return vectors if len(shared) == 1 else Vectors(math.gcd(vectors.lanes, last.extent))

    def _turned_vectors(self, sweep: Sweep, axis: Axis) -> Vectors:
        """Vectors of a sweep that goes back through memory; none where they are not all whole."""
        mirrored = replace_axes(sweep, {axis: Index(axis.extent - 1) + of_axis(axis) * -1})
        vectors = self._own_vectors(mirrored, axis)
        return vectors if vectors.whole else Vectors()

    def _own_vectors(self, sweep: Sweep, axis: Axis) -> Vectors:
        """Vectors along an axis of one sweep, whatever others have."""
        work = self._work
        given = work.buffers, [sweep], axis, work.parameters
        return vectors_for(*given, may_peel=False)

    def _rounds(self, sweep: Sweep, axis: Axis, vectors: Vectors) -> int:
        """How many points, or vectors of them, every thread takes along an axis, where the text
        says so: as many as it keeps something of in registers; of a short row, all. Else 0."""
        room = self._team.room if self._team.keeps(sweep) else None
        if room and room.place is Place.REGISTERS:
            return room.rounds
        if not self._team.is_short:
            return 0
        needed = power_of_two(ceil_div(axis.extent, vectors.lanes)) // self._team.threads
        return max(needed, 1) if needed <= self._work.parameters.unrolled else 0


def pair_at_once(stages: Sequence[Sweep], team: RowTeam) -> tuple[Sweep, Sweep] | None:
    """Two sweeps of a softmax, if a block, or a cluster, has a row: its threads then wait for each
    other once, not twice."""
    _, teams, _ = team.launch.block
    if team.team is not Team.BLOCK or teams > 1:
        return None
    pair = powers_pair(stages)
    if pair is None:
        return None
    partials = [row_partial(fold) for sweep in pair for fold in sweep.folds]
    alike = all(partial.kept is partial.dtype is DataType.Float for partial in partials)
    return pair if alike and len(partials) == 2 else None
