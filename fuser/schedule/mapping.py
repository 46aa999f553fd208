"""Body -> loop tree: how the axes map to a processor's threads or to a GPU's blocks and lanes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from fuser.ir.dtypes import DataType
from fuser.ir.pointwise import TABLE
from fuser.schedule.axes import arrange, map_indices
from fuser.schedule.body import Body, trace
from fuser.schedule.carried import Lane, carry
from fuser.schedule.cpu_loops import Row, axes_in_order, loops_around
from fuser.schedule.cuda_vectors import aligned_lanes, shared_by_lanes, vector_load
from fuser.schedule.heuristics import CpuParameters, CudaParameters, block_shape
from fuser.schedule.index import ZERO, Axis, Index, affine_parts, substitute
from fuser.schedule.loop_tree import (
    Binding,
    Call,
    Launch,
    Load,
    Loop,
    LoopNest,
    Node,
    Peel,
    Prefetch,
    Ref,
)
from fuser.schedule.names import kernel_name
from fuser.schedule.pieces import pieces
from fuser.schedule.vectors import (
    Alignments,
    lanes_to_store,
    step_along,
    unrounded,
    wanted_lanes,
)
from fuser.segmenter import Segment

_LINE_BYTES = 64
"""Bytes of a cache line."""

_AHEAD_BYTES = 8192
"""How far ahead rows with gaps between them are asked for."""


def schedule_cpu(segment: Segment, parameters: CpuParameters) -> LoopNest:
    """Outer axes over threads, the innermost over vector lanes; pieces where operands change."""
    parts = pieces(arrange(trace(segment)), parameters.pieces)
    past_cache = sum(map(_bytes_stored, parts)) >= parameters.stream_bytes
    if len(parts) > 1:
        parts = [_with_an_axis(number, part) for number, part in enumerate(parts)]
    rows = [Row(p.axes[:-1], _innermost(p, parameters, past_cache)) for p in parts if p.axes]
    work = sum(_elements(part) * _cost(part) for part in parts)
    axes = axes_in_order(rows)
    return LoopNest(
        name=kernel_name("pointwise", segment),
        axes=axes,
        prologue=parts[0].prologue,
        body=loops_around(rows) if rows else _scalar_nodes(parts[0]),
        launch=Launch(threaded=work >= parameters.serial_work),
        index_dtype=DataType.Int,
        parameters=f"cpu pointwise: {len(axes)} loop(s), {len(parts)} piece(s), {parameters}",
    )


def schedule_cuda(segment: Segment, alignments: Alignments, parameters: CudaParameters) -> LoopNest:
    """One thread for `lanes` neighbouring elements; blocks cover the two innermost axes."""
    body = arrange(trace(segment))
    lanes = _vector_lanes(segment, body, alignments, parameters)
    nodes = _lanes_of_thread(segment, body, lanes, alignments)
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


def _with_an_axis(number: int, part: Body) -> Body:
    """A piece with a loop even if it is one element, so that its names are its own."""
    return part if part.axes else dataclasses.replace(part, axes=(Axis((-1, number), 1),))


def _innermost(body: Body, parameters: CpuParameters, past_cache: bool) -> Loop:
    """The loop over the innermost axis: a copied row, chunks, or vector lanes. Chunks of fewer
    elements are worth it where none has an end that shares a line with another row."""
    inner = body.axes[-1]
    chunk = _chunk_length(body, parameters) if past_cache else 0
    peel = _chunk_start(body, chunk) if chunk else None
    if chunk and _is_row_copy(body, parameters):
        return Loop(inner, Binding.STREAM, _scalar_nodes(body))
    if chunk == parameters.chunk or (chunk and peel is None):
        return Loop(inner, Binding.CHUNKS, _chunk(body, chunk), chunk, peel=peel)
    return Loop(inner, Binding.SIMD, _scalar_nodes(body))


def _is_row_copy(body: Body, parameters: CpuParameters) -> bool:
    """Whether a body is a copy of long rows."""
    if len(body.axes) < 2 or body.lets or len(body.loads) != 1 or len(body.stores) != 1:
        return False
    (load,), (store,) = body.loads, body.stores
    row_bytes = body.axes[-1].extent * store.tensor.dtype.itemsize
    return (
        store.source == Ref(load.name, store.tensor.dtype)
        and step_along(load.at, body.axes[-1]) == 1
        and row_bytes >= parameters.stream_row_bytes
    )


def _chunk_length(body: Body, parameters: CpuParameters) -> int:
    """Elements that are computed in registers before they bypass the cache: whole vectors of
    every store, as many as a row has up to `chunk`; 0 where what is moved is not consecutive."""
    inner = body.axes[-1]
    least = _LINE_BYTES // min(store.tensor.dtype.itemsize for store in body.stores)
    length = parameters.chunk
    while length > inner.extent:
        length //= 2
    consecutive = all(step_along(store.at, inner) == 1 for store in body.stores) and all(
        step_along(load.at, inner) in (-1, 0, 1) for load in body.loads
    )
    return length if consecutive and length >= least else 0


def _chunk_start(body: Body, chunk: int) -> Peel | None:
    """Where chunks begin if not with the row: at whole lines of the first tensor stored."""
    store, inner = body.stores[0], body.axes[-1]
    start = substitute(store.at, {inner: ZERO})
    steps = (start.constant, *(step for _, step in start.terms))
    size = store.tensor.dtype.itemsize
    if all(step * size % _LINE_BYTES == 0 for step in steps):
        return None
    return Peel(store.tensor, start, chunk)


def _chunk(body: Body, count: int) -> tuple[Node, ...]:
    """`count` neighbouring elements: computed into registers, then stored at once."""
    inner = body.axes[-1]
    lane, shifted = _with_lanes(body, count)
    ahead = [_asked_ahead(n, body, count) for n in body.loads if step_along(n.at, inner) == 1]
    wide = [dataclasses.replace(s, source=unrounded(s, body.lets)) for s in body.stores]
    arrays, computed, stores = _store_lanes(dataclasses.replace(body, stores=tuple(wide)), count)
    within = (*shifted.loads, *shifted.lets, *computed)
    return (*ahead, *arrays, Loop(lane, Binding.SIMD, within), *stores)


def _asked_ahead(load: Load, body: Body, count: int) -> Prefetch:
    """What a chunk asks for: what comes soon in memory, or, where rows have gaps between them, the
    same of a later row: what is in the gaps would be read for nothing."""
    *outer, inner = body.axes
    row = load.at.coefficient(outer[-1]) if outer else 0
    if row in (0, inner.extent):
        return Prefetch(load.tensor, load.at, count)
    rows = -(-_AHEAD_BYTES // (inner.extent * load.tensor.dtype.itemsize))
    return Prefetch(load.tensor, load.at + Index(row * rows), count, there=True)


# -- one thread's work ---------------------------------------------------------------------------


def _scalar_nodes(body: Body) -> tuple[Node, ...]:
    return (*body.loads, *body.lets, *body.stores)


def _lanes_of_thread(
    segment: Segment, body: Body, lanes: int, alignments: Alignments
) -> tuple[Node, ...]:
    """Vector loads, the arithmetic over lanes, vector stores.

    What is the same for all lanes is loaded once; what is not consecutive is loaded lane by lane.
    """
    if lanes == 1:
        return _scalar_nodes(body)
    inner = body.axes[-1]
    lane, shifted = _with_lanes(body, lanes)
    before: list[Node] = []
    within: list[Lane] = []
    for load, moved in zip(body.loads, shifted.loads, strict=True):
        vector = vector_load(segment, load, inner, lanes, alignments)
        if vector is not None:
            before.append(vector)
        elif step_along(load.at, inner) == 0:
            before.append(load)
        else:
            within.append(moved)
    shared = shared_by_lanes(body.lets, inner, lanes)
    before += [let for let in body.lets if let.name in shared]
    within += [let for let in shifted.lets if let.name not in shared]
    pairs = zip(body.stores, shifted.stores, strict=True)
    within += [moved for store, moved in pairs if step_along(store.at, inner) != 1]
    divided, within = carry(within, lane)
    arrays, computed, stores = _store_lanes(body, lanes)
    inside = Loop(lane, Binding.LANES, (*within, *computed))
    return (*before, *divided, *arrays, inside, *stores)


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
    """The widest power of two for which every consecutive store is aligned; 1 if none is. Loads
    that are not aligned for it are made in pieces: that is more bytes on the way than one lane."""
    if not body.axes or step_along(body.stores[-1].at, body.axes[-1]) != 1:
        return 1
    inner = body.axes[-1]
    loads, stores = (
        [(node.tensor, node.at) for node in nodes if step_along(node.at, inner) == 1]
        for nodes in (body.loads, body.stores)
    )
    widest, held = parameters.vector_bytes, parameters.max_lane_bytes
    lanes = wanted_lanes([*loads, *stores], inner, widest, held)
    return min(aligned_lanes(segment, store, inner, lanes, alignments) for store in stores)


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


def _bytes_stored(body: Body) -> int:
    return sum(store.tensor.dtype.itemsize for store in body.stores) * _elements(body)


def _elements(body: Body) -> int:
    return math.prod(axis.extent for axis in body.axes)


def _cost(body: Body) -> int:
    """Instructions for one point of the domain, roughly."""
    calls = [let.expression for let in body.lets if isinstance(let.expression, Call)]
    return len(body.loads) + len(body.stores) + sum(TABLE[call.op].cost for call in calls)


def _index_dtype(segment: Segment, body: Body) -> DataType:
    """Int32 where every offset, every index and every rounded-up loop variable fits."""
    offsets = [memory.last_offset for memory in segment.memory.values()]
    parts = [part for index in body.indices() for part in affine_parts(index)]
    sizes = [abs(bound) for part in parts for bound in (part.constant, *part.bounds())]
    largest = max(*offsets, *sizes, _elements(body))
    return DataType.Int32 if largest < 2**31 - 2**16 else DataType.Int
