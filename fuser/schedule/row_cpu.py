"""Row body -> loop tree for a processor: rows over threads, and lanes along the row or across rows.

    along     for each row: for each 64 elements of it: fold into 64 lanes; join the lanes
    across    for each 512 neighbouring rows: for each element of theirs: fold into 512 lanes

Lanes go where memory is consecutive: along the row for a sum over the last dimension, across rows
for one over the first. Sums of float32 are kept in float64.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from fuser.ir.dtypes import DataType
from fuser.schedule.draw import drawn_together
from fuser.schedule.emit import convert
from fuser.schedule.folds import neutral
from fuser.schedule.heuristics import CpuRowParameters
from fuser.schedule.index import ZERO, Axis, Index
from fuser.schedule.loop_tree import (
    Accumulate,
    Binding,
    Call,
    Combine,
    Finish,
    Keep,
    Kept,
    Lanes,
    Launch,
    Let,
    Loop,
    LoopNest,
    Node,
    Partial,
    Ref,
    Region,
    RowArray,
    Running,
    Widen,
    nested,
)
from fuser.schedule.names import kernel_name
from fuser.schedule.row_axes import arrange_rows, lanes_across_rows, replace_axes
from fuser.schedule.row_body import Code, Fold, RowBody, Sweep, dtype_of
from fuser.schedule.row_buffers import keep_in_row
from fuser.schedule.row_facts import use_facts
from fuser.schedule.row_memory import (
    ask_for_next_row,
    chunks,
    cost,
    goes_past_cache,
    in_chunks,
    store_last,
)
from fuser.schedule.row_scans import carry_of, independent, point_by_point, totals_of
from fuser.schedule.row_scans_cpu import scan_loop, shared_out
from fuser.schedule.row_trace import trace_rows
from fuser.segmenter import Segment


def schedule_rows_cpu(segment: Segment, parameters: CpuRowParameters) -> LoopNest:
    """The loop nest of a segment with reductions or gathers."""
    body = use_facts(arrange_rows(trace_rows(segment, parameters.shortest_row)))
    across = lanes_across_rows(body)
    chunked = not segment.overwritten  # the last chunk is moved back, to values that are new then
    nodes = _across(body, parameters) if across else _along(body, parameters, chunked)
    partials = {fold.name: _partial(fold) for s in body.stages for fold in s.folds if fold.slots}
    region = Region(tuple(partials.values()), (*nodes, *_widen(body, 1)), _epilogue(body, partials))
    axes = dict.fromkeys((*body.rows, *(a for s in _sweeps(body) for a in s.axes)))
    return LoopNest(
        name=kernel_name("rows", segment),
        axes=tuple(axes),
        prologue=body.prologue,
        body=(region,),
        launch=Launch(
            threaded=_work(body) >= parameters.serial_work,
            past_cache=goes_past_cache(body, parameters),
        ),
        index_dtype=DataType.Int,
        parameters=f"cpu rows, lanes {'across' if across else 'along'} rows: {parameters}",
    )


# -- lanes along the row -------------------------------------------------------------------------


def _along(body: RowBody, parameters: CpuRowParameters, chunked: bool) -> tuple[Node, ...]:
    alone = _rows_alone(body, parameters)
    if not alone:
        body = keep_in_row(store_last(body), parameters.kept_bytes)
        body = ask_for_next_row(body, parameters)
    kept = [node for sweep in body.stages for node in sweep.code if isinstance(node, Keep)]
    nodes: list[Node] = [RowArray(node.name, node.dtype, node.axis) for node in kept]
    for sweep in body.stages:
        if not sweep.axes:
            nodes += _point(sweep)
        elif sweep.scans:
            nodes += _scan_along(sweep, parameters, alone)
        elif chunked and not alone and in_chunks(sweep, parameters):
            nodes += nested(sweep.axes[:-1], Binding.SERIAL, (chunks(sweep, parameters.chunk),))
        else:
            nodes += _whole_sweep(sweep, parameters, alone)
    nodes += _widen(body, parameters.row_block)
    return nested(body.rows, Binding.SERIAL if alone else Binding.PARALLEL, tuple(nodes))


def _rows_alone(body: RowBody, parameters: CpuRowParameters) -> bool:
    """Whether rows are so few that each is shared out over the threads."""
    rows = math.prod(axis.extent for axis in body.rows)
    over_rows = any(fold.slots for sweep in body.stages for fold in sweep.folds)
    in_parts = all(_scans_in_parts(sweep) for sweep in body.stages)
    return rows < parameters.few_rows and not over_rows and in_parts


def _scans_in_parts(sweep: Sweep) -> bool:
    """Whether threads may scan a part of a sweep each, if it is scanned."""
    return not sweep.scans or (len(sweep.axes) == 1 and not sweep.folds and independent(sweep))


def _whole_sweep(sweep: Sweep, parameters: CpuRowParameters, alone: bool) -> list[Node]:
    """A sweep of a row, by one thread, or of a row `alone` by all of them.

    Long sweeps are folded in blocks: within a block in the type of the fold, over blocks in a
    wider one. Each thread folds its blocks, then the folds of the threads are joined.
    """
    *outer, inner = sweep.axes
    own = [fold for fold in sweep.folds if not fold.slots]
    if alone and not own:
        return [*nested(outer, Binding.PARALLEL, (Loop(inner, Binding.SIMD, _inside(sweep)),))]
    points = math.prod(axis.extent for axis in sweep.axes)
    is_long = inner.extent >= parameters.long_run and points > parameters.block
    if not alone and (not is_long or all(wide(fold) is fold.dtype for fold in own)):
        return _sweep_along(sweep, parameters, narrow=points <= parameters.block)
    partials = {fold.name: _partial(dataclasses.replace(fold, slots=1)) for fold in own}
    folds = tuple(
        fold if fold.slots else dataclasses.replace(fold, dtype=wide(fold)) for fold in sweep.folds
    )
    one = dataclasses.replace(sweep, axes=(inner,), folds=folds)
    swept = _sweep_along(one, parameters, narrow=True)
    joined = (Accumulate(p, ZERO, Ref(name, p.kept)) for name, p in partials.items())
    loops: tuple[Node, ...] = (*swept, *joined)
    if inner.extent > parameters.block or (alone and not outer):
        loops = (Loop(inner, Binding.BLOCKS, loops, parameters.block),)
    loops = nested(outer, Binding.PARALLEL if alone else Binding.SERIAL, loops)
    finished = tuple(Finish(partial, ZERO) for partial in partials.values())
    return [Region(tuple(partials.values()), loops, finished, threaded=alone)]


def _inside(sweep: Sweep) -> tuple[Node, ...]:
    return (*sweep.code, *sweep.stores)


def _point(sweep: Sweep) -> list[Node]:
    """What is done once a row."""
    folds = [Accumulate(_partial(fold), fold.at, fold.value) for fold in sweep.folds]
    return [*sweep.code, *folds, *sweep.stores]


def _sweep_along(sweep: Sweep, parameters: CpuRowParameters, narrow: bool) -> list[Node]:
    """A sweep, folded in lanes; `narrow` lanes are of the folded values' own type."""
    *outer, inner = sweep.axes
    own = [fold for fold in sweep.folds if not fold.slots]
    arrays = sum(len(_lane_parts(fold, fold.dtype)) for fold in own)
    lanes = parameters.lanes_for(inner.extent, arrays)
    before, within, after = _folded_in_lanes(own, lanes, narrow)
    others = [Accumulate(_partial(fold), fold.at, fold.value) for fold in sweep.folds if fold.slots]
    ahead = (dataclasses.replace(asked, lanes=lanes) for asked in sweep.ahead)
    drawn, code = drawn_together(sweep.code, inner, lanes)
    inside = (*ahead, *drawn, *code, *within, *others, *sweep.stores)
    binding, step = (Binding.SWEEP, lanes) if own or drawn else (Binding.SIMD, 1)
    loop = Loop(inner, binding, inside, step)
    return [*before, *nested(outer, Binding.SERIAL, (loop,)), *after]


