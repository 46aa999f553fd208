"""Row body -> loop tree for a GPU: a team of threads for each row.

    warp      short rows: a warp for each, or some lanes of one, several rows a block
    block     long rows: a block for each, or several blocks where rows are few; several rows a
              block where threads have folds over the rows in registers
    column    memory is consecutive across rows: neighbouring rows for neighbouring threads
    grid      nothing is folded: every element for itself, or a few vectors a thread

Every thread folds its elements in the type of the fold; the threads' parts are joined as a tree
(`sweeps.py`). Folds over the rows are kept by each block until it has done its rows, and
joined by the last one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from fuser.ir.dtypes import DataType
from fuser.schedule.code.in_place import rows_refusal
from fuser.schedule.code.index_comparisons import rows_in_32_bits
from fuser.schedule.code.row_body import RowBody, indices_of, rewrite_alike
from fuser.schedule.code.row_slots import conflict_free, team_partial
from fuser.schedule.code.sums_with_one import join_sums_with_one
from fuser.schedule.cuda_parameters import CudaRowParameters
from fuser.schedule.indices.index import ZERO
from fuser.schedule.indices.width import index_dtype
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.cuda.kept import VALUE_BYTES, keep_loads, keep_values
from fuser.schedule.rows.cuda.points import may_stream
from fuser.schedule.rows.cuda.room import Demand, fits_registers
from fuser.schedule.rows.cuda.sweeps import TeamSweeps, pair_at_once
from fuser.schedule.rows.cuda.teams import TeamChoice
from fuser.schedule.rows.cuda.work import RowWork
from fuser.schedule.rows.facts import use_facts
from fuser.schedule.rows.trace import trace_rows
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.buffers import Alignments, Buffers
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.loop_nest import LoopNest
from fuser.schedule.tree.loop_tree import Node, Region, nested
from fuser.schedule.tree.names import kernel_name
from fuser.schedule.tree.row_statements import Finish, Keep, OwnSlots, Place, RowArray
from fuser.segmenter import Segment


def schedule_rows_cuda(
    segment: Segment, alignments: Alignments, parameters: CudaRowParameters
) -> LoopNest:
    """The loop nest of a segment with reductions or gathers. What folds nothing goes by the rows of
    its last store where they are long enough, so that an index is computed once for a part of one.
    """
    buffers = Buffers(segment.memory, alignments)
    if segment.rows is None:
        body = _refined(trace_rows(segment, of_store=True))
        if may_stream(body, parameters) and rows_refusal(segment, body, by_team=True) is None:
            return map_rows(segment, body, None, buffers, parameters)
    body = refined_rows(segment)
    refusal = rows_refusal(segment, body, by_team=True)
    return map_rows(segment, body, refusal, buffers, parameters)


def refined_rows(segment: Segment) -> RowBody:
    """The rows of a segment, with the arithmetic that a GPU does cheaper."""
    return _refined(trace_rows(segment))


def _refined(body: RowBody) -> RowBody:
    body = rewrite_alike(arrange_rows(body), join_sums_with_one)
    return rows_in_32_bits(use_facts(body, by_inverse=True))


def map_rows(
    segment: Segment,
    body: RowBody,
    overwrite_refusal: str | None,
    buffers: Buffers,
    parameters: CudaRowParameters,
) -> LoopNest:
    """The loop nest of a row body."""
    return _Mapping(segment, body, buffers, parameters).run(overwrite_refusal)


class _Mapping:
    """The loops that follow from the choice of a team."""

    def __init__(
        self,
        segment: Segment,
        body: RowBody,
        buffers: Buffers,
        parameters: CudaRowParameters,
    ) -> None:
        self._segment = segment
        self._body = body
        self._parameters = parameters
        self._partials = {fold.name: team_partial(fold) for fold in body.folds_over_rows}
        self._stages = [part for sweep in body.stages for part in conflict_free(sweep)]
        partials = tuple(self._partials.values())
        self._work = RowWork(segment, body, self._stages, partials, buffers, parameters)
        self._team, self._not_chosen = TeamChoice(self._work).run()

    def run(self, overwrite_refusal: str | None) -> LoopNest:
        team, launch, kept = self._team, self._team.launch, self._team.to_keep
        stages, values = self._stages, list[Keep]()
        if team.room and kept.axes:
            stages = keep_loads(stages, kept.axes, kept.loads)
            again = launch.cluster > 1 and pair_at_once(stages, team) is not None
            if self._has_registers_for_values() and not again:
                stages, values = keep_values(self._body, stages, kept.axes)
        names = [node.name for node in (*kept.loads, *values)]
        swept = TeamSweeps(self._work, team, self._partials).run(stages)
        rows = nested(self._body.rows, Binding.TEAMS, (*self._row_arrays(values), *swept))
        partials = tuple(self._partials.values())
        region = Region(partials, rows, self._epilogue(), own=self._own_slots())
        x, y, _ = launch.block
        names += [slots.partial.name for slots in self._own_slots()]
        keeps = f", keeps {', '.join(names)} in {team.room.place.value}" if team.room else ""
        return LoopNest(
            name=kernel_name("rows", self._segment),
            axes=self._body.axes,
            prologue=self._body.prologue,
            body=(region,),
            launch=launch,
            index_dtype=self._index_dtype(),
            mapping=f"cuda rows, {team.team.name.lower()} of {x} x {y}{keeps}",
            parameters=self._parameters,
            overwrite_refusal=overwrite_refusal,
            team=team.team,
            not_chosen=self._not_chosen,
        )

    def _has_registers_for_values(self) -> bool:
        """Whether a thread may keep a value of each of its points beside what it loads of them,
        which compilers may hold on to for as long."""
        team, room, kept = self._team, self._team.room, self._team.to_keep
        if room is None or not kept.axes or room.place is not Place.REGISTERS:
            return False
        if team.has_slots:  # which fill what is there
            return False
        sizes = (*kept.sizes, VALUE_BYTES)
        demand = Demand(room.rounds, kept.vectors[kept.axes].lanes, sizes)
        threads = math.prod(team.launch.block)
        return fits_registers(demand.vectors * demand.words, threads, self._parameters)

    def _row_arrays(self, values: Sequence[Keep]) -> Iterator[RowArray]:
        """Room for what is kept of a row."""
        team, room, kept = self._team, self._team.room, self._team.to_keep
        if room is None or not kept.axes:
            return
        vectors, offset = kept.vectors[kept.axes], 0
        lanes, ends = vectors.lanes, vectors.peel is not None
        in_block = room.rounds * math.prod(team.launch.block) * lanes
        for node in (*kept.loads, *values):
            place = room.place, room.rounds, offset
            yield RowArray(node.name, node.dtype, kept.axes, lanes, *place, ends)
            offset += in_block * node.dtype.itemsize

    def _own_slots(self) -> tuple[OwnSlots, ...]:
        """What threads have of folds over the rows in registers."""
        room, kept = self._team.room, self._team.to_keep
        if not self._team.has_slots or room is None:
            return ()
        (axis,) = kept.axes
        arrays = (partial for partial in self._partials.values() if partial.slots > 1)
        lanes = kept.vectors[kept.axes].lanes
        return tuple(OwnSlots(partial, axis, lanes, room.rounds) for partial in arrays)

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
        indices = indices_of(self._body.sweeps)
        counts = self._work.rows, self._body.longest, self._parts()
        return index_dtype(self._segment, indices, *counts)

    def _parts(self) -> int:
        """How many parts of a fold lie in a workspace."""
        blocks, of_row, _ = self._team.launch.grid
        if self._partials:
            return blocks * of_row * max(partial.slots for partial in self._partials.values())
        return point_count(self._body.rows) * of_row
