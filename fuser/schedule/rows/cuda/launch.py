"""The grid of a kernel of rows: blocks for its teams, or several blocks for a row.

8192 rows, a block each             grid (8192, 1)
8192 rows, a weight's gradient      as many blocks as run at once, which do row after row
4 long rows, swept once             grid (4, n): a row is split over n blocks
1 row, sums of several tensors      the same: a block has a part of each
4 long rows, scanned                the same, each with a part of its row
"""

from __future__ import annotations

import math

from fuser.schedule.cuda_parameters import WARP
from fuser.schedule.rows.cuda.room import Demand, Room
from fuser.schedule.rows.cuda.work import RowWork
from fuser.schedule.rows.scans import independent
from fuser.schedule.tree.counts import ceil_div, power_of_two
from fuser.schedule.tree.loop_nest import Launch
from fuser.schedule.tree.row_statements import Place
from fuser.schedule.tree.vectors import SECTOR_BYTES

_FEW_OF_ALL = 8
"""Columns are scanned by blocks with parts of them, each of which takes one element of every sector
of memory, where blocks for whole columns were on fewer than one multiprocessor of so many. Chosen,
not measured."""

_MOST_THREADS = 32
"""Of a column that is scanned: each joins what all before it have come to."""


def launched(
    work: RowWork,
    teams: int,
    parts: int,
    block: tuple[int, int, int],
    room: Room | None = None,
    demand: Demand | None = None,
) -> Launch:
    """`parts` blocks for each team, and as many teams as the grid may have."""
    given, threads = work.parameters, math.prod(block)
    cluster = room.cluster if room else 1
    most = _most_blocks(work, threads * cluster) if work.partials else None
    shared = 0
    if room and demand and room.place is Place.SHARED:
        shared = room.rounds * threads * demand.bytes
    grid = (min(teams, most or given.most_blocks), parts, 1)
    resident = given.blocks_at_once(given.resident_threads, threads)
    split = 1 if parts > cluster and not work.scans else None
    return Launch(
        grid,
        block,
        threads,
        resident=resident,
        cluster=cluster,
        shared_bytes=shared,
        elastic=0 if work.partials else split,
    )


def _most_blocks(work: RowWork, threads: int) -> int:
    """Blocks that keep folds over the rows: as many as run at once, and have room; more where
    each keeps a number only, so that it matters less when the last of them ends."""
    given = work.parameters
    room = sum(partial.slots * partial.kept.itemsize for partial in work.partials)
    resident = given.resident // threads
    if not work.has_arrays:
        resident *= given.scalar_waves
    return max(min(resident, given.workspace_bytes // room), 1)


def parts_of_row(work: RowWork, teams: int, width: int, height: int) -> int:
    """Blocks that share a row, where there are fewer rows than the GPU runs blocks: `width` rows
    have `height` threads each in one of them."""
    given = work.parameters
    if work.partials or work.scans or work.at_once is None:
        return 1
    blocks = 2 * given.resident // (teams * width * height)
    return max(min(blocks, work.longest // (height * given.split_elements)), 1)


def scanned_columns(work: RowWork) -> tuple[int, int]:
    """How many columns a block scans side by side, and by how many threads each.

    Where there are few columns, each has more threads, up to as many as run at once, and a block
    has fewer of them, as long as these are whole sectors of memory: so many blocks that all
    multiprocessors have some, about as many each. A block that folds over the rows has whole warps.
    """
    given = work.parameters
    rounds = power_of_two(ceil_div(work.longest, given.scan_lanes))
    threads = min(given.column_threads, rounds)
    while 2 * threads * work.rows <= given.resident and 2 * threads <= min(rounds, _MOST_THREADS):
        threads *= 2
    accesses = (access for sweep in work.body.swept for access in sweep.accesses)
    narrowest = min((access.dtype.itemsize for access in accesses), default=1)
    width = WARP
    while width * threads > given.threads or work.rows < 2 * width * given.multiprocessors:
        fewer = width // 2
        if fewer * narrowest < SECTOR_BYTES or work.body.rows[-1].extent % fewer:
            break
        if work.partials and fewer * threads < WARP:  # a warp joins what its lanes fold
            break
        width = fewer
    return width, threads


def scanned_parts(work: RowWork, threads: int) -> int:
    """Blocks that each scan a part of a row, where all that is done with rows is to scan them,
    and they are fewer than the GPU runs blocks."""
    given, all_stages, stages = work.parameters, work.body.stages, work.body.swept
    plain = all(not sweep.stores and not sweep.folds for sweep in all_stages[:-1])
    sweep = stages[-1]
    if len(stages) != 1 or not plain or sweep.folds or not independent(sweep):
        return 1
    if len(sweep.axes) != 1 or work.partials:
        return 1
    blocks = given.resident // (work.rows * threads)
    return max(min(blocks, work.longest // (threads * given.elements)), 1)


def is_better_in_parts(work: RowWork, blocks: int) -> bool:
    """Whether so few blocks would scan whole columns that parts of these do better."""
    if blocks * _FEW_OF_ALL >= work.parameters.multiprocessors:
        return False
    threads = work.parameters.threads_for(work.longest, has_slots=False)
    return scanned_parts(work, threads) > 1
