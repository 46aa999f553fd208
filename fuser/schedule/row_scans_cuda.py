"""Scans on a GPU: round by round of a row, the lanes of a team's threads in order.

round   every thread: its lanes; the team: a scan over the threads, from the carry; stores
parts   few long rows: each block the total of its part, then, from the totals before, rounds
"""

from __future__ import annotations

from collections.abc import Callable

from fuser.schedule.bindings import Binding
from fuser.schedule.counts import ceil_div
from fuser.schedule.cuda_parameters import CudaRowParameters
from fuser.schedule.loop_tree import Loop, Node
from fuser.schedule.row_body import Fold, Sweep
from fuser.schedule.row_lanes import neighbours
from fuser.schedule.row_scans import carry_of, scanned_lanes
from fuser.schedule.row_statements import Accumulate
from fuser.schedule.row_vectors import Vectors
from fuser.schedule.statements import Load
from fuser.schedule.vectors import step_along


def scan_lanes(aligned: Vectors, extent: int, threads: int, parameters: CudaRowParameters) -> int:
    """Lanes of a thread: aligned vectors, or some single elements, no more than the row has."""
    lanes = max(aligned.lanes, parameters.scan_lanes)
    while lanes > aligned.lanes and threads * lanes >= 2 * extent:
        lanes //= 2
    return lanes


def column_lanes(
    sweep: Sweep, threads: int, all_threads: int, parameters: CudaRowParameters
) -> int:
    """Lanes of one of the threads of a column: more where those of all columns are fewer than run
    at once, as long as there are registers, so that as much is on its way."""
    loads = [node.tensor.dtype for node in sweep.code if isinstance(node, Load)]
    kept = [dtype for scan in sweep.scans for dtype in (scan.dtype, carry_of(scan).dtype)]
    words = sum(ceil_div(dtype.itemsize, 4) for dtype in (*loads, *kept))
    extent = sweep.axes[-1].extent
    lanes = scan_lanes(Vectors(), extent, threads, parameters)
    wanted = lanes * ceil_div(parameters.resident, all_threads)
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
) -> Loop:
    """The innermost loop of a sweep that scans; memory is moved in vectors if these are `lanes`."""
    inner = sweep.axes[-1]
    vectors = aligned if aligned.lanes == lanes > 1 else None
    taken = neighbours(sweep, inner, lanes, vectors)
    each = taken.each
    whole = [s for s in sweep.stores if vectors and step_along(s.at, inner) == 1]
    pairs = zip(sweep.stores, each.stores, strict=True)
    within: list[Node] = [shifted for store, shifted in pairs if store not in whole]
    within += [accumulate(fold, each) for fold in each.folds]

    def lane_loop(body: tuple[Node, ...]) -> Loop:
        return Loop(taken.lane, Binding.LANES, body)

    done = scanned_lanes(each, within, whole, lanes, lane_loop, filled=True)
    return Loop(inner, Binding.SCAN, (*taken.once, *done), lanes)
