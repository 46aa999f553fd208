"""The choice of a team for the rows of a body: the first that fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from fuser.schedule.choice import NotChosen, first_that_fits
from fuser.schedule.code.cuda_blocks import rounds_in_grid
from fuser.schedule.code.row_slots import slots_along
from fuser.schedule.cuda_parameters import WARP
from fuser.schedule.indices.index import Axes
from fuser.schedule.rows.axes import lanes_across_rows
from fuser.schedule.rows.buffers import takes_costly
from fuser.schedule.rows.cuda.kept import VALUE_BYTES, loads_to_keep
from fuser.schedule.rows.cuda.launch import (
    is_better_in_parts,
    launched,
    parts_of_row,
    scanned_columns,
    scanned_parts,
)
from fuser.schedule.rows.cuda.points import loads_ahead
from fuser.schedule.rows.cuda.room import (
    Demand,
    Room,
    block_room,
    column_room,
    column_slot_room,
    slot_room,
    warp_room,
    words_with_slots,
)
from fuser.schedule.rows.cuda.short import lanes_across, lanes_along, threads_of_column
from fuser.schedule.rows.cuda.team import RowTeam
from fuser.schedule.rows.cuda.work import RowWork, ToKeep, demand_of
from fuser.schedule.rows.vectors import Vectors
from fuser.schedule.tree.bindings import Team
from fuser.schedule.tree.counts import ceil_div, point_count, power_of_two
from fuser.schedule.tree.loop_nest import Launch
from fuser.schedule.tree.row_statements import Place, shared_parts_bytes
from fuser.segmenter.refusal import Refusal

_BARRIERS = 15
"""Teams of several warps in a block: each meets at a barrier of its own, and the block at one."""


class TeamChoice:
    """Chooses the team for the rows of a body."""

    def __init__(self, work: RowWork) -> None:
        self._work = work
        self._body, self._parameters = work.body, work.parameters

    def run(self) -> tuple[RowTeam, tuple[NotChosen, ...]]:
        """The first team that fits, and why those before it do not."""
        return first_that_fits(
            {
                "the whole grid": self._grid,
                "blocks for parts of a row": self._streamed,
                "lanes of a warp": self._lanes,
                "a column of threads": self._column,
                "a warp": self._warp,
                "teams that keep folds over the rows": self._with_slots,
                "a block": self._block,
            }
        )

    def _grid(self) -> RowTeam | Refusal:
        if self._body.rows:
            return Refusal(f"there are {self._work.rows} rows")
        if self._work.folds_or_scans:
            return Refusal("something is folded or scanned")
        threads = self._parameters.grid_threads
        vectors = self._work.vectors(may_peel=False)
        if team := self._grid_ahead(vectors):
            return team
        launch = launched(self._work, ceil_div(self._work.longest, threads), 1, (threads, 1, 1))
        return RowTeam(Team.GRID, launch, ToKeep(vectors))

    def _grid_ahead(self, vectors: Mapping[Axes, Vectors]) -> RowTeam | None:
        """A few vectors for each thread, where one does not keep memory busy."""
        given = self._parameters
        threads, rounds = given.grid_threads, given.ahead_rounds
        for axes, found in vectors.items():
            if kept := loads_ahead(self._body, found, given):
                room = Room(threads, 1, Place.REGISTERS, rounds)
                grid = (ceil_div(point_count(axes), found.lanes * threads * rounds), 1, 1)
                resident = given.blocks_at_once(given.ahead_threads, threads)
                launch = Launch(grid, (threads, 1, 1), threads, resident=resident)
                return RowTeam(Team.GRID, launch, ToKeep(vectors, axes, tuple(kept)), room)
        return None

    def _streamed(self) -> RowTeam | Refusal:
        """A few vectors of a row for each thread, all on their way before the first is used, and as
        many blocks as that takes."""
        if self._work.folds_or_scans:
            return Refusal("something is folded or scanned")
        ((axes, sweeps),), given = self._work.groups.items(), self._parameters
        (axis,), vectors = axes, self._work.vectors(may_peel=True)[axes]
        found = loads_to_keep(sweeps, (), vectors.lanes, least=1)
        kept = [load for load in found if any(term != axis for term, _ in load.at.terms)]
        count = ceil_div(axis.extent, vectors.lanes)
        ahead = bool(loads_ahead(self._body, vectors, given))
        shared = max(given.lane_accesses // power_of_two(max(len(kept), 1)), 1)
        rounds = given.ahead_rounds if ahead else shared
        threads = max(min(power_of_two(count) // rounds, given.grid_threads), WARP)
        rounds = rounds_in_grid(count, threads, rounds)
        room = Room(threads, 1, Place.REGISTERS, rounds)
        team, teams = Team.BLOCK, max(WARP * given.warps // threads, 1)
        team = Team.WARP if threads == WARP else team
        parts = ceil_div(count, threads * rounds)
        launch = launched(self._work, ceil_div(self._work.rows, teams), parts, (threads, teams, 1))
        if ahead:
            resident = given.blocks_at_once(given.ahead_threads, launch.max_threads)
            launch = replace(launch, resident=resident)
        launch = replace(launch, elastic=None)  # a block has no rounds but those of its part
        return RowTeam(team, launch, ToKeep({axes: vectors}, axes, tuple(kept)), room)

    @cached_property
    def _is_across(self) -> bool:
        """Whether a warp's lanes go across rows: of many, they have vectors of what lies along."""
        many = self._work.rows >= WARP * self._parameters.multiprocessors
        vectors = self._of_columns.values() if many else ()
        return lanes_across_rows(self._body, max((each.lanes for each in vectors), default=1))

    @cached_property
    def _of_columns(self) -> Mapping[Axes, Vectors]:
        """Vectors of threads whose rows are next to those of their neighbours."""
        return self._work.vectors_of_columns()

    def _column(self) -> RowTeam | Refusal:
        if not self._is_across:
            return Refusal("neighbouring elements of a row, not rows, are next in memory")
        kept, given = self._work.to_keep(self._of_columns, apart=True), self._parameters
        if self._work.has_arrays:
            return self._column_with_slots(kept)
        demand = kept.demand
        fewest = given.column_threads
        if not self._work.scans:
            fewest = threads_of_column(self._body, given)
        room = column_room(demand, given, fewest) if demand else None
        threads = room.threads if room else fewest
        width = WARP
        if self._work.scans:
            width, threads = scanned_columns(self._work)
            if is_better_in_parts(self._work, ceil_div(self._work.rows, width)):
                return Refusal(f"{self._work.rows} columns leave most processors idle")
        teams = ceil_div(self._work.rows, width)
        parts = parts_of_row(self._work, teams, width, threads)
        launch = launched(self._work, teams, parts, (width, threads, 1), room, demand)
        return RowTeam(Team.COLUMN, launch, kept, room)

    def _column_with_slots(self, kept: ToKeep) -> RowTeam | Refusal:
        """Columns whose threads keep their slots of folds over the rows: in memory, neighbouring
        rows would be in each other's way."""
        axis, given = slots_along(self._work.stages), self._parameters
        if axis is None or self._work.scans or kept.axes not in ((), (axis,)):
            return Refusal(
                "folds over the rows have places along several axes, or a row is scanned"
            )
        axes = (axis,)
        demand = demand_of(axes, kept.vectors[axes], kept.sizes)
        slot_bytes = self._slot_bytes(demand.lanes)
        room = column_slot_room(demand, slot_bytes, given)
        if room is None:
            return Refusal("registers do not hold the folds over the rows")
        blocks = min(ceil_div(self._work.rows, WARP), given.most_parts)
        launch = launched(self._work, blocks, 1, (WARP, room.threads, 1), room)
        return RowTeam(Team.COLUMN, launch, replace(kept, axes=axes), room, has_slots=True)

    def _slot_bytes(self, lanes: int) -> int:
        """Of so many neighbouring slots of the folds over the rows that have several, in registers,
        which a narrow number fills."""
        arrays = (partial for partial in self._work.partials if partial.slots > 1)
        return lanes * sum(max(array.kept.itemsize, 4) for array in arrays)

    def _lanes(self) -> RowTeam | Refusal:
        """Some lanes of a warp, or one, if more would find nothing to do."""
        given = self._parameters
        if not self._body.rows:
            return Refusal("there is one row only")
        if self._work.scans:
            return Refusal("a row is scanned")
        if self._work.has_arrays:
            return Refusal("folds over the rows have several places")
        if not given.lane_elements:
            return Refusal("lanes do no rows")
        across, work = self._is_across, self._work
        vectors = self._of_columns if across else work.vectors(may_peel=False)
        kept = work.to_keep(vectors, apart=across)
        if across:
            lanes = lanes_across(self._body, given, keeps=bool(kept.loads))
        else:
            lanes = lanes_along(self._body, vectors, given)
        demand = kept.demand
        room = warp_room(demand, given, lanes) if demand and lanes else None
        if not lanes:
            return Refusal(f"a row of {self._work.longest} elements is enough for more threads")
        if demand and not room:
            return Refusal("registers do not hold what is kept of a row")
        rows = WARP * given.warps // lanes
        launch = launched(self._work, ceil_div(self._work.rows, rows), 1, (lanes, rows, 1))
        return RowTeam(Team.WARP, launch, kept, room)

    @cached_property
    def _along(self) -> ToKeep:
        """What is kept of a row, by vectors along it."""
        work = self._work
        return work.to_keep(work.vectors(may_peel=True) | work.vectors_over_several())

    def _warp(self) -> RowTeam | Refusal:
        work, given = self._work, self._parameters
        most, longest = given.warp_elements, work.longest
        if longest > most:
            return Refusal(f"a row has {longest} elements, more than {most}")
        if longest > most // 8 and work.rows * WARP < given.resident:
            return Refusal(f"{work.rows} warps are fewer than run at once")
        if work.has_arrays:
            return Refusal("folds over the rows have several places")
        demand = self._along.demand
        room = warp_room(demand, given) if demand else None
        if demand and not room:
            return Refusal("registers of a warp do not hold what is kept of a row")
        warps = given.warps if self._body.rows else 1
        launch = launched(work, ceil_div(work.rows, warps), 1, (WARP, warps, 1))
        return RowTeam(Team.WARP, launch, self._along, room)

    def _block(self) -> RowTeam:
        given, demand = self._parameters, self._along.demand
        room = self._block_room(demand) if demand else None
        threads = given.threads_for(self._work.longest, has_slots=self._work.has_arrays)
        threads = room.threads if room else threads
        parts = room.cluster if room else parts_of_row(self._work, self._work.rows, 1, threads)
        parts = scanned_parts(self._work, threads) if self._work.scans else parts
        launch = launched(self._work, self._work.rows, parts, (threads, 1, 1), room, demand)
        return RowTeam(Team.BLOCK, launch, self._along, room)

    def _with_slots(self) -> RowTeam | Refusal:
        """Several rows a block, each with a team of its own, whose threads keep their slots of
        folds over the rows: these are joined once a block, so that few parts are left to join."""
        axis, given = slots_along(self._work.stages), self._parameters
        if axis is None:
            return Refusal("nothing is folded to places along one axis")
        if self._work.scans:
            return Refusal("a row is scanned")
        kept = self._along
        axes = (axis,)
        if kept.axes not in ((), axes) or kept.vectors[axes].peel:
            return Refusal("whole vectors are not along the axis of these places")
        demand = demand_of(axes, kept.vectors[axes], kept.sizes)
        slot_bytes = self._slot_bytes(demand.lanes)
        # Numbers for all rows are joined over a block, which needs a power of two of warps.
        numbers = any(partial.slots == 1 for partial in self._work.partials)
        most = given.kept_words if numbers else given.slot_words
        room = slot_room(demand, slot_bytes, given, most)
        if room is None:
            return Refusal("registers do not hold the folds over the rows")
        crowded = room.rounds * words_with_slots(demand, slot_bytes) > given.kept_words
        launch = self._slot_launch(room, crowded=crowded)
        return RowTeam(Team.BLOCK, launch, replace(kept, axes=axes), room, has_slots=True)

    def _slot_launch(self, room: Room, *, crowded: bool) -> Launch:
        """A team for each of several rows a block, and as many blocks as run at once: each hands on
        a part. Threads that are `crowded` have more registers than usual, so that fewer run."""
        given = self._parameters
        teams = max((given.crowded_threads if crowded else given.slot_threads) // room.threads, 1)
        teams = min(teams, _BARRIERS) if room.threads > WARP else teams
        while teams > 1 and self._work.rows <= teams // 2 * given.most_parts:
            teams //= 2
        threads = room.threads * teams
        at_once = given.crowded_threads if crowded else given.resident_threads
        resident = given.blocks_at_once(at_once, threads)
        blocks = min(
            ceil_div(self._work.rows, teams), given.most_parts, resident * given.multiprocessors
        )
        launch = launched(self._work, blocks, 1, (room.threads, teams, 1), room)
        return replace(launch, resident=resident)

    def _block_room(self, demand: Demand) -> Room | None:
        # What is stored along the row, beside folds over all rows, takes registers, too.
        work, given = self._work, self._parameters
        stored = any(sweep.stores for sweep in work.stages if sweep.axes)
        costly = sum(map(takes_costly, work.body.swept))
        return block_room(
            demand,
            work.rows,
            given,
            max_cluster=1 if work.has_arrays else given.max_cluster,
            reserved=shared_parts_bytes(work.partials),
            dense=not (stored and work.partials),
            costly=costly > 0,
            # What several sweeps compute, registers keep; not of many narrow elements.
            keeps_values=costly > 1 and max(demand.sizes) >= VALUE_BYTES,
        )
