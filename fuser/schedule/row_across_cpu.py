"""Rows on a processor with lanes across rows, where memory is consecutive.

for each 512 neighbouring rows: for each element of theirs: fold into 512 lanes
"""

from __future__ import annotations

from fuser.ir.dtypes import DataType
from fuser.schedule.emit import convert, join
from fuser.schedule.folds import neutral
from fuser.schedule.heuristics import CpuRowParameters
from fuser.schedule.index import Axis, lanes_of
from fuser.schedule.loop_tree import Binding, Expression, Lanes, Let, Loop, Node, Ref, nested
from fuser.schedule.row_axes import replace_axes
from fuser.schedule.row_body import Fold, RowBody, Sweep, as_lane, dtype_of
from fuser.schedule.row_folds_cpu import wide
from fuser.schedule.row_scans import carry_of, point_by_point


def across_rows(body: RowBody, parameters: CpuRowParameters) -> tuple[Node, ...]:
    """Loops over tiles of neighbouring rows, each with a lane of every fold."""
    *outer, inner = body.rows
    lane, moved = lanes_of(inner, parameters.tile)
    nodes: list[Node] = []
    for stage in body.stages:
        sweep = replace_axes(stage, moved)
        if sweep.axes:
            nodes += _sweep_across(sweep, lane, parameters)
        else:
            nodes += _point_across(sweep, lane)
    tile = Loop(inner, Binding.TILE, tuple(nodes), parameters.tile)
    return nested(outer, Binding.PARALLEL, (tile,))


def _point_across(sweep: Sweep, lane: Axis) -> list[Node]:
    """What is done once a row; later stages read it lane by lane."""
    arrays: list[Node] = [Lanes(node.name, dtype_of(node), lane.extent) for node in sweep.code]
    within = (*map(as_lane, sweep.code), *sweep.stores)
    return [*arrays, Loop(lane, Binding.TILE_LANES, within)]


def _sweep_across(sweep: Sweep, lane: Axis, parameters: CpuRowParameters) -> list[Node]:
    """A sweep of neighbouring rows. Long ones are folded in blocks: within a block in the type of
    the fold, over blocks in a wider one."""
    *outer, inner = sweep.axes
    blocked = {fold.name: fold.dtype is not wide(fold) for fold in sweep.folds}
    is_long = any(blocked.values()) and not sweep.stores
    arrays: list[Node] = []
    fills: list[Node] = []
    joined: list[Node] = []
    flushed: list[Node] = []
    after: list[Node] = []
    results: list[Node] = []
    for fold in sweep.folds:
        dtype, name = wide(fold), f"{fold.name}_lanes"
        arrays.append(Lanes(name, dtype, lane.extent, neutral(fold.operation, dtype)))
        if is_long and blocked[fold.name]:
            block, own = f"{fold.name}_block", fold.dtype
            fills.append(Lanes(block, own, lane.extent, neutral(fold.operation, own)))
            joined.append(_more(block, own, fold, fold.value))
            flushed.append(_more(name, dtype, fold, Ref(block, own)))
        else:
            joined.append(_more(name, dtype, fold, fold.value))
        results.append(Lanes(fold.name, fold.dtype, lane.extent))
        result = convert(Ref(name, dtype), fold.dtype)
        after.append(Let(fold.name, fold.dtype, result, in_lanes=True))
    carries = map(carry_of, sweep.scans)
    arrays += (Lanes(carry.name, carry.dtype, lane.extent, carry.fill) for carry in carries)
    body = (*point_by_point(sweep.code), *joined, *sweep.stores)
    if sweep.stores:
        loop = Loop(inner, Binding.SERIAL, (Loop(lane, Binding.TILE_LANES, body),))
    else:
        loop = Loop(inner, Binding.UNROLLED, body, parameters.unrolled)
    if is_long:
        flush = Loop(lane, Binding.TILE_LANES, tuple(flushed))
        loop = Loop(inner, Binding.BLOCKS, (*fills, loop, flush), parameters.tile_block)
    walked = nested(outer, Binding.SERIAL, (loop,))
    last = [*results, Loop(lane, Binding.TILE_LANES, tuple(after))] if after else []
    return [*arrays, *walked, *last]


def _more(name: str, dtype: DataType, fold: Fold, value: Expression) -> Let:
    """A lane of a fold, and one more value."""
    return Let(name, dtype, join(fold.operation, Ref(name, dtype), value), in_lanes=True)
