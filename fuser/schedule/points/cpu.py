"""Body -> loop tree for a processor: loops over threads, chunks or vector lanes inside, tiles where
memory is turned, pieces where operands change."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.schedule.code.axes import arrange
from fuser.schedule.code.body import Body, rewrite_points, trace
from fuser.schedule.code.in_place import points_refusal
from fuser.schedule.code.index_comparisons import points_in_32_bits
from fuser.schedule.code.lane_calls import gains_by_chunks
from fuser.schedule.code.launch_cpu import launch_of
from fuser.schedule.code.normal_cdfs import join_normal_cdfs
from fuser.schedule.code.pieces import pieces
from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.points.chunks_cpu import (
    are_whole_vectors,
    chunk_length,
    chunk_of,
    in_chunks,
    in_vectors,
)
from fuser.schedule.points.common import in_turn, scalar_nodes, with_lanes, work
from fuser.schedule.points.divided_rows import over_divided_rows
from fuser.schedule.points.interleave import in_turn_where_short, interleaved
from fuser.schedule.points.invariants import with_invariants_before
from fuser.schedule.points.joined_pieces import joined
from fuser.schedule.points.loops_cpu import Row, axes_in_order, loops_around
from fuser.schedule.points.short_axes import around_short_axes
from fuser.schedule.points.tile_columns import with_columns
from fuser.schedule.points.tiling import (
    TileShape,
    Turned,
    column_nodes,
    cpu_shape,
    find_turned,
    loops_over_tiles,
    tile_nodes,
)
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_nest import LoopNest
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.names import kernel_name
from fuser.schedule.tree.statements import Prefetch
from fuser.schedule.tree.vectors import step_along
from fuser.segmenter import Segment


@dataclass(frozen=True, slots=True)
class _Way:
    """What all the parts of a body are mapped by."""

    parameters: CpuParameters
    past_cache: bool
    may_repeat: bool
    """Whether points may be done twice, as they are where chunks and tiles at an end are moved
    back: not from what the first time has overwritten."""


@dataclass(frozen=True, slots=True)
class _Tiles:
    """The loops over the tiles of a part, whose axes these are, and the shape of a tile."""

    axes: tuple[Axis, ...]
    loops: tuple[Node, ...]
    shape: TileShape


def schedule_cpu(segment: Segment, parameters: CpuParameters) -> LoopNest:
    """Outer axes over threads, the innermost over vector lanes."""
    body = with_invariants_before(points_in_32_bits(arrange(trace(segment))))
    body = rewrite_points(body, join_normal_cdfs)
    launch = launch_of(segment, work(body), parameters.processor)
    way = _Way(parameters, launch.past_cache, may_repeat=not segment.overwritten)
    parts = [points_in_32_bits(part) for part in pieces(body, parameters.pieces)]
    tiles, planes, others = _turned(parts, way)
    loops_over = [*joined(interleaved(others, parameters), parameters), *planes]
    rows = _rows(loops_over, way, alone=len(parts) == 1)
    axes = [*axes_in_order(rows), *itertools.chain.from_iterable(each.axes for each in tiles)]
    over_tiles = list(itertools.chain.from_iterable(each.loops for each in tiles))
    loops = loops_around(rows, parameters, over_tiles)
    return LoopNest(
        name=kernel_name("pointwise", segment),
        axes=tuple(dict.fromkeys(axes)),
        prologue=body.prologue,
        body=loops or scalar_nodes(parts[0]),
        launch=launch,
        index_dtype=DataType.Int,
        mapping=f"cpu pointwise, {_described(rows, tiles)}",
        parameters=parameters,
        overwrite_refusal=points_refusal(segment, body),
    )


def _turned(parts: Sequence[Body], way: _Way) -> tuple[list[_Tiles], list[Body], list[Body]]:
    """The parts where memory is turned, in tiles or without: blocks of few elements, or taken apart
    to planes; and the others."""
    tiles, planes, others = list[_Tiles](), list[Body](), list[Body]()
    for part in parts:
        turned = find_turned(part) if way.may_repeat else None
        if turned is None:
            others.append(part)
            continue
        short = _without_tiles(part, turned, way.parameters)
        if short is not None:
            planes += short
        else:
            tiles.append(_in_tiles(with_columns(turned), way))
    return tiles, planes, others


def _without_tiles(body: Body, turned: Turned, parameters: CpuParameters) -> list[Body] | None:
    """A body whose memory is turned along so short axes that no tile is as small; None if it is
    not. Compilers make vectors of neighbouring pixels that are taken apart (patches of 16 pixels of
    three channels take half the time), of elements one after the other rarely."""
    apart = _taken_apart(body, turned, parameters)
    if apart is not None:
        return apart
    in_turn = in_turn_where_short(turned, body, parameters)
    return None if in_turn is None else [in_turn]


def _rows(parts: Sequence[Body], way: _Way, *, alone: bool) -> list[Row]:
    """The innermost loop of each part, and the axes around it; none of a point that is `alone`."""
    if not alone or len(parts) > 1:
        parts = [_with_an_axis(number, part) for number, part in enumerate(parts)]
    return [_row(part, way) for part in parts if part.axes]


def _row(part: Body, way: _Way) -> Row:
    around = around_short_axes(part, way.parameters) if way.may_repeat else None
    return around or Row(part.axes[:-1], _innermost(part, way))


def _described(rows: Sequence[Row], tiles: Sequence[_Tiles]) -> str:
    """How the parts are done."""
    shapes = dict.fromkeys(f"tiles of {t.shape.lines} x {t.shape.columns}" for t in tiles)
    loops = f"{len(axes_in_order(rows))} loop(s), {len(rows)} piece(s)"
    return ", ".join((*([loops] if rows or not tiles else []), *shapes))


def _taken_apart(body: Body, turned: Turned, parameters: CpuParameters) -> list[Body] | None:
    """Pixels of a few channels that become planes: the elements of a short axis of what is read,
    one after the other, each for neighbours that are as few apart; None if it is no such axis.
    Compilers take vectors of such neighbours apart, and no tile is as small."""
    most, along = parameters.interleaved, turned.along
    steps = [step_along(load.at, turned.across) for load in turned.loads]
    if along.extent > most or turned.stores or not all(step == along.extent for step in steps):
        return None
    axes = (*(axis for axis in body.axes if axis != along), along)
    parts = interleaved([dataclasses.replace(body, axes=axes)], parameters)
    return None if any(along in part.axes for part in parts) else parts


def _in_tiles(turned: Turned, way: _Way) -> _Tiles:
    """Tiles over threads; of each its lines, whole, over vector lanes."""
    parameters, past_cache = way.parameters, way.past_cache
    shape = cpu_shape(turned, parameters, past_cache=past_cache)
    columns = shape.columns
    chunked = chunk_length(turned.rest, parameters) == parameters.processor.chunk
    gains = past_cache or gains_by_chunks(turned.rest.code)
    asked, done = _neighbours(turned.work(columns), columns, way, chunked=chunked and gains)
    ahead = (Loop(turned.along, Binding.TILE_LINES, asked, columns),) if asked else ()
    computed = _columns(turned, shape.lines, way) if turned.columns else ()
    streams = past_cache and chunked
    work = tile_nodes(turned, done, columns, columns=computed, past_cache=streams)
    loops = loops_over_tiles(turned, shape, (*ahead, *work), Binding.PARALLEL)
    return _Tiles(turned.rest.axes, loops, shape)


def _columns(turned: Turned, lines: int, way: _Way) -> tuple[Node, ...]:
    """The columns of a tile over vector lanes, each asking for what the next tile reads of it."""
    body = turned.column_work(lines)
    asked = [Prefetch(n.name, n.tensor, n.at + Index(lines), lines, there=True) for n in body.loads]
    _, done = _neighbours(body, lines, way, chunked=are_whole_vectors(body, lines))
    return column_nodes(turned, (*asked, *done), lines)


def _neighbours(
    body: Body, count: int, way: _Way, *, chunked: bool
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """So many of a line, or a column, of a tile: what asks for memory, and what does them, as a
    chunk or over vector lanes."""
    if chunked:
        return chunk_of(body, count, way.parameters)
    lane, shifted = with_lanes(body, count)
    return (), (Loop(lane, Binding.SIMD, scalar_nodes(shifted)),)


def _with_an_axis(number: int, part: Body) -> Body:
    """A piece with a loop even if it is one element, so that its names are its own."""
    return part if part.axes else dataclasses.replace(part, axes=(Axis((-1, number), 1),))


def _innermost(body: Body, way: _Way) -> Loop:
    """The loop over the innermost axis: in chunks or short vectors if points may be done twice, or
    over the rows of a division, else over vector lanes, or without any."""
    chunks = in_chunks(body, way.parameters, way.past_cache) if way.may_repeat else None
    if chunks is not None:
        return chunks
    divided = over_divided_rows(body, way.parameters)
    if divided is not None:
        return divided
    if _reads_apart(body, way.parameters):
        return Loop(body.axes[-1], Binding.SERIAL, scalar_nodes(body))
    vectors = in_vectors(body, way.parameters) if way.may_repeat else None
    if vectors is not None:
        return vectors
    many = len(body.stores) >= way.parameters.stored_in_turn
    return Loop(body.axes[-1], Binding.SIMD, in_turn(body) if many else scalar_nodes(body))


def _reads_apart(body: Body, parameters: CpuParameters) -> bool:
    """Whether neighbours read and store so much far apart that lanes would not help: the edges of
    a stencil, down the rows. A vector of such loads is an instruction or two for each of its
    elements, over which compilers take seconds. A few others beside them, such as a number of each
    row, make up for it only where lanes are called for."""
    inner = body.axes[-1]
    steps = [step_along(access.at, inner) for access in body.accesses]
    apart = [step for step in steps if step is None or abs(step) > parameters.interleaved]
    neighbours = [step for step in steps if step in (-1, 1)]
    few = len(apart) <= parameters.apart_costly
    if neighbours and few and gains_by_chunks(body.code):
        return False
    return len(apart) >= parameters.apart * (1 + len(neighbours))
