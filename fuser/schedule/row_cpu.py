"""Row body -> loop tree for a processor: rows over threads, and lanes along the row or across rows.

    along     for each row: for each 64 elements of it: fold into 64 lanes; join the lanes
    across    for each 512 neighbouring rows: for each element of theirs: fold into 512 lanes

Lanes go where memory is consecutive: along the row for a sum over the last dimension, across rows
for one over the first. Sums of float32 are kept in float64.
"""

from __future__ import annotations

import dataclasses
import math

import torch

from fuser.ir.dtypes import DataType
from fuser.ir.pointwise import TABLE
from fuser.schedule.emit import convert
from fuser.schedule.heuristics import CpuRowParameters
from fuser.schedule.index import Axis, Index
from fuser.schedule.loop_tree import (
    Accumulate,
    Binding,
    Call,
    CheckedIndex,
    Combine,
    Finish,
    Lanes,
    Launch,
    Let,
    Literal,
    Load,
    Loop,
    LoopNest,
    Node,
    Partial,
    Ref,
    Region,
    Store,
)
from fuser.schedule.names import kernel_name
from fuser.schedule.row_axes import arrange_rows, replace_axes
from fuser.schedule.row_body import Fold, RowBody, Sweep, trace_rows
from fuser.segmenter import Segment


def schedule_rows_cpu(segment: Segment, parameters: CpuRowParameters) -> LoopNest:
    """The loop nest of a segment with reductions or gathers."""
    body = arrange_rows(trace_rows(segment))
    across = _lanes_across_rows(body)
    nodes = _across(body, parameters) if across else _along(body, parameters)
    partials = {fold.name: _partial(fold) for s in body.stages for fold in s.folds if fold.slots}
    region = Region(tuple(partials.values()), nodes, _epilogue(body, partials))
    axes = dict.fromkeys((*body.rows, *(a for s in _sweeps(body) for a in s.axes)))
    return LoopNest(
        name=kernel_name("rows", segment),
        axes=tuple(axes),
        prologue=body.prologue,
        body=(region,),
        launch=Launch(threaded=_work(body) >= parameters.serial_work),
        index_dtype=DataType.Int,
        parameters=f"cpu rows, lanes {'across' if across else 'along'} rows: {parameters}",
    )


def neutral(operation: str, dtype: DataType) -> Literal:
    """What changes nothing when joined by a fold's operation."""
    match operation:
        case "add" | "logical_or":
            return Literal(False if dtype is DataType.Bool else 0, dtype)
        case "mul" | "logical_and":
            return Literal(True if dtype is DataType.Bool else 1, dtype)
        case _:
            return Literal(_extreme(dtype, lowest=operation == "maximum"), dtype)


def _extreme(dtype: DataType, lowest: bool) -> bool | int | float:
    if dtype is DataType.Bool:
        return not lowest
    if dtype.is_floating:
        return -math.inf if lowest else math.inf
    limits = torch.iinfo(dtype.torch)
    return limits.min if lowest else limits.max


# -- lanes along the row -------------------------------------------------------------------------


def _along(body: RowBody, parameters: CpuRowParameters) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for sweep in body.stages:
        nodes += _sweep_along(sweep, parameters) if sweep.axes else _point(sweep)
    return _loops(body.rows, Binding.PARALLEL, tuple(nodes))


def _point(sweep: Sweep) -> list[Node]:
    """What is done once a row."""
    folds = [Accumulate(_partial(fold), fold.at, fold.value) for fold in sweep.folds]
    return [*sweep.code, *folds, *sweep.stores]


def _sweep_along(sweep: Sweep, parameters: CpuRowParameters) -> list[Node]:
    *outer, inner = sweep.axes
    own = [fold for fold in sweep.folds if not fold.slots]
    lanes = parameters.lanes_for(inner.extent)
    before: list[Node] = []
    within: list[Node] = []
    after: list[Node] = []
    for fold in own:
        dtype, name = wide(fold), f"{fold.name}_lanes"
        before.append(Lanes(name, dtype, lanes, neutral(fold.operation, dtype)))
        within.append(Let(name, dtype, _joined(name, fold, dtype), in_lanes=True))
        after.append(Combine(fold.name, fold.dtype, name, dtype, lanes, fold.operation))
    others = [Accumulate(_partial(fold), fold.at, fold.value) for fold in sweep.folds if fold.slots]
    inside = (*sweep.code, *within, *others, *sweep.stores)
    loop = Loop(inner, Binding.SWEEP, inside, lanes) if own else Loop(inner, Binding.SIMD, inside)
    return [*before, *_loops(outer, Binding.SERIAL, (loop,)), *after]


# -- lanes across rows ---------------------------------------------------------------------------


