"""Scans on a GPU: round by round of a row, the lanes of a team's threads in order.

round   every thread: its lanes; the team: a scan over the threads, from the carry; stores
parts   few long rows: each block the total of its part, then, from the totals before, rounds
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from fuser.schedule.heuristics import CudaRowParameters
from fuser.schedule.index import lanes_of
from fuser.schedule.loop_tree import Accumulate, Binding, Loop, Node
from fuser.schedule.row_axes import replace_axes
from fuser.schedule.row_body import Fold, Sweep
from fuser.schedule.row_lanes import widened
from fuser.schedule.row_scans import scanned_lanes
from fuser.schedule.row_vectors import Vectors, divided
from fuser.schedule.vectors import step_along


def scan_lanes(aligned: Vectors, extent: int, threads: int, parameters: CudaRowParameters) -> int:
    """Lanes of a thread: aligned vectors, or some single elements, no more than the row has."""
    lanes = max(aligned.lanes, parameters.scan_lanes)
    while lanes > aligned.lanes and threads * lanes >= 2 * extent:
        lanes //= 2
    return lanes


def scan_round(
    sweep: Sweep,
    accumulate: Callable[[Fold, Sweep], Accumulate],
    lanes: int,
    aligned: Vectors,
) -> Loop:
    """The innermost loop of a sweep that scans; memory is moved in vectors if these are `lanes`."""
    inner = sweep.axes[-1]
    lane, replaced = lanes_of(inner, lanes)
    moved = replace_axes(sweep, replaced)
    same, together, _ = divided(sweep.code, inner)
    vectors = lanes > 1 and aligned.lanes == lanes
    together = together if vectors else []
    once = {node.name for node in (*same, *together)}
    code = tuple(node for node in moved.code if node.name not in once)
    whole = [s for s in sweep.stores if vectors and step_along(s.at, inner) == 1]
    pairs = zip(sweep.stores, moved.stores, strict=True)
    within: list[Node] = [shifted for store, shifted in pairs if store not in whole]
    within += [accumulate(fold, moved) for fold in moved.folds]

    def lane_loop(body: tuple[Node, ...]) -> Loop:
        return Loop(lane, Binding.LANES, body)

    phases = dataclasses.replace(moved, code=code)
    done = scanned_lanes(phases, within, whole, lanes, lane_loop, filled=True)
    first = [*same, *(widened(node, aligned) for node in together)]
    return Loop(inner, Binding.SCAN, (*first, *done), lanes)