def _folded_in_lanes(
    folds: Sequence[Fold], lanes: int, narrow: bool
) -> tuple[list[Node], list[Node], list[Node]]:
    """What folds of a row do before a loop over its elements, in each of the lanes, and after."""
    before: list[Node] = []
    within: list[Node] = []
    after: list[Node] = []
    for fold in folds:
        kept = fold.value.dtype if narrow and fold.dtype.is_floating else wide(fold)
        parts = _lane_parts(fold, kept)
        for name, joined in parts.items():
            before.append(Lanes(name, kept, lanes, neutral(fold.operation, kept)))
            within.append(Let(name, kept, joined, in_lanes=True))
        after.append(Combine(fold.name, fold.dtype, tuple(parts), kept, lanes, fold.operation))
    return before, within, after


def _scan_along(sweep: Sweep, parameters: CpuRowParameters, alone: bool) -> list[Node]:
    """A sweep that scans: chunk by chunk in the order of the row, by one thread, or part by part by
    all of them."""
    outer = sweep.axes[:-1]
    own = [fold for fold in sweep.folds if not fold.slots]
    over_rows = [fold for fold in sweep.folds if fold.slots]
    before, within, after = _folded_in_lanes(own, parameters.chunk, narrow=False)
    within += (Accumulate(_partial(fold), fold.at, fold.value) for fold in over_rows)
    loop = scan_loop(sweep, within, parameters.chunk)
    if alone:
        totals = _sweep_along(totals_of(sweep), parameters, narrow=False)
        return [shared_out(sweep, totals, loop, parameters.scanned_block)]
    carries = map(carry_of, sweep.scans)
    return [*carries, *before, *nested(outer, Binding.SERIAL, (loop,)), *after]


