"""Body -> loop tree: how the axes map to a processor's threads or to a GPU's blocks and lanes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from fuser.ir.dtypes import DataType
from fuser.ir.pointwise import TABLE
from fuser.schedule.axes import arrange, map_indices
from fuser.schedule.body import Body, trace
from fuser.schedule.draw import drawn_together
from fuser.schedule.heuristics import CpuParameters, CudaParameters, block_shape
from fuser.schedule.index import Axis, Index, affine_parts
from fuser.schedule.loop_tree import (
    Binding,
    Call,
    Launch,
    Loop,
    LoopNest,
    Node,
    Prefetch,
    Ref,
)
from fuser.schedule.names import kernel_name
from fuser.schedule.tiling import (
    Turned,
    cpu_shape,
    cuda_shape,
    find_turned,
    loops_over_tiles,
    tile_nodes,
    within_shared,
)
from fuser.schedule.vectors import Alignments, lanes_to_store, step_along, unrounded, widest_lanes
from fuser.segmenter import Segment


def schedule_cpu(segment: Segment, parameters: CpuParameters) -> LoopNest:
    """Outer axes over threads, the innermost over vector lanes; tiles where reads need them."""
    body = arrange(trace(segment))
    turned = None if segment.overwritten else find_turned(body)
    if turned is not None:
        return _tiled_cpu(segment, body, turned, parameters)
    nodes, inner, step = _scalar_nodes(body), Binding.SIMD, 1
    if segment.overwritten:
        pass  # the last chunk of a row is moved back: it would be computed from new values
    elif _is_row_copy(body, parameters):
        inner = Binding.STREAM
    elif _streams(body, parameters):
        asked, work = _chunk(body, parameters.chunk)
        nodes, inner, step = (*asked, *work), Binding.CHUNKS, parameters.chunk
    for depth, axis in reversed(list(enumerate(body.axes))):
        innermost = depth == len(body.axes) - 1
        nodes = (
            Loop(axis, inner, nodes, step) if innermost else Loop(axis, Binding.PARALLEL, nodes),
        )
    described = f"cpu pointwise: {len(body.axes)} loop(s), {parameters}"
    return _cpu_nest(segment, body, nodes, described, parameters)


def _tiled_cpu(segment: Segment, body: Body, turned: Turned, parameters: CpuParameters) -> LoopNest:
    """Tiles over threads; of each its lines, whole, over vector lanes."""
    shape = cpu_shape(turned, parameters)
    columns, streams = shape.columns, _streams(turned.rest, parameters)
    if streams:
        asked, work = _chunk(turned.work(columns), columns)
    else:
        lane, shifted = _with_lanes(turned.work(columns), columns)
        asked, work = (), (Loop(lane, Binding.SIMD, _scalar_nodes(shifted)),)
    ahead = (Loop(turned.along, Binding.TILE_LINES, asked, columns),) if asked else ()
    past_cache = streams and _stored_bytes(body) >= parameters.stream_bytes
    nodes = (*ahead, *tile_nodes(turned, work, columns, past_cache=past_cache))
    nodes = loops_over_tiles(turned, shape, nodes, Binding.PARALLEL)
    described = f"cpu pointwise: tiles of {shape.lines} x {columns}, {parameters}"
    return _cpu_nest(segment, body, nodes, described, parameters)


def _cpu_nest(
    segment: Segment, body: Body, nodes: tuple[Node, ...], described: str, parameters: CpuParameters
) -> LoopNest:
    work = _elements(body) * _cost(body)
    return LoopNest(
        name=kernel_name("pointwise", segment),
        axes=body.axes,
        prologue=body.prologue,
        body=nodes,
        launch=Launch(
            threaded=work >= parameters.serial_work,
            past_cache=_stored_bytes(body) >= parameters.stream_bytes,
        ),
        index_dtype=DataType.Int,
        parameters=described,
    )


def schedule_cuda(segment: Segment, alignments: Alignments, parameters: CudaParameters) -> LoopNest:
    """One thread for `lanes` neighbouring elements; blocks cover the two innermost axes, or tiles
    where reads need them."""
    body = arrange(trace(segment))
    turned = None if segment.overwritten else find_turned(body)
    if turned is not None:
        return _tiled_cuda(segment, body, turned, alignments, parameters)
    lanes = _vector_lanes(segment, body, alignments, parameters)
    nodes = _lanes_of_thread(body, lanes) if body.axes else _scalar_nodes(body)
    extents = [axis.extent for axis in body.axes]
    block = block_shape(extents, lanes, parameters)
    inner_bindings = (Binding.THREAD_X, Binding.THREAD_Y)
    for depth, axis in enumerate(reversed(body.axes)):
        binding = inner_bindings[depth] if depth < 2 else Binding.BLOCK
        nodes = (Loop(axis, binding, nodes, lanes if depth == 0 else 1),)
    return LoopNest(
        name=kernel_name("pointwise", segment),
        axes=body.axes,
        prologue=body.prologue,
        body=nodes,
        launch=Launch(
            grid=(_blocks(extents, lanes, block), 1, 1),
            block=block,
            max_threads=parameters.threads * (1 if len(extents) <= 1 else 2),
        ),
        index_dtype=_index_dtype(segment, body),
        parameters=f"cuda pointwise: {lanes} lane(s), block {block[0]} x {block[1]}, {parameters}",
    )


def _tiled_cuda(
    segment: Segment,
    body: Body,
    turned: Turned,
    alignments: Alignments,
    parameters: CudaParameters,
) -> LoopNest:
    """A block for each tile, through shared memory."""
    shape = cuda_shape(turned, parameters)
    turned = within_shared(turned, shape, parameters)
    widest, along = parameters.vector_bytes, turned.along
    moved = {
        n: widest_lanes(segment, [(n.tensor, n.at)], along, alignments, widest, widest)
        for n in (*turned.loads, *turned.stores)
    }
    lanes = _vector_lanes(segment, turned.rest, alignments, parameters)
    nodes = tile_nodes(turned, _lanes_of_thread(turned.work(lanes), lanes), lanes, moved)
    threads = min(shape.lines * shape.columns // lanes, parameters.tile_threads)
    blocks = math.prod(axis.extent for axis in turned.outer)
    blocks *= -(-along.extent // shape.lines) * -(-turned.across.extent // shape.columns)
    described = f"{lanes} lane(s), tiles of {shape.lines} x {shape.columns}"
    return LoopNest(
        name=kernel_name("pointwise", segment),
        axes=body.axes,
        prologue=body.prologue,
        body=loops_over_tiles(turned, shape, nodes, Binding.BLOCK),
        launch=Launch(grid=(blocks, 1, 1), block=(threads, 1, 1), max_threads=threads),
        index_dtype=_index_dtype(segment, body),
        parameters=f"cuda pointwise: {described}, {parameters}",
    )


def _is_row_copy(body: Body, parameters: CpuParameters) -> bool:
    """Whether a body is a copy of long rows into an output that no cache holds."""
    if len(body.axes) < 2 or body.lets or len(body.loads) != 1 or len(body.stores) != 1:
        return False
    (load,), (store,) = body.loads, body.stores
    if load.drawn is not None:
        return False
    row_bytes = body.axes[-1].extent * store.tensor.dtype.itemsize
    return (
        store.source == Ref(load.name, store.tensor.dtype)
        and step_along(load.at, body.axes[-1]) == 1
        and row_bytes >= parameters.stream_row_bytes
        and _streams(body, parameters)
    )


def _streams(body: Body, parameters: CpuParameters) -> bool:
    """Whether to store chunks: consecutive, and more than the cache holds, or drawn in blocks."""
    if not body.axes or body.axes[-1].extent < parameters.chunk:
        return False
    inner = body.axes[-1]
    drawn = any(load.drawn for load in body.loads)
    return (
        (drawn or _stored_bytes(body) >= parameters.stream_bytes)
        and all(step_along(store.at, inner) == 1 for store in body.stores)
        and all(step_along(load.at, inner) in (-1, 0, 1) for load in body.loads)
    )


def _chunk(body: Body, count: int) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """`count` neighbouring elements: what asks for memory of theirs, and what computes them into
    registers, then stores them at once."""
    lane, shifted = _with_lanes(body, count)
    read = [load for load in body.loads if load.drawn is None]
    consecutive = [load for load in read if step_along(load.at, body.axes[-1]) == 1]
    asked = tuple(Prefetch(load.tensor, load.at, count) for load in consecutive)
    wide = [dataclasses.replace(s, source=unrounded(s, body.lets)) for s in body.stores]
    arrays, computed, stores = _store_lanes(dataclasses.replace(body, stores=tuple(wide)), count)
    drawn, _ = drawn_together(body.loads, body.axes[-1], count)
    names = {load.name for load in drawn}
    loads = (load for load in shifted.loads if load.name not in names)
    within = (*loads, *shifted.lets, *computed)
    return asked, (*drawn, *arrays, Loop(lane, Binding.SIMD, within), *stores)


# -- one thread's work ---------------------------------------------------------------------------


def _scalar_nodes(body: Body) -> tuple[Node, ...]:
    return (*body.loads, *body.lets, *body.stores)


def _lanes_of_thread(body: Body, lanes: int) -> tuple[Node, ...]:
    """Vector loads, the arithmetic over lanes, vector stores.

    What is the same for all lanes is loaded once; what is not consecutive is loaded lane by lane.
    """
    if lanes == 1:
        return _scalar_nodes(body)
    inner = body.axes[-1]
    lane, shifted = _with_lanes(body, lanes)
    before: list[Node] = []
    within: list[Node] = []
    for load, moved in zip(body.loads, shifted.loads, strict=True):
        step = step_along(load.at, inner)
        if step == 1:
            before.append(dataclasses.replace(load, lanes=lanes))
        elif step == 0:
            before.append(load)
        else:
            within.append(moved)
    pairs = zip(body.stores, shifted.stores, strict=True)
    within += [
        *shifted.lets,
        *(moved for store, moved in pairs if step_along(store.at, inner) != 1),
    ]
    arrays, computed, stores = _store_lanes(body, lanes)
    return (*before, *arrays, Loop(lane, Binding.LANES, (*within, *computed)), *stores)


def _with_lanes(body: Body, count: int) -> tuple[Axis, Body]:
    """A lane axis, and the body with it added to the innermost axis."""
    inner = body.axes[-1]
    lane = Axis((*inner.path, 1), count)
    return lane, map_indices(body, {inner: Index(0, ((inner, 1), (lane, 1)))})


def _store_lanes(body: Body, count: int) -> tuple[list[Node], list[Node], list[Node]]:
    """For consecutive stores: arrays of lanes, what fills them lane by lane, and their stores."""
    consecutive = [store for store in body.stores if step_along(store.at, body.axes[-1]) == 1]
    arrays: list[Node] = []
    computed: list[Node] = []
    stores: list[Node] = []
    for store in consecutive:
        array, fill, whole = lanes_to_store(store, store.source, count)
        arrays.append(array)
        computed.append(fill)
        stores.append(whole)
    return arrays, computed, stores


def _vector_lanes(
    segment: Segment, body: Body, alignments: Alignments, parameters: CudaParameters
) -> int:
    """The widest power of two for which every consecutive access is aligned; 1 if none is."""
    if not body.axes or step_along(body.stores[-1].at, body.axes[-1]) != 1:
        return 1
    inner = body.axes[-1]
    nodes = (*body.loads, *body.stores)
    accesses = [(node.tensor, node.at) for node in nodes if step_along(node.at, inner) == 1]
    widest, held = parameters.vector_bytes, parameters.max_lane_bytes
    return widest_lanes(segment, accesses, inner, alignments, widest, held)


# -- sizes ---------------------------------------------------------------------------------------


def _blocks(extents: Sequence[int], lanes: int, block: tuple[int, int, int]) -> int:
    """Thread blocks for the whole domain, numbered in one dimension."""
    outer = list(extents)
    blocks = 1
    if outer:
        blocks *= -(-outer.pop() // (block[0] * lanes))
    if outer:
        blocks *= -(-outer.pop() // block[1])
    return blocks * math.prod(outer)


def _stored_bytes(body: Body) -> int:
    return sum(store.tensor.dtype.itemsize for store in body.stores) * _elements(body)


def _elements(body: Body) -> int:
    return math.prod(axis.extent for axis in body.axes)


def _cost(body: Body) -> int:
    """Instructions for one point of the domain, roughly."""
    calls = [let.expression for let in body.lets if isinstance(let.expression, Call)]
    drawn = sum(load.drawn.cost for load in body.loads if load.drawn)
    return drawn + len(body.loads) + len(body.stores) + sum(TABLE[call.op].cost for call in calls)


def _index_dtype(segment: Segment, body: Body) -> DataType:
    """Int32 where every offset, every index and every rounded-up loop variable fits."""
    offsets = [memory.last_offset for memory in segment.memory.values()]
    parts = [part for index in body.indices() for part in affine_parts(index)]
    sizes = [abs(bound) for part in parts for bound in (part.constant, *part.bounds())]
    largest = max(*offsets, *sizes, _elements(body))
    return DataType.Int32 if largest < 2**31 - 2**16 else DataType.Int