def _across(body: RowBody, parameters: CpuRowParameters) -> tuple[Node, ...]:
    *outer, inner = body.rows
    lane = Axis((*inner.path, 1), parameters.tile)
    moved = {inner: Index(0, ((inner, 1), (lane, 1)))}
    nodes: list[Node] = []
    for stage in body.stages:
        sweep = replace_axes(stage, moved)
        nodes += _sweep_across(sweep, lane) if sweep.axes else _point_across(sweep, lane)
    tile = Loop(inner, Binding.TILE, tuple(nodes), parameters.tile)
    return _loops(outer, Binding.PARALLEL, (tile,))


def _point_across(sweep: Sweep, lane: Axis) -> list[Node]:
    """What is done once a row; later stages read it lane by lane."""
    arrays: list[Node] = [Lanes(node.name, _dtype(node), lane.extent) for node in sweep.code]
    within = (*map(_in_lanes, sweep.code), *sweep.stores)
    return [*arrays, Loop(lane, Binding.TILE_LANES, within)]


def _sweep_across(sweep: Sweep, lane: Axis) -> list[Node]:
    arrays: list[Node] = []
    joined: list[Node] = []
    after: list[Node] = []
    results: list[Node] = []
    for fold in sweep.folds:
        dtype, name = wide(fold), f"{fold.name}_lanes"
        arrays.append(Lanes(name, dtype, lane.extent, neutral(fold.operation, dtype)))
        joined.append(Let(name, dtype, _joined(name, fold, dtype), in_lanes=True))
        results.append(Lanes(fold.name, fold.dtype, lane.extent))
        result = convert(Ref(name, dtype), fold.dtype)
        after.append(Let(fold.name, fold.dtype, result, in_lanes=True))
    loop = Loop(lane, Binding.TILE_LANES, (*sweep.code, *joined, *sweep.stores))
    last = [*results, Loop(lane, Binding.TILE_LANES, tuple(after))] if after else []
    return [*arrays, *_loops(sweep.axes, Binding.SERIAL, (loop,)), *last]


def _in_lanes(node: Load | Let | CheckedIndex) -> Node:
    return dataclasses.replace(node, in_lanes=True)


def _dtype(node: Load | Let | CheckedIndex) -> DataType:
    match node:
        case Load():
            return node.tensor.dtype
        case Let():
            return node.dtype
        case CheckedIndex():
            return DataType.Int


# -- folds ---------------------------------------------------------------------------------------


def wide(fold: Fold) -> DataType:
    """The type a fold is kept in."""
    exact = fold.operation in ("maximum", "minimum") or fold.dtype is not DataType.Float
    return fold.dtype if exact else DataType.Double


def _joined(name: str, fold: Fold, dtype: DataType) -> Call:
    """A lane of a fold, and one more value."""
    return Call(fold.operation, (Ref(name, dtype), convert(fold.value, dtype)), dtype)


def _partial(fold: Fold) -> Partial:
    assert fold.slots is not None
    dtype = wide(fold)
    fill = neutral(fold.operation, dtype)
    return Partial(fold.name, fold.dtype, dtype, fold.operation, fold.slots, fill)


def _epilogue(body: RowBody, partials: dict[str, Partial]) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for sweep in body.epilogue:
        finished = [Finish(partials[fold.name], fold.at) for fold in sweep.folds]
        inside = (*finished, *sweep.code, *sweep.stores)
        nodes += _loops(sweep.axes, Binding.SERIAL, inside)
    return tuple(nodes)


# -- loops ---------------------------------------------------------------------------------------


def _loops(
    axes: tuple[Axis, ...] | list[Axis], binding: Binding, inside: tuple[Node, ...]
) -> tuple[Node, ...]:
    """`inside`, in a loop over each axis."""
    for axis in reversed(axes):
        inside = (Loop(axis, binding, inside),)
    return inside


def _sweeps(body: RowBody) -> tuple[Sweep, ...]:
    return (*body.stages, *body.epilogue)


def _lanes_across_rows(body: RowBody) -> bool:
    """Whether neighbouring rows, and not neighbouring elements of a row, are next in memory."""
    if not body.rows or any(fold.slots for sweep in body.stages for fold in sweep.folds):
        return False
    along = across = 0
    for sweep in body.stages:
        for access in (*sweep.code, *sweep.stores):
            if isinstance(access, Load | Store) and sweep.axes:
                along += access.at.coefficient(sweep.axes[-1]) == 1
                across += access.at.coefficient(body.rows[-1]) == 1
    return across > along


def _work(body: RowBody) -> int:
    """Instructions for all rows, roughly."""
    rows = math.prod(axis.extent for axis in body.rows)
    work = 0
    for sweep in body.stages:
        calls = [n.expression for n in sweep.code if isinstance(n, Let)]
        cost = sum(TABLE[call.op].cost for call in calls if isinstance(call, Call))
        points = math.prod(axis.extent for axis in sweep.axes)
        work += points * (cost + len(sweep.code) + len(sweep.folds) + len(sweep.stores))
    return rows * work
