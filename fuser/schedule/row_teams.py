"""The team of threads for a row: how many there are, in how many blocks, and what they keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from fuser.schedule.bindings import Team
from fuser.schedule.choice import NotChosen, first_that_fits
from fuser.schedule.counts import ceil_div, point_count, power_of_two
from fuser.schedule.cuda_parameters import CudaRowParameters
from fuser.schedule.index import Axis
from fuser.schedule.loop_nest import Launch
from fuser.schedule.point_rows_cuda import loads_ahead
from fuser.schedule.row_axes import lanes_across_rows
from fuser.schedule.row_body import RowBody, Sweep
from fuser.schedule.row_kept import loads_to_keep
from fuser.schedule.row_room import (
    Demand,
    Room,
    block_room,
    column_room,
    slot_room,
    warp_room,
    words_with_slots,
)
from fuser.schedule.row_scans import independent
from fuser.schedule.row_short import lanes_across, lanes_along, threads_of_column
from fuser.schedule.row_slots import is_of_row, shared_parts_bytes, slots_along
from fuser.schedule.row_statements import Partial, Place
from fuser.schedule.row_vectors import Vectors, vectors_for
from fuser.schedule.statements import Load
from fuser.schedule.vectors import Alignments
from fuser.segmenter import Segment
from fuser.segmenter.rows import Refusal

_BARRIERS = 15
"""Teams of several warps in a block: each meets at a barrier of its own, and the block at one."""


@dataclass(frozen=True, slots=True)
class RowTeam:
    """What does a row. `vectors` are those of all sweeps over an axis alone; where there is `room`,
    `kept` are loads of the sweeps over `axis`, and if it `has_slots`, threads have those of folds
    over the rows in registers."""

    team: Team
    launch: Launch
    vectors: Mapping[Axis, Vectors]
    axis: Axis | None = None
    kept: tuple[Load, ...] = ()
    room: Room | None = None
    has_slots: bool = False

    @property
    def threads(self) -> int:
        """Of a row, in one block."""
        x, y, _ = self.launch.block
        return y if self.team is Team.COLUMN else x

    @property
    def is_short(self) -> bool:
        """Whether less than a warp does a row, so that few rounds do all of its points."""
        return self.team is Team.WARP and self.threads < 32


class TeamChoice:
    """Chooses the team for the rows of a body, whose stages have no conflicting folds."""

    def __init__(
        self,
        segment: Segment,
        body: RowBody,
        stages: Sequence[Sweep],
        partials: Sequence[Partial],
        alignments: Alignments,
        parameters: CudaRowParameters,
    ) -> None:
        self._segment = segment
        self._body = body
        self._alignments = alignments
        self._parameters = parameters
        self._stages = stages
        self._partials = partials
        self._rows = point_count(body.rows)
        self._longest = body.longest
        self._scanned = any(sweep.scans for sweep in stages)
        self._groups: dict[Axis, list[Sweep]] = {}
        for sweep in stages:
            if len(sweep.axes) == 1:
                self._groups.setdefault(sweep.axes[0], []).append(sweep)

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

    # -- kinds of teams --------------------------------------------------------------------------

    def _grid(self) -> RowTeam | Refusal:
        if self._body.rows:
            return Refusal(f"there are {self._rows} rows")
        if self._folds_or_scans():
            return Refusal("something is folded or scanned")
        threads = self._parameters.grid_threads
        vectors = {axis: self._vectors(axis, may_peel=False) for axis in self._groups}
        if team := self._grid_ahead(vectors):
            return team
        launch = self._launched(ceil_div(self._longest, threads), 1, (threads, 1, 1))
        return RowTeam(Team.GRID, launch, vectors)

    def _grid_ahead(self, vectors: Mapping[Axis, Vectors]) -> RowTeam | None:
        """A few vectors for each thread, where one does not keep memory busy."""
        given = self._parameters
        threads, rounds = given.grid_threads, given.ahead_rounds
        for axis, found in vectors.items():
            if kept := loads_ahead(self._body, found, given):
                room = Room(threads, 1, Place.REGISTERS, rounds)
                grid = (ceil_div(axis.extent, found.lanes * threads * rounds), 1, 1)
                resident = given.ahead_threads // threads
                launch = Launch(grid, (threads, 1, 1), threads, resident=resident)
                return RowTeam(Team.GRID, launch, vectors, axis, tuple(kept), room)
        return None

    def _streamed(self) -> RowTeam | Refusal:
        """A few vectors of a row for each thread, all on their way before the first is used, and as
        many blocks as that takes."""
        if self._folds_or_scans():
            return Refusal("something is folded or scanned")
        ((axis, sweeps),), given = self._groups.items(), self._parameters
        vectors = self._vectors(axis, may_peel=True)
        found = loads_to_keep(sweeps, (), vectors.lanes, least=1)
        kept = [load for load in found if any(term != axis for term, _ in load.at.terms)]
        count = ceil_div(axis.extent, vectors.lanes)
        ahead = bool(loads_ahead(self._body, vectors, given))
        shared = max(given.lane_accesses // power_of_two(max(len(kept), 1)), 1)
        rounds = given.ahead_rounds if ahead else shared
        threads = max(min(power_of_two(count) // rounds, given.grid_threads), 32)
        room = Room(threads, 1, Place.REGISTERS, rounds)
        team, teams = Team.BLOCK, max(32 * given.warps // threads, 1)
        team = Team.WARP if threads == 32 else team
        parts = ceil_div(count, threads * rounds)
        launch = self._launched(ceil_div(self._rows, teams), parts, (threads, teams, 1))
        resident = given.ahead_threads // launch.max_threads if ahead else launch.resident
        # A block has no rounds but those of its part.
        launch = replace(launch, elastic=None, resident=resident)
        return RowTeam(team, launch, {axis: vectors}, axis, tuple(kept), room)

    def _column(self) -> RowTeam | Refusal:
        if not lanes_across_rows(self._body):
            return Refusal("neighbouring elements of a row, not rows, are next in memory")
        if self._has_arrays():
            # Neighbouring rows are other threads', which would be in each other's way in an array.
            return Refusal("folds over the rows have several places")
        vectors = {axis: Vectors() for axis in self._groups}
        axis, kept = self._to_keep(vectors)
        demand = _demand(axis, kept, Vectors())
        given = self._parameters
        fewest = given.column_threads
        if not self._scanned:
            fewest = threads_of_column(self._body, given)
        room = column_room(demand, given, fewest) if demand else None
        threads = room.threads if room else fewest
        if self._scanned:
            rounds = ceil_div(self._longest, self._parameters.scan_lanes)
            threads = min(threads, power_of_two(rounds))
        teams = ceil_div(self._rows, 32)
        parts = self._split(teams, 32, threads)
        launch = self._launched(teams, parts, (32, threads, 1), room, demand)
        return RowTeam(Team.COLUMN, launch, vectors, axis, kept, room)

    def _lanes(self) -> RowTeam | Refusal:
        """Some lanes of a warp, or one, if more would find nothing to do."""
        given = self._parameters
        if not self._body.rows:
            return Refusal("there is one row only")
        if self._scanned:
            return Refusal("a row is scanned")
        if self._has_arrays():
            return Refusal("folds over the rows have several places")
        if not given.lane_elements:
            return Refusal("lanes do no rows")
        across = lanes_across_rows(self._body)
        vectors = {
            axis: Vectors() if across else self._vectors(axis, may_peel=False)
            for axis in self._groups
        }
        axis, kept = self._to_keep(vectors)
        if across:
            lanes = lanes_across(self._body, given, keeps=bool(kept))
        else:
            lanes = lanes_along(self._body, vectors, given)
        demand = _demand(axis, kept, vectors[axis]) if axis else None
        room = warp_room(demand, given, lanes) if demand and lanes else None
        if not lanes:
            return Refusal(f"a row of {self._longest} elements is enough for more threads")
        if demand and not room:
            return Refusal("registers do not hold what is kept of a row")
        rows = 32 * given.warps // lanes
        launch = self._launched(ceil_div(self._rows, rows), 1, (lanes, rows, 1))
        return RowTeam(Team.WARP, launch, vectors, axis, kept, room)

    @cached_property
    def _along(self) -> tuple[Mapping[Axis, Vectors], Axis | None, tuple[Load, ...]]:
        """Vectors along a row, and what is kept of it along an axis."""
        vectors = {axis: self._vectors(axis, may_peel=True) for axis in self._groups}
        return vectors, *self._to_keep(vectors)

    def _warp(self) -> RowTeam | Refusal:
        given = self._parameters
        if refusal := self._warp_refusal():
            return refusal
        vectors, axis, kept = self._along
        demand = _demand(axis, kept, vectors[axis]) if axis else None
        room = warp_room(demand, given) if demand else None
        if demand and not room:
            return Refusal("registers of a warp do not hold what is kept of a row")
        warps = given.warps if self._body.rows else 1
        launch = self._launched(ceil_div(self._rows, warps), 1, (32, warps, 1))
        return RowTeam(Team.WARP, launch, vectors, axis, kept, room)

    def _block(self) -> RowTeam:
        given = self._parameters
        vectors, axis, kept = self._along
        demand = _demand(axis, kept, vectors[axis]) if axis else None
        room = self._block_room(demand) if demand else None
        threads = given.threads_for(self._longest, has_slots=self._has_arrays())
        threads = room.threads if room else threads
        parts = room.cluster if room else self._split(self._rows, 1, threads)
        parts = self._scanned_parts(threads) if self._scanned else parts
        launch = self._launched(self._rows, parts, (threads, 1, 1), room, demand)
        return RowTeam(Team.BLOCK, launch, vectors, axis, kept, room)

    def _with_slots(self) -> RowTeam | Refusal:
        """Several rows a block, each with a team of its own, whose threads keep their slots of
        folds over the rows: these are joined once a block, so that few parts are left to join."""
        axis, given = slots_along(self._stages), self._parameters
        if axis is None:
            return Refusal("nothing is folded to places along one axis")
        if self._scanned:
            return Refusal("a row is scanned")
        vectors, kept_along, kept = self._along
        if kept_along not in (None, axis) or vectors[axis].peel:
            return Refusal("whole vectors are not along the axis of these places")
        lanes = vectors[axis].lanes
        sizes = [partial.kept.itemsize for partial in self._partials if partial.slots > 1]
        slots = lanes * sum(max(size, 4) for size in sizes)
        demand = Demand(ceil_div(axis.extent, lanes), lanes, _sizes(kept))
        # Numbers for all rows are joined over a block, which needs a power of two of warps.
        numbers = len(sizes) < len(self._partials)
        room = slot_room(demand, slots, given, given.kept_words if numbers else given.slot_words)
        if room is None:
            return Refusal("registers do not hold the folds over the rows")
        crowded = room.rounds * words_with_slots(demand, slots) > given.kept_words
        teams = max((given.crowded_threads if crowded else given.slot_threads) // room.threads, 1)
        teams = min(teams, _BARRIERS) if room.threads > 32 else teams
        while teams > 1 and self._rows <= teams // 2 * given.most_parts:
            teams //= 2
        threads = room.threads * teams
        at_once = (given.crowded_threads if crowded else given.resident_threads) // threads
        resident = max(min(at_once, given.resident_blocks), 1)
        blocks = min(
            ceil_div(self._rows, teams), given.most_parts, resident * given.multiprocessors
        )
        launch = self._launched(blocks, 1, (room.threads, teams, 1), room)
        launch = replace(launch, resident=resident)
        return RowTeam(Team.BLOCK, launch, vectors, axis, kept, room, has_slots=True)

    def _warp_refusal(self) -> Refusal | None:
        """Why a warp is not enough for a row."""
        most, longest = self._parameters.warp_elements, self._longest
        if longest > most:
            return Refusal(f"a row has {longest} elements, more than {most}")
        if longest > most // 8 and self._rows * 32 < self._parameters.resident:
            return Refusal(f"{self._rows} warps are fewer than run at once")
        if self._has_arrays():
            return Refusal("folds over the rows have several places")
        return None

    def _folds_or_scans(self) -> bool:
        return any(sweep.folds or sweep.scans for sweep in self._body.stages)

    def _has_arrays(self) -> bool:
        return any(partial.slots > 1 for partial in self._partials)

    # -- what is kept ----------------------------------------------------------------------------

    def _vectors(self, axis: Axis, *, may_peel: bool) -> Vectors:
        sweeps = self._groups[axis]
        folds = [(fold, sweep) for sweep in sweeps for fold in sweep.folds]
        # Slots that a row's elements fold into belong to the same threads in every row.
        own = all(fold.slots in (None, 1) or is_of_row(fold, sweep) for fold, sweep in folds)
        return vectors_for(
            self._segment,
            sweeps,
            axis,
            self._alignments,
            self._parameters,
            may_peel=may_peel,
            may_move=own,
        )

    def _to_keep(self, vectors: Mapping[Axis, Vectors]) -> tuple[Axis | None, tuple[Load, ...]]:
        """The longest axis along which something is loaded again, and these loads."""
        if self._scanned:
            return None, ()  # a scan has its points in the order of the row
        for axis in sorted(self._groups, key=lambda axis: -axis.extent):
            loads = loads_to_keep(self._groups[axis], self._body.rows, vectors[axis].lanes)
            if loads:
                return axis, tuple(loads)
        return None, ()

    def _block_room(self, demand: Demand) -> Room | None:
        # What is stored along the row, beside folds over all rows, takes registers, too.
        stored = any(sweep.stores for sweep in self._stages if sweep.axes)
        return block_room(
            demand,
            self._rows,
            self._parameters,
            max_cluster=1 if self._has_arrays() else self._parameters.max_cluster,
            reserved=shared_parts_bytes(self._partials),
            dense=not (stored and self._partials),
        )

    # -- the launch ------------------------------------------------------------------------------

    def _launched(
        self,
        teams: int,
        parts: int,
        block: tuple[int, int, int],
        room: Room | None = None,
        demand: Demand | None = None,
    ) -> Launch:
        """`parts` blocks for each team, and as many teams as the grid may have."""
        given, threads = self._parameters, math.prod(block)
        cluster = room.cluster if room else 1
        most = self._most_blocks(threads * cluster) if self._partials else None
        shared = 0
        if room and demand and room.place is Place.SHARED:
            shared = room.rounds * threads * demand.bytes
        grid = (min(teams, most or given.most_blocks), parts, 1)
        resident = max(min(given.resident_threads // threads, given.resident_blocks), 1)
        split = 1 if parts > cluster and not self._scanned else None
        return Launch(
            grid,
            block,
            threads,
            resident=resident,
            cluster=cluster,
            shared_bytes=shared,
            elastic=0 if self._partials else split,
        )

    def _most_blocks(self, threads: int) -> int:
        """Blocks that keep folds over the rows: as many as run at once, and have room; more where
        each keeps a number only, so that it matters less when the last of them ends."""
        room = sum(partial.slots * partial.kept.itemsize for partial in self._partials)
        resident = self._parameters.resident // threads
        if not self._has_arrays():
            resident *= self._parameters.scalar_waves
        return max(min(resident, self._parameters.workspace_bytes // room), 1)

    def _split(self, teams: int, width: int, height: int) -> int:
        """Blocks that share a row, where there are fewer rows than the GPU runs blocks."""
        stages = [sweep for sweep in self._body.stages if sweep.axes]
        before = self._body.stages[: self._body.stages.index(stages[0])] if stages else ()
        if len(stages) != 1 or self._partials or not stages[0].folds or self._scanned:
            return 1
        if any(sweep.stores or sweep.folds for sweep in before):
            return 1
        blocks = 2 * self._parameters.resident // (teams * width * height)
        return max(min(blocks, self._longest // (height * self._parameters.split_elements)), 1)

    def _scanned_parts(self, threads: int) -> int:
        """Blocks that each scan a part of a row, where all that is done with rows is to scan them,
        and they are fewer than the GPU runs blocks."""
        stages = [sweep for sweep in self._body.stages if sweep.axes]
        plain = all(not sweep.stores and not sweep.folds for sweep in self._body.stages[:-1])
        sweep = stages[-1]
        if len(stages) != 1 or not plain or sweep.folds or not independent(sweep):
            return 1
        if len(sweep.axes) != 1 or self._partials:
            return 1
        blocks = self._parameters.resident // (self._rows * threads)
        return max(min(blocks, self._longest // (threads * self._parameters.elements)), 1)


def _demand(axis: Axis | None, kept: Sequence[Load], vectors: Vectors) -> Demand | None:
    if axis is None:
        return None
    return Demand(ceil_div(axis.extent, vectors.lanes), vectors.lanes, _sizes(kept))


def _sizes(loads: Sequence[Load]) -> tuple[int, ...]:
    return tuple(load.tensor.dtype.itemsize for load in loads)
