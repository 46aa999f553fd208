"""Row body -> loop tree for a GPU: a team of threads for each row.

    warp      short rows: a warp for each, several rows a block
    block     long rows: a block for each, or several blocks where rows are few
    column    memory is consecutive across rows: neighbouring rows for neighbouring threads
    grid      nothing is folded: every element for itself

Every thread folds its elements in the type of the fold; the threads' parts are joined as a tree.
Folds over the rows are kept by each block until it has done its rows, and joined by the last one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fuser.ir.dtypes import DataType
from fuser.schedule.heuristics import CudaRowParameters
from fuser.schedule.index import ZERO, Axis, affine_parts
from fuser.schedule.loop_tree import (
    Accumulate,
    Binding,
    Finish,
    Launch,
    Let,
    Loop,
    LoopNest,
    Node,
    Ref,
    Region,
    Team,
    nested,
)
from fuser.schedule.names import kernel_name
from fuser.schedule.row_axes import arrange_rows, lanes_across_rows
from fuser.schedule.row_body import Fold, RowBody, Sweep
from fuser.schedule.row_lanes import in_lanes, lanes_for
from fuser.schedule.row_slots import (
    Axes,
    conflict_free,
    folded_over_rows,
    is_of_row,
    numbering_axes,
    partial_of,
    row_partial,
)
from fuser.schedule.row_trace import trace_rows
from fuser.schedule.vectors import Alignments
from fuser.segmenter import Segment


def schedule_rows_cuda(
    segment: Segment, alignments: Alignments, parameters: CudaRowParameters
) -> LoopNest:
    """The loop nest of a segment with reductions or gathers."""
    body = arrange_rows(trace_rows(segment))
    return _Mapping(segment, body, alignments, parameters).run()


_LARGEST = 2**31 - 2**27
"""Loop variables may step past their end by all threads of the grid."""


class _Mapping:
    """One choice of team, block and grid, and the loops that follow from it."""

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
        self._rows = _points(body.rows)
        self._longest = max((_points(sweep.axes) for sweep in body.stages), default=1)
        self._partials = {fold.name: partial_of(fold) for fold in folded_over_rows(body)}
        self._team = self._choose_team()
        self._launch = self._choose_launch()

    def run(self) -> LoopNest:
        nodes: list[Node] = []
        for sweep in self._body.stages:
            for part in conflict_free(sweep):
                nodes += self._stage(part)
        rows = nested(self._body.rows, Binding.TEAMS, tuple(nodes))
        region = Region(tuple(self._partials.values()), rows, self._epilogue())
        sweeps = (*self._body.stages, *self._body.epilogue)
        axes = dict.fromkeys((*self._body.rows, *(a for sweep in sweeps for a in sweep.axes)))
        x, y, _ = self._launch.block
        return LoopNest(
            name=kernel_name("rows", self._segment),
            axes=tuple(axes),
            prologue=self._body.prologue,
            body=(region,),
            launch=self._launch,
            index_dtype=self._index_dtype(),
            parameters=f"cuda rows: {self._team.name.lower()} of {x} x {y}, {self._parameters}",
            team=self._team,
        )

    # -- the launch ------------------------------------------------------------------------------

    def _choose_team(self) -> Team:
        folds = any(sweep.folds for sweep in self._body.stages)
        if not folds and not self._body.rows:
            return Team.GRID
        if lanes_across_rows(self._body):
            return Team.COLUMN
        short = self._longest <= self._parameters.warp_elements
        many = self._rows * 32 >= self._parameters.resident
        fits = self._longest <= self._parameters.warp_elements // 8
        return Team.WARP if short and (many or fits) and not self._has_arrays() else Team.BLOCK

    def _has_arrays(self) -> bool:
        return any(partial.slots > 1 for partial in self._partials.values())

    def _choose_launch(self) -> Launch:
        given = self._parameters
        match self._team:
            case Team.GRID:
                block, parts = (given.grid_threads, 1, 1), 1
                teams = _groups(self._longest, given.grid_threads)
            case Team.COLUMN:
                block = (32, given.column_threads, 1)
                teams = _groups(self._rows, 32)
                parts = self._split(teams, 32, given.column_threads)
            case Team.WARP:
                block, parts = (32, given.warps, 1), 1
                teams = _groups(self._rows, given.warps)
            case Team.BLOCK:
                threads = given.threads_for(self._longest, has_slots=self._has_arrays())
                block, teams = (threads, 1, 1), self._rows
                parts = self._split(teams, 1, threads)
        most = self._most_blocks(math.prod(block)) if self._partials else given.most_blocks
        return Launch((min(teams, most), parts, 1), block, math.prod(block))

    def _most_blocks(self, threads: int) -> int:
        """Blocks that keep folds over the rows: as many as run at once, and have room."""
        room = sum(partial.slots * partial.kept.itemsize for partial in self._partials.values())
        resident = self._parameters.resident // threads
        return max(min(resident, self._parameters.workspace_bytes // room), 1)

    def _split(self, teams: int, width: int, height: int) -> int:
        """Blocks that share a row, where there are fewer rows than the GPU runs blocks."""
        stages = [sweep for sweep in self._body.stages if sweep.axes]
        before = self._body.stages[: self._body.stages.index(stages[0])] if stages else ()
        if len(stages) != 1 or self._partials or not stages[0].folds:
            return 1
        if any(sweep.stores or sweep.folds for sweep in before):
            return 1
        blocks = self._parameters.resident // (teams * width * height)
        return max(min(blocks, self._longest // (height * self._parameters.split_elements)), 1)

    # -- stages ----------------------------------------------------------------------------------

    def _stage(self, sweep: Sweep) -> list[Node]:
        if not sweep.axes:
            return self._point(sweep)
        outer, shared, inner = self._divided(sweep)
        lanes = 1 if inner else self._lanes(sweep, shared)
        inside = nested(inner, Binding.SERIAL, in_lanes(sweep, self._accumulate, shared[-1], lanes))
        *rest, last = shared
        inside = nested(rest, Binding.TEAM, (Loop(last, Binding.TEAM, inside, lanes),))
        loops = nested(outer, Binding.SERIAL, inside)
        own = [fold for fold in sweep.folds if is_of_row(fold, sweep)]
        finished = [Finish(row_partial(fold), ZERO) for fold in own]
        after = [self._to_rows(fold) for fold in own if fold.slots is not None]
        partials = tuple(map(row_partial, own))
        return [Region(partials, loops, (*finished, *after))] if own else list(loops)

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
        if self._team is Team.GRID:
            return (), sweep.axes, ()
        if last in numbering and (last.extent >= self._threads() or len(numbering) == 1):
            return sweep.axes[:-1], (last,), ()
        return (), numbering, tuple(axis for axis in sweep.axes if axis not in numbering)

    def _lanes(self, sweep: Sweep, shared: Axes) -> int:
        """Neighbouring elements that a thread takes at once."""
        last = sweep.axes[-1]
        if self._team is Team.COLUMN or last is not shared[-1]:
            return 1
        lanes = lanes_for(self._segment, sweep, last, self._alignments, self._parameters)
        while len(shared) > 1 and last.extent % lanes:
            lanes //= 2
        return lanes

    def _threads(self) -> int:
        x, y, _ = self._launch.block
        return y if self._team is Team.COLUMN else x

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
        """Int32 where every offset, every index and every rounded-up loop variable fits."""
        offsets = [memory.last_offset for memory in self._segment.memory.values()]
        sweeps = (*self._body.stages, *self._body.epilogue)
        indices = [index for sweep in sweeps for index in sweep.indices()]
        parts = [part for index in indices for part in affine_parts(index)]
        bounds = [abs(bound) for part in parts for bound in (part.constant, *part.bounds())]
        slots = [partial.slots for partial in self._partials.values()]
        room = max((*slots, self._rows)) * math.prod(self._launch.grid)
        largest = max(*offsets, *bounds, self._longest, room if self._keeps_parts() else 0)
        return DataType.Int32 if largest < _LARGEST else DataType.Int

    def _keeps_parts(self) -> bool:
        return bool(self._partials) or self._launch.grid[1] > 1


# -- loops ---------------------------------------------------------------------------------------


def _points(axes: Sequence[Axis]) -> int:
    return math.prod(axis.extent for axis in axes)


def _groups(count: int, size: int) -> int:
    return -(-count // size)