# -- lanes across rows ---------------------------------------------------------------------------


def _across(body: RowBody, parameters: CpuRowParameters) -> tuple[Node, ...]:
    *outer, inner = body.rows
    lane = Axis((*inner.path, 1), parameters.tile)
    moved = {inner: Index(0, ((inner, 1), (lane, 1)))}
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
    within = (*map(_in_lanes, sweep.code), *sweep.stores)
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
            joined.append(Let(block, own, _joined(block, fold, own), in_lanes=True))
            part = dataclasses.replace(fold, value=Ref(block, own))
            flushed.append(Let(name, dtype, _joined(name, part, dtype), in_lanes=True))
        else:
            joined.append(Let(name, dtype, _joined(name, fold, dtype), in_lanes=True))
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


def _in_lanes(node: Code) -> Node:
    assert not isinstance(node, Keep | Kept | Running), "nothing is kept or scanned once a row"
    return dataclasses.replace(node, in_lanes=True)


# -- folds ---------------------------------------------------------------------------------------


def wide(fold: Fold) -> DataType:
    """The type a fold is kept in."""
    exact = fold.operation in ("maximum", "minimum") or fold.dtype is not DataType.Float
    return fold.dtype if exact else DataType.Double


def _lane_parts(fold: Fold, dtype: DataType) -> dict[str, Call]:
    """The arrays that hold the lanes of a fold, and a lane of each with one more value.

    Extremes and NaN are kept apart: a comparison that need not keep NaN is one instruction.
    """
    name = f"{fold.name}_lanes"
    if fold.operation not in ("maximum", "minimum") or not dtype.is_floating:
        return {name: _joined(name, fold, dtype)}
    value, held, held_nan = convert(fold.value, dtype), Ref(name, dtype), Ref(f"{name}_nan", dtype)
    beats = Call("gt" if fold.operation == "maximum" else "lt", (held, value), DataType.Bool)
    is_nan = Call("isnan", (value,), DataType.Bool)
    return {
        held.name: Call("where", (beats, held, value), dtype),
        held_nan.name: Call("where", (is_nan, value, held_nan), dtype),
    }


def _joined(name: str, fold: Fold, dtype: DataType) -> Call:
    """A lane of a fold, and one more value."""
    return Call(fold.operation, (Ref(name, dtype), convert(fold.value, dtype)), dtype)


def _partial(fold: Fold) -> Partial:
    assert fold.slots is not None
    dtype = wide(fold)
    fill = neutral(fold.operation, dtype)
    in_blocks = fold.slots > 1 and dtype is not fold.dtype
    return Partial(fold.name, fold.dtype, dtype, fold.operation, fold.slots, fill, in_blocks)


def _widen(body: RowBody, every: int) -> list[Node]:
    """Joins blocks of folds over the rows to what is kept of them, if there are any."""
    folds = (fold for sweep in body.stages for fold in sweep.folds if fold.slots)
    blocked = tuple(partial for partial in map(_partial, folds) if partial.in_blocks)
    return [Widen(blocked, every)] if blocked else []


def _epilogue(body: RowBody, partials: dict[str, Partial]) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for sweep in body.epilogue:
        finished = [Finish(partials[fold.name], fold.at) for fold in sweep.folds]
        inside = (*finished, *sweep.code, *sweep.stores)
        nodes += nested(sweep.axes, Binding.SERIAL, inside)
    return tuple(nodes)


# -- the whole -----------------------------------------------------------------------------------


def _sweeps(body: RowBody) -> tuple[Sweep, ...]:
    return (*body.stages, *body.epilogue)


def _work(body: RowBody) -> int:
    """Instructions for all rows, roughly."""
    rows = math.prod(axis.extent for axis in body.rows)
    points = ((sweep, math.prod(axis.extent for axis in sweep.axes)) for sweep in body.stages)
    return rows * sum(count * cost(sweep) for sweep, count in points)
