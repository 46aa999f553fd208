"""Body -> loop tree for a processor: loops over threads, chunks or vector lanes inside, tiles where
memory is turned, pieces where operands change."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fuser.ir.dtypes import DataType
from fuser.schedule.axes import arrange, later
from fuser.schedule.bindings import Binding
from fuser.schedule.body import Body, trace
from fuser.schedule.counts import point_count
from fuser.schedule.cpu_loops import Row, axes_in_order, loops_around
from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.expressions import Ref
from fuser.schedule.in_place import points_refusal
from fuser.schedule.index import ZERO, Axis, Index, substitute
from fuser.schedule.index_comparisons import points_in_32_bits
from fuser.schedule.interleave import interleaved
from fuser.schedule.lane_calls import gains_by_chunks, with_lane_calls
from fuser.schedule.lane_loads import done_in_vectors, lane_loads
from fuser.schedule.loop_nest import Launch, LoopNest
from fuser.schedule.loop_tree import Loop, Node, Peel
from fuser.schedule.names import kernel_name
from fuser.schedule.past_cache import goes_past_cache
from fuser.schedule.pieces import pieces
from fuser.schedule.points import scalar_nodes, store_lanes, with_lanes, work
from fuser.schedule.statements import Load, Prefetch
from fuser.schedule.tiling import Turned, cpu_shape, find_turned, loops_over_tiles, tile_nodes
from fuser.schedule.vectors import step_along, unrounded
from fuser.segmenter import Segment

_LINE_BYTES = 64
"""Bytes of a cache line."""

_REPEATED = 16
"""One element in so many may be computed twice, by chunks that are moved back to end in range."""

_AHEAD_BYTES = 8192
"""How far ahead rows with gaps between them are asked for."""


def schedule_cpu(segment: Segment, parameters: CpuParameters) -> LoopNest:
    """Outer axes over threads, the innermost over vector lanes."""
    body = points_in_32_bits(arrange(trace(segment)))
    past_cache = goes_past_cache(segment, parameters.processor.stream_bytes)
    launch = Launch(threaded=work(body) >= parameters.processor.serial_work, past_cache=past_cache)
    # Chunks and tiles at an end are moved back, and so compute some points again: not where that
    # would be from what the first time has overwritten.
    may_repeat = not segment.overwritten
    turned = find_turned(body) if may_repeat else None
    taken_apart = _taken_apart(body, turned, parameters) if turned is not None else None
    axes, parts = body.axes, [body]
    if turned is not None and taken_apart is None:
        nodes, described = _tiles(turned, past_cache, parameters)
    else:
        cut = map(points_in_32_bits, pieces(body, parameters.pieces))
        whole = interleaved(list(cut), parameters.interleaved)
        parts = taken_apart or whole
        if len(parts) > 1:
            parts = [_with_an_axis(number, part) for number, part in enumerate(parts)]
        rows = [
            Row(part.axes[:-1], _innermost(part, parameters, past_cache, may_repeat))
            for part in parts
            if part.axes
        ]
        axes = axes_in_order(rows)
        nodes = loops_around(rows) if rows else scalar_nodes(parts[0])
        described = f"{len(axes)} loop(s), {len(parts)} piece(s)"
    return LoopNest(
        name=kernel_name("pointwise", segment),
        axes=axes,
        prologue=parts[0].prologue,
        body=nodes,
        launch=launch,
        index_dtype=DataType.Int,
        mapping=f"cpu pointwise, {described}",
        parameters=parameters,
        overwrite_refusal=points_refusal(segment, body),
    )


def _taken_apart(body: Body, turned: Turned, parameters: CpuParameters) -> list[Body] | None:
    """Pixels of a few channels that become planes: the elements of a short axis of what is read,
    one after the other, each for neighbours that are as few apart; None if it is no such axis.
    Compilers take vectors of such neighbours apart, and no tile is as small."""
    most, along = parameters.interleaved, turned.along
    steps = [step_along(load.at, turned.across) for load in turned.loads]
    if along.extent > most or turned.stores or not all(step == along.extent for step in steps):
        return None
    axes = (*(axis for axis in body.axes if axis != along), along)
    parts = interleaved([dataclasses.replace(body, axes=axes)], most)
    return None if any(along in part.axes for part in parts) else parts


def _tiles(
    turned: Turned, past_cache: bool, parameters: CpuParameters
) -> tuple[tuple[Node, ...], str]:
    """Tiles over threads; of each its lines, whole, over vector lanes."""
    shape = cpu_shape(turned, parameters, past_cache=past_cache)
    columns = shape.columns
    chunked = _chunk_length(turned.rest, parameters) == parameters.processor.chunk
    if chunked and (past_cache or gains_by_chunks((*turned.rest.loads, *turned.rest.lets))):
        asked, done = _chunk(turned.work(columns), columns, parameters)
    else:
        lane, shifted = with_lanes(turned.work(columns), columns)
        asked, done = (), (Loop(lane, Binding.SIMD, scalar_nodes(shifted)),)
    ahead = (Loop(turned.along, Binding.TILE_LINES, asked, columns),) if asked else ()
    work = tile_nodes(turned, done, columns, past_cache=past_cache and chunked, ahead=past_cache)
    nodes = loops_over_tiles(turned, shape, (*ahead, *work), Binding.PARALLEL)
    return nodes, f"tiles of {shape.lines} x {columns}"


def _with_an_axis(number: int, part: Body) -> Body:
    """A piece with a loop even if it is one element, so that its names are its own."""
    return part if part.axes else dataclasses.replace(part, axes=(Axis((-1, number), 1),))


def _innermost(body: Body, parameters: CpuParameters, past_cache: bool, may_repeat: bool) -> Loop:
    """The loop over the innermost axis: a copied row, chunks if points `may_repeat`, or vector
    lanes. Short rows are a few vectors, where a compiler would do what is left one by one.

    Chunks of fewer elements are worth it where none has an end that shares a line with another row.
    """
    inner = body.axes[-1]
    chunked = may_repeat and (past_cache or gains_by_chunks((*body.loads, *body.lets)))
    chunk = _chunk_length(body, parameters) if chunked else 0
    peel = _chunk_start(body, chunk) if chunk and past_cache else None
    if chunk and peel is None and len(body.axes) > 1:
        chunk = _repeating_little(chunk, body, parameters)
    if chunk and _is_row_copy(body, parameters):
        return Loop(inner, Binding.STREAM, scalar_nodes(body))
    if chunk == parameters.processor.chunk or (chunk and peel is None):
        asked, done = _chunk(body, chunk, parameters)
        return Loop(inner, Binding.CHUNKS, (*asked, *done), chunk, peel=peel)
    if _reads_apart(body, parameters):
        return Loop(inner, Binding.SERIAL, scalar_nodes(body))
    in_rows = may_repeat and len(body.axes) > 1
    if in_rows and done_in_vectors(
        (*body.loads, *body.lets), body.stores, inner, parameters.processor
    ):
        return Loop(
            inner,
            Binding.CHUNKS,
            _lanes(body, parameters.processor.vector),
            parameters.processor.vector,
        )
    return Loop(inner, Binding.SIMD, scalar_nodes(body))


def _reads_apart(body: Body, parameters: CpuParameters) -> bool:
    """Whether neighbours read and store so much far apart that lanes would not help: the edges of
    a stencil, down the rows. A vector of such loads is an instruction or two for each of its
    elements, over which compilers take seconds."""
    inner = body.axes[-1]
    accesses = (*(load.at for load in body.loads), *(store.at for store in body.stores))
    steps = [step_along(at, inner) for at in accesses]
    apart = [step for step in steps if step is None or abs(step) > parameters.interleaved]
    neighbours = [step for step in steps if step in (-1, 1)]
    return len(apart) >= parameters.apart and not neighbours


def _is_row_copy(body: Body, parameters: CpuParameters) -> bool:
    """Whether a body is a copy of long rows."""
    if len(body.axes) < 2 or body.lets or len(body.loads) != 1 or len(body.stores) != 1:
        return False
    (load,), (store,) = body.loads, body.stores
    row_bytes = body.axes[-1].extent * store.tensor.dtype.itemsize
    return (
        load.drawn is None
        and store.source == Ref(load.name, store.tensor.dtype)
        and step_along(load.at, body.axes[-1]) == 1
        and row_bytes >= parameters.stream_row_bytes
    )


def _chunk_length(body: Body, parameters: CpuParameters) -> int:
    """Elements that are computed in registers before they bypass the cache: whole vectors of
    every store, as many as a row has up to `chunk`; 0 where what is moved is not consecutive."""
    inner = body.axes[-1]
    least = _line_elements(body)
    length = parameters.processor.chunk
    while length > inner.extent:
        length //= 2
    consecutive = all(step_along(store.at, inner) == 1 for store in body.stores) and all(
        step_along(load.at, inner) in (-1, 0, 1) for load in body.loads
    )
    return length if consecutive and length >= least else 0


def _repeating_little(chunk: int, body: Body, parameters: CpuParameters) -> int:
    """The length of chunks, or one so much shorter that the last of a row repeats little of the one
    before. A lone row repeats it once, so other lengths need no other text."""
    if len(body.axes) == 1:
        return chunk
    extent = body.axes[-1].extent
    shortest = max(_line_elements(body), parameters.processor.vector)
    while chunk > shortest and _REPEATED * (-extent % chunk) > extent:
        chunk //= 2
    return chunk


def _line_elements(body: Body) -> int:
    """Elements of a line of the cache, of the narrowest tensor that is stored."""
    return _LINE_BYTES // min(store.tensor.dtype.itemsize for store in body.stores)


def _chunk_start(body: Body, chunk: int) -> Peel | None:
    """Where chunks begin if not with the row: at whole lines of the first tensor stored."""
    store, inner = body.stores[0], body.axes[-1]
    start = substitute(store.at, {inner: ZERO})
    steps = (start.constant, *(step for _, step in start.terms))
    size = store.tensor.dtype.itemsize
    if all(step * size % _LINE_BYTES == 0 for step in steps):
        return None
    return Peel(store.tensor, start, chunk)


def _chunk(
    body: Body, count: int, parameters: CpuParameters
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """`count` neighbouring elements: what asks for memory of theirs, and what computes them into
    registers, then stores them at once."""
    inner = body.axes[-1]
    lane, shifted = with_lanes(body, count)
    read = [load for load in body.loads if load.drawn is None]
    consecutive = [load for load in read if step_along(load.at, inner) == 1]
    asked = tuple(
        _asked_ahead(load, body, count)
        for load in consecutive
        if not _stays_in_cache(load, body.axes, parameters)
    )
    wide = [dataclasses.replace(s, source=unrounded(s, body.lets)) for s in body.stores]
    arrays, computed, stores = store_lanes(dataclasses.replace(body, stores=tuple(wide)), count)
    drawn, own = _loads_at_once(body, shifted, count)
    within = (*own, *shifted.lets, *computed)
    held, phases = with_lane_calls(within, count, lambda body: Loop(lane, Binding.SIMD, body))
    return asked, (*drawn, *arrays, *held, *phases, *stores)


def _lanes(body: Body, count: int) -> tuple[Node, ...]:
    """`count` neighbouring elements, each stored as it is computed."""
    lane, shifted = with_lanes(body, count)
    at_once, own = _loads_at_once(body, shifted, count)
    return (*at_once, Loop(lane, Binding.SIMD, (*own, *shifted.lets, *shifted.stores)))


def _loads_at_once(body: Body, shifted: Body, count: int) -> tuple[list[Load], list[Load]]:
    """The loads of `count` neighbours that are done at once, and of the others those of each."""
    at_once, _ = lane_loads(body.loads, body.axes[-1], count, (*body.lets, *body.stores))
    names = {load.name for load in at_once}
    return at_once, [load for load in shifted.loads if load.name not in names]


def _stays_in_cache(load: Load, axes: Sequence[Axis], parameters: CpuParameters) -> bool:
    """Whether a tensor is read over and over, and so small that it is there by itself."""
    if not all(isinstance(term, Axis) for term, _ in load.at.terms):
        return False
    walked = [axis for axis in axes if load.at.coefficient(axis)]
    again = point_count(axes) > point_count(walked)
    return again and point_count(walked) * load.tensor.dtype.itemsize <= parameters.held_bytes


def _asked_ahead(load: Load, body: Body, count: int) -> Prefetch:
    """What a chunk asks for: what comes soon in memory, or, where rows have gaps between them, the
    same of a later row: what is in the gaps would be read for nothing."""
    *outer, inner = body.axes
    row = load.at.coefficient(outer[-1]) if outer else 0
    if row in (0, inner.extent):
        return Prefetch(load.name, load.tensor, load.at, count)
    axis, rows = later(outer, _AHEAD_BYTES / (inner.extent * load.tensor.dtype.itemsize))
    further = Index(load.at.coefficient(axis) * rows)
    return Prefetch(load.name, load.tensor, load.at + further, count, there=True)
