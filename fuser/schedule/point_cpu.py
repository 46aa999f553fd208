"""Body -> loop tree for a processor: loops over threads, chunks or vector lanes inside, tiles where
memory is turned, pieces where operands change."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.schedule.axes import arrange
from fuser.schedule.bindings import Binding
from fuser.schedule.body import Body, trace
from fuser.schedule.cpu_loops import Row, axes_in_order, loops_around
from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.in_place import points_refusal
from fuser.schedule.index import Axis
from fuser.schedule.index_comparisons import points_in_32_bits
from fuser.schedule.interleave import interleaved
from fuser.schedule.invariants import with_invariants_before
from fuser.schedule.lane_calls import gains_by_chunks
from fuser.schedule.loop_nest import Launch, LoopNest
from fuser.schedule.loop_tree import Loop, Node
from fuser.schedule.names import kernel_name
from fuser.schedule.normal_cdfs import join_normal_cdfs
from fuser.schedule.past_cache import goes_past_cache
from fuser.schedule.pieces import pieces
from fuser.schedule.point_chunks_cpu import chunk_length, chunk_of, in_chunks, in_vectors
from fuser.schedule.points import scalar_nodes, with_lanes, work
from fuser.schedule.statements import Let, Load
from fuser.schedule.tiling import Turned, cpu_shape, find_turned, loops_over_tiles, tile_nodes
from fuser.schedule.vectors import step_along
from fuser.segmenter import Segment


@dataclass(frozen=True, slots=True)
class _Mapped:
    """The loops of a body, as a loop nest has them, and how they are `described`."""

    axes: tuple[Axis, ...]
    prologue: tuple[Load | Let, ...]
    nodes: tuple[Node, ...]
    described: str


def schedule_cpu(segment: Segment, parameters: CpuParameters) -> LoopNest:
    """Outer axes over threads, the innermost over vector lanes."""
    body = with_invariants_before(points_in_32_bits(arrange(trace(segment))))
    body = join_normal_cdfs(body)
    past_cache = goes_past_cache(segment, parameters.processor.stream_bytes)
    launch = Launch(threaded=work(body) >= parameters.processor.serial_work, past_cache=past_cache)
    # Chunks and tiles at an end are moved back, and so compute some points again: not where that
    # would be from what the first time has overwritten.
    may_repeat = not segment.overwritten
    turned = find_turned(body) if may_repeat else None
    planes = _taken_apart(body, turned, parameters) if turned is not None else None
    if turned is not None and planes is None:
        mapped = _in_tiles(body, turned, past_cache, parameters)
    else:
        parts = planes or _pieces(body, parameters)
        mapped = _in_parts(parts, past_cache, may_repeat, parameters)
    return LoopNest(
        name=kernel_name("pointwise", segment),
        axes=mapped.axes,
        prologue=mapped.prologue,
        body=mapped.nodes,
        launch=launch,
        index_dtype=DataType.Int,
        mapping=f"cpu pointwise, {mapped.described}",
        parameters=parameters,
        overwrite_refusal=points_refusal(segment, body),
    )


def _pieces(body: Body, parameters: CpuParameters) -> list[Body]:
    """The body cut where its operands change, its short axes done together."""
    cut = map(points_in_32_bits, pieces(body, parameters.pieces))
    return interleaved(list(cut), parameters)


def _in_parts(
    parts: Sequence[Body], past_cache: bool, may_repeat: bool, parameters: CpuParameters
) -> _Mapped:
    """Loops over each part, of which the outer ones are shared."""
    if len(parts) > 1:
        parts = [_with_an_axis(number, part) for number, part in enumerate(parts)]
    rows = [
        Row(part.axes[:-1], _innermost(part, parameters, past_cache, may_repeat))
        for part in parts
        if part.axes
    ]
    axes = axes_in_order(rows)
    nodes = loops_around(rows, parameters) if rows else scalar_nodes(parts[0])
    return _Mapped(axes, parts[0].prologue, nodes, f"{len(axes)} loop(s), {len(parts)} piece(s)")


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


def _in_tiles(body: Body, turned: Turned, past_cache: bool, parameters: CpuParameters) -> _Mapped:
    """Tiles over threads; of each its lines, whole, over vector lanes."""
    shape = cpu_shape(turned, parameters, past_cache=past_cache)
    columns = shape.columns
    chunked = chunk_length(turned.rest, parameters) == parameters.processor.chunk
    if chunked and (past_cache or gains_by_chunks((*turned.rest.loads, *turned.rest.lets))):
        asked, done = chunk_of(turned.work(columns), columns, parameters)
    else:
        lane, shifted = with_lanes(turned.work(columns), columns)
        asked, done = (), (Loop(lane, Binding.SIMD, scalar_nodes(shifted)),)
    ahead = (Loop(turned.along, Binding.TILE_LINES, asked, columns),) if asked else ()
    work = tile_nodes(turned, done, columns, past_cache=past_cache and chunked, ahead=past_cache)
    nodes = loops_over_tiles(turned, shape, (*ahead, *work), Binding.PARALLEL)
    described = f"tiles of {shape.lines} x {columns}"
    return _Mapped(body.axes, body.prologue, nodes, described)


def _with_an_axis(number: int, part: Body) -> Body:
    """A piece with a loop even if it is one element, so that its names are its own."""
    return part if part.axes else dataclasses.replace(part, axes=(Axis((-1, number), 1),))


def _innermost(body: Body, parameters: CpuParameters, past_cache: bool, may_repeat: bool) -> Loop:
    """The loop over the innermost axis: in chunks or short vectors if points `may_repeat`, else
    over vector lanes, or without any."""
    chunks = in_chunks(body, parameters, past_cache) if may_repeat else None
    if chunks is not None:
        return chunks
    if _reads_apart(body, parameters):
        return Loop(body.axes[-1], Binding.SERIAL, scalar_nodes(body))
    vectors = in_vectors(body, parameters) if may_repeat else None
    return vectors or Loop(body.axes[-1], Binding.SIMD, scalar_nodes(body))


def _reads_apart(body: Body, parameters: CpuParameters) -> bool:
    """Whether neighbours read and store so much far apart that lanes would not help: the edges of
    a stencil, down the rows. A vector of such loads is an instruction or two for each of its
    elements, over which compilers take seconds. A few others beside them, such as a number of each
    row, make up for it only where lanes are called for."""
    inner = body.axes[-1]
    accesses = (*(load.at for load in body.loads), *(store.at for store in body.stores))
    steps = [step_along(at, inner) for at in accesses]
    apart = [step for step in steps if step is None or abs(step) > parameters.interleaved]
    neighbours = [step for step in steps if step in (-1, 1)]
    if neighbours and gains_by_chunks((*body.loads, *body.lets)):
        return False
    return len(apart) >= parameters.apart * (1 + len(neighbours))
