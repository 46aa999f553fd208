"""Row body -> loop tree for a GPU: a team of threads for each row.

    warp      short rows: a warp for each, or some lanes of one, several rows a block
    block     long rows: a block for each, or several blocks where rows are few; several rows a
              block where threads have folds over the rows in registers
    column    memory is consecutive across rows: neighbouring rows for neighbouring threads
    grid      nothing is folded: every element for itself, or a few vectors a thread

Every thread folds its elements in the type of the fold; the threads' parts are joined as a tree.
Folds over the rows are kept by each block until it has done its rows, and joined by the last one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from fuser.ir.dtypes import DataType
from fuser.schedule.bindings import Binding, Team
from fuser.schedule.counts import ceil_div, point_count, power_of_two
from fuser.schedule.cuda_parameters import CudaRowParameters
from fuser.schedule.emit import join
from fuser.schedule.expressions import Ref
from fuser.schedule.folds import lowest_finite
from fuser.schedule.in_place import rows_refusal
from fuser.schedule.index import ZERO, Axis
from fuser.schedule.index_comparisons import rows_in_32_bits
from fuser.schedule.index_width import index_dtype
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import Loop, Node, Region, Share, nested
from fuser.schedule.names import kernel_name, own_name, part_name
from fuser.schedule.point_rows_cuda import may_stream
from fuser.schedule.row_axes import arrange_rows
from fuser.schedule.row_body import Fold, RowBody, Sweep
from fuser.schedule.row_facts import use_facts
from fuser.schedule.row_kept import VALUE_BYTES, keep_loads, keep_values
from fuser.schedule.row_lanes import in_lanes
from fuser.schedule.row_powers import less_another, powers_pair
from fuser.schedule.row_room import Demand, fits_registers
from fuser.schedule.row_scans import carry_of, totals_of
from fuser.schedule.row_scans_cuda import scan_lanes, scan_round
from fuser.schedule.row_slots import (
    Axes,
    conflict_free,
    is_of_row,
    numbering_axes,
    row_partial,
    team_partial,
)
from fuser.schedule.row_statements import (
    Accumulate,
    Finish,
    FinishPowers,
    Keep,
    OwnSlots,
    Place,
    RowArray,
)
from fuser.schedule.row_teams import TeamChoice
from fuser.schedule.row_trace import trace_rows
from fuser.schedule.row_vectors import Vectors, vectors_for
from fuser.schedule.row_work import RowWork
from fuser.schedule.statements import Let
from fuser.schedule.sums_with_one import join_sums_with_one_in_rows
from fuser.schedule.vectors import Alignments
from fuser.segmenter import Segment


def schedule_rows_cuda(
    segment: Segment, alignments: Alignments, parameters: CudaRowParameters
) -> LoopNest:
    """The loop nest of a segment with reductions or gathers. What folds nothing goes by the rows of
    its last store where they are long enough, so that an index is computed once for a part of one.
    """
    if segment.rows is None:
        body = _refined(trace_rows(segment, of_store=True))
        if may_stream(body, parameters) and rows_refusal(segment, body, by_team=True) is None:
            return map_rows(segment, body, None, alignments, parameters)
    body = _refined(trace_rows(segment))
    refusal = rows_refusal(segment, body, by_team=True)
    return map_rows(segment, body, refusal, alignments, parameters)


def _refined(body: RowBody) -> RowBody:
    body = join_sums_with_one_in_rows(arrange_rows(body))
    return rows_in_32_bits(use_facts(body, by_inverse=True))


def map_rows(
    segment: Segment,
    body: RowBody,
    overwrite_refusal: str | None,
    alignments: Alignments,
    parameters: CudaRowParameters,
) -> LoopNest:
    """The loop nest of a row body."""
    return _Mapping(segment, body, alignments, parameters).run(overwrite_refusal)


class _Mapping:
    """The loops that follow from the choice of a team."""

    def __init__(
        self,
        segment: Segment,
        body: RowBody,
        alignments: Alignments,
        parameters: CudaRowParameters,
    ) -> None:
        self._segment = segment
        self._body = body
        self._alignments = alignments
        self._parameters = parameters
        self._partials = {fold.name: team_partial(fold) for fold in body.folds_over_rows}
        self._stages = [part for sweep in body.stages for part in conflict_free(sweep)]
        partials = tuple(self._partials.values())
        work = RowWork(segment, body, self._stages, partials, alignments, parameters)
        self._team, self._not_chosen = TeamChoice(work).run()

    def run(self, overwrite_refusal: str | None) -> LoopNest:
        team, launch = self._team, self._team.launch
        stages, values = self._stages, list[Keep]()
        if team.room and team.axis:
            stages = keep_loads(stages, team.axis, team.kept)
            again = launch.cluster > 1 and self._powers_pair(stages)
            if self._has_registers_for_values() and not again:
                stages, values = keep_values(self._body, stages, team.axis)
        names = [*(load.name for load in team.kept), *(value.name for value in values)]
        nodes: list[Node] = list(self._row_arrays(values))
        pair = self._powers_pair(stages)
        for sweep in stages:
            if pair and sweep in pair:
                nodes += self._joined_powers(*pair) if sweep is pair[0] else ()
            else:
                nodes += self._stage(sweep)
        rows = nested(self._body.rows, Binding.TEAMS, tuple(nodes))
        partials = tuple(self._partials.values())
        region = Region(partials, rows, self._epilogue(), own=self._own_slots())
        x, y, _ = launch.block
        names += [slots.partial.name for slots in self._own_slots()]
        kept = f", keeps {', '.join(names)} in {team.room.place.value}" if team.room else ""
        return LoopNest(
            name=kernel_name("rows", self._segment),
            axes=self._body.axes,
            prologue=self._body.prologue,
            body=(region,),
            launch=launch,
            index_dtype=self._index_dtype(),
            mapping=f"cuda rows, {team.team.name.lower()} of {x} x {y}{kept}",
            parameters=self._parameters,
            overwrite_refusal=overwrite_refusal,
            team=team.team,
            not_chosen=self._not_chosen,
        )

    def _has_registers_for_values(self) -> bool:
        """Whether a thread may keep a value of each of its points beside what it loads of them,
        which compilers may hold on to for as long."""
        team, room = self._team, self._team.room
        if room is None or team.axis is None or room.place is not Place.REGISTERS:
            return False
        if team.has_slots:  # which fill what is there
            return False
        sizes = (*(load.tensor.dtype.itemsize for load in team.kept), VALUE_BYTES)
        demand = Demand(room.rounds, team.vectors[team.axis].lanes, sizes)
        threads = math.prod(team.launch.block)
        return fits_registers(demand.vectors * demand.words, threads, self._parameters)

    def _row_arrays(self, values: Sequence[Keep]) -> Iterator[RowArray]:
        """Room for what is kept of a row."""
        team, room = self._team, self._team.room
        if room is None or team.axis is None:
            return
        vectors, offset = team.vectors[team.axis], 0
        lanes, ends = vectors.lanes, vectors.peel is not None
        in_block = room.rounds * math.prod(team.launch.block) * lanes
        for load in team.kept:
            dtype, place = load.tensor.dtype, (room.place, room.rounds, offset)
            yield RowArray(load.name, dtype, team.axis, lanes, *place, ends)
            offset += in_block * dtype.itemsize
        for value in values:
            yield RowArray(
                value.name, value.dtype, team.axis, lanes, room.place, room.rounds, 0, ends
            )

    def _own_slots(self) -> tuple[OwnSlots, ...]:
        """What threads have of folds over the rows in registers."""
        team, room = self._team, self._team.room
        if not team.has_slots or room is None or team.axis is None:
            return ()
        arrays = (partial for partial in self._partials.values() if partial.slots > 1)
        lanes = team.vectors[team.axis].lanes
        return tuple(OwnSlots(partial, team.axis, lanes, room.rounds) for partial in arrays)

    def _kept(self) -> list[str]:
        """What is kept in the team's room."""
        own = [slots.partial.name for slots in self._own_slots()]
        return [*(load.name for load in self._team.kept), *own]

    # -- stages ----------------------------------------------------------------------------------

    def _stage(self, sweep: Sweep) -> list[Node]:
        if not sweep.axes:
            return self._point(sweep)
        if sweep.scans:
            return self._scanned(sweep)
        if numbering := self._taken_in_turn(sweep):
            return self._slot_by_slot(sweep, numbering)
        own = [fold for fold in sweep.folds if is_of_row(fold, sweep)]
        return self._folded(own, self._loops(sweep))

    def _loops(self, sweep: Sweep) -> tuple[Node, ...]:
        """The loops in which a team shares out the points of a sweep."""
        outer, shared, inner = self._divided(sweep)
        vectors = Vectors() if inner else self._vectors(sweep, shared)
        *rest, last = shared
        inside = nested(inner, Binding.SERIAL, in_lanes(sweep, self._accumulate, last, vectors))
        alone = sweep.axes == (self._team.axis,)
        inside = nested(rest, Binding.TEAM, (self._shared_out(last, inside, vectors, alone),))
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

    def _powers_pair(self, stages: Sequence[Sweep]) -> tuple[Sweep, Sweep] | None:
        """Two sweeps of a softmax, if a block, or a cluster, has a row: its threads then wait for
        each other once, not twice."""
        _, teams, _ = self._team.launch.block
        if self._team.team is not Team.BLOCK or teams > 1:
            return None
        pair = powers_pair(stages)
        if pair is None:
            return None
        partials = [row_partial(fold) for sweep in pair for fold in sweep.folds]
        alike = all(partial.kept is partial.dtype is DataType.Float for partial in partials)
        return pair if alike and len(partials) == 2 else None

    def _joined_powers(self, largest: Sweep, sums: Sweep) -> list[Node]:
        """Two sweeps, and what all threads of a row make of both."""
        found, summed = row_partial(largest.folds[0]), row_partial(sums.folds[0])
        own = Ref(own_name(found.name), found.kept)
        part = Ref(part_name(found.name), found.kept)
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
        own = [fold for fold in sweep.folds if is_of_row(fold, sweep)]
        of_slot = [fold for fold in sweep.folds if fold not in own and is_of_row(fold, slot)]
        inside = self._folded(of_slot, self._loops(slot))
        return self._folded(own, nested(numbering, Binding.SERIAL, tuple(inside)))

    def _scanned(self, sweep: Sweep) -> list[Node]:
        """A sweep that scans, in rounds of the team; few long rows in a part for each block."""
        *outer, last = sweep.axes
        column = self._team.team is Team.COLUMN
        given = self._segment, [sweep], last, self._alignments, self._parameters
        aligned = Vectors() if column else vectors_for(*given, may_peel=False)
        lanes = scan_lanes(aligned, last.extent, self._team.threads, self._parameters)
        loop = scan_round(sweep, self._accumulate, lanes, aligned)
        carries = tuple(map(carry_of, sweep.scans))
        _, parts, _ = self._team.launch.grid
        if parts == 1:
            own = [fold for fold in sweep.folds if is_of_row(fold, sweep)]
            return self._folded(own, (*carries, *nested(outer, Binding.SERIAL, (loop,))))
        summed = totals_of(sweep)
        alone = aligned if aligned.lanes == lanes else Vectors()
        inside = in_lanes(summed, self._accumulate, last, alone)
        own = [fold for fold in summed.folds if is_of_row(fold, summed)]
        totals = self._folded(own, (Loop(last, Binding.TEAM, inside, alone.lanes),))
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
        the slots.
        """
        numbering = numbering_axes(sweep)
        last = sweep.axes[-1]
        if self._team.team is Team.GRID:
            return (), sweep.axes, ()
        if last in numbering and (last.extent >= self._team.threads or len(numbering) == 1):
            return sweep.axes[:-1], (last,), ()
        return (), numbering, tuple(axis for axis in sweep.axes if axis not in numbering)

    def _vectors(self, sweep: Sweep, shared: Axes) -> Vectors:
        """How a thread takes neighbouring elements along the last of the axes shared out."""
        last = sweep.axes[-1]
        if len(sweep.axes) == 1 and last in self._team.vectors:
            return self._team.vectors[last]
        if self._team.team is Team.COLUMN or last is not shared[-1]:
            return Vectors()
        given = self._segment, [sweep], last, self._alignments, self._parameters
        vectors = vectors_for(*given, may_peel=False)
        if len(shared) == 1:
            return vectors
        return Vectors(math.gcd(vectors.lanes, last.extent))

    def _shared_out(
        self, axis: Axis, inside: tuple[Node, ...], vectors: Vectors, as_kept: bool
    ) -> Loop:
        """The loop in which every thread takes its points along an axis; as many of them as it
        keeps something of, if these are the points that are kept."""
        room = self._team.room if as_kept else None
        rounds = room.rounds if room and room.place is Place.REGISTERS else 0
        lanes, whole, peel = vectors.lanes, vectors.whole, vectors.peel
        if self._team.is_short and not rounds:
            needed = max(power_of_two(ceil_div(axis.extent, lanes)) // self._team.threads, 1)
            rounds = needed if needed <= self._parameters.unrolled else 0
        return Loop(axis, Binding.TEAM, inside, lanes, rounds, whole, peel)

    def _epilogue(self) -> tuple[Node, ...]:
        used = {fold.name: fold for sweep in self._body.epilogue for fold in sweep.folds}
        scalars = [self._partials[name] for name, fold in used.items() if fold.slots == 1]
        nodes: list[Node] = [Finish(partial, ZERO) for partial in scalars]
        for sweep in self._body.epilogue:
            arrays = (fold for fold in sweep.folds if fold.slots != 1)
            finished = [Finish(self._partials[fold.name], fold.at) for fold in arrays]
            nodes += nested(sweep.axes, Binding.TEAM, (*finished, *sweep.code, *sweep.stores))
        return tuple(nodes)

    def _index_dtype(self) -> DataType:
        indices = [index for sweep in self._body.sweeps for index in sweep.indices()]
        return index_dtype(self._segment, indices, self._body.longest, self._parts())

    def _parts(self) -> int:
        """How many parts of a fold lie in a workspace."""
        blocks, of_row, _ = self._team.launch.grid
        if self._partials:
            return blocks * of_row * max(partial.slots for partial in self._partials.values())
        return point_count(self._body.rows) * of_row
