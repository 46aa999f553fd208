"""Scans on a GPU: round by round of a row, the lanes of a team's threads in order.

round   every thread: its lanes; the team: a scan over the threads, from the carry; stores
parts   few long rows: each block the total of its part, then, from the totals before, rounds
"""

from __future__ import annotations

from collections.abc import Callable

from fuser.schedule.code.row_body import Fold, Sweep
from fuser.schedule.cuda_parameters import CudaRowParameters
from fuser.schedule.rows.cuda.lanes import neighbours
from fuser.schedule.rows.scans import carry_of, scanned_lanes
from fuser.schedule.rows.vectors import Vectors
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import ceil_div
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.row_statements import Accumulate
from fuser.schedule.tree.vectors import step_along


def scan_lanes(aligned: Vectors, extent: int, threads: int, parameters: CudaRowParameters) -> int:
    """Lanes of a thread: aligned vectors, or some single elements, no more than the row has."""
    lanes = max(aligned.lanes, parameters.scan_lanes)
    while lanes > aligned.lanes and threads * lanes >= 2 * extent:
        lanes //= 2
    return lanes


def column_lanes(
    sweep: Sweep, threads: int, all_threads: int, parameters: CudaRowParameters
) -> int:
    """Lanes of one of the threads of a column: as many as keep memory busy, with the threads that
    run at once, as long as there are registers."""
    loads = [load.dtype for load in sweep.loads]
    kept = [dtype for scan in sweep.scans for dtype in (scan.dtype, carry_of(scan).dtype)]
    words = sum(ceil_div(dtype.itemsize, 4) for dtype in (*loads, *kept))
    extent = sweep.axes[-1].extent
    lanes = scan_lanes(Vectors(), extent, threads, parameters)
    at_once = min(all_threads, parameters.resident)
    of_lane = max(at_once * sum(dtype.itemsize for dtype in loads), 1)
    wanted = ceil_div(parameters.busy_bytes * parameters.multiprocessors, of_lane)
    while lanes < wanted and threads * lanes < extent:
        if 2 * lanes * words > parameters.column_scan_words:
            break
        lanes *= 2
    return lanes


def scan_round(
    sweep: Sweep,
    accumulate: Callable[[Fold, Sweep], Accumulate],
    lanes: int,
    aligned: Vectors,
    *,
    turned: bool = False,
) -> Loop:
    """The innermost loop of a sweep that scans; memory is moved in vectors if these are `lanes`.

    If `turned`, the sweep goes back through memory, and the lanes of a thread lie in memory as they
    are numbered, so that its vectors do: the last is the first that is scanned.
    """
    inner = sweep.axes[-1]
    vectors = aligned if aligned.lanes == lanes > 1 else None
    taken = neighbours(sweep, inner, lanes, vectors, turned=turned)
    each = taken.each
    along = -1 if turned else 1
    moved = [vectors is not None and step_along(s.at, inner) == along for s in sweep.stores]
    within: list[Node] = [s for s, at_once in zip(each.stores, moved, strict=True) if not at_once]
    whole = [s for s, at_once in zip(taken.first.stores, moved, strict=True) if at_once]
    within += [accumulate(fold, each) for fold in each.folds]

    lane_loop = Loop(taken.lane, Binding.LANES, ())
    done = scanned_lanes(each, within, whole, lanes, lane_loop, filled=True)
    are_there = inner.extent % lanes == 0
    body = (*taken.once, *done)
    return Loop(inner, Binding.SCAN, body, lanes, whole=are_there, turned=turned)
