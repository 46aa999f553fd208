"""Neighbouring lanes of what a scatter's sweeps make, for a thread of a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from fuser.ir.nodes import Value
from fuser.schedule.code.row_body import Fold, Sweep
from fuser.schedule.cuda_parameters import WARP, CudaRowParameters
from fuser.schedule.indices.index import index_of
from fuser.schedule.rows.cuda.lanes import in_lanes
from fuser.schedule.rows.vectors import Vectors, vectors_for
from fuser.schedule.tree.buffers import Buffers
from fuser.schedule.tree.loop_tree import Node
from fuser.schedule.tree.row_statements import Accumulate, Keep
from fuser.schedule.tree.scatter_nodes import MadeLanes
from fuser.schedule.tree.statements import Store


def whole_lanes(
    buffers: Buffers,
    sweeps: Sequence[Sweep],
    parameters: CudaRowParameters,
) -> int:
    """Neighbours of a thread along the innermost axis of some sweeps, which are all there."""
    inner = sweeps[0].axes[-1]
    given = buffers, sweeps, inner, parameters
    return math.gcd(vectors_for(*given, may_peel=False).lanes, inner.extent)


def lanes_of_warp(
    buffers: Buffers,
    sweeps: Sequence[Sweep],
    parameters: CudaRowParameters,
) -> int:
    """The same, as long as all threads of a warp have some."""
    lanes, extent = whole_lanes(buffers, sweeps, parameters), sweeps[0].axes[-1].extent
    while lanes > 1 and lanes * WARP > extent:
        lanes //= 2
    return lanes


def sweep_in_lanes(sweep: Sweep, lanes: int) -> tuple[Node, ...]:
    """What a thread does at neighbouring points of a sweep, which folds nothing."""
    return in_lanes(sweep, _no_folds, sweep.axes[-1], Vectors(lanes))


def lanes_kept(sweep: Sweep, out: Value, lanes: int) -> MadeLanes:
    """What makes neighbouring lanes of what a sweep keeps at its end, in a scatter to `out`."""
    *code, keep = sweep.code
    assert isinstance(keep, Keep)
    assert keep.source is not None
    store = Store(out, index_of(sweep.axes[-1]), keep.source)
    nodes = sweep_in_lanes(replace(sweep, code=tuple(code), stores=(store,)), lanes)
    made = next(node.source for node in reversed(nodes) if isinstance(node, Store))
    return MadeLanes(tuple(node for node in nodes if not isinstance(node, Store)), made)


def _no_folds(fold: Fold, sweep: Sweep) -> Accumulate:
    raise AssertionError("a scatter folds nothing")
