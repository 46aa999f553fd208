"""The innermost loop of points on a processor, chunk by chunk: computed in registers, then stored.

    ask for T0[i0 + 1, i1]             of a later row, if rows have gaps between them
    T0_lanes = load T0[i0, i1]         64 of them
    for each lane: T1_lanes = exp(T0_lanes)
    store T1[i0, i1] = T1_lanes

In short rows, vectors of a few lanes are done so too, whose elements are stored one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.ir.dtypes import DataType
from fuser.schedule.code.axes import later
from fuser.schedule.code.body import Body
from fuser.schedule.code.lane_calls import gains_by_chunks
from fuser.schedule.code.lane_loads import converts_vectors, done_in_vectors, lane_loads
from fuser.schedule.code.lane_stores import stored_at_once
from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.indices.index import ZERO, Axis, Index
from fuser.schedule.indices.rewrites import substitute
from fuser.schedule.points.common import scalar_nodes, with_lanes
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.expressions import Ref
from fuser.schedule.tree.loop_tree import Loop, Node, Peel
from fuser.schedule.tree.statements import Load, Prefetch, reads_in
from fuser.schedule.tree.vectors import step_along

_LINE_BYTES = 64
"""Bytes of a cache line."""


def in_chunks(body: Body, parameters: CpuParameters, past_cache: bool) -> Loop | None:
    """The loop in chunks, or, of a copied row, as a whole; None where neither gains anything.

    Chunks of fewer elements than usual are worth it where none has an end that shares a line with
    another row.
    """
    gains = gains_by_chunks(body.code) or converts_vectors(body.lets)
    if not past_cache and not gains:
        return None
    count = chunk_length(body, parameters)
    if not count:
        return None
    inner = body.axes[-1]
    peel = _chunk_start(body, count, parameters) if past_cache else None
    if _is_row_copy(body, parameters):
        return Loop(inner, Binding.STREAM, scalar_nodes(body))
    if peel is None:
        count = _repeating_little(count, body, parameters)
    elif count < parameters.processor.chunk:
        return None
    asked, done = chunk_of(body, count, parameters)
    return Loop(inner, Binding.CHUNKS, (*asked, *done), count, peel=peel)


def in_vectors(body: Body, parameters: CpuParameters) -> Loop | None:
    """The loop in vectors of a few lanes, each stored as it is computed; None unless rows are so
    short that a compiler would do what is left of them one by one."""
    inner, processor = body.axes[-1], parameters.processor
    if len(body.axes) == 1 or not done_in_vectors(body, processor):
        return None
    count = processor.vector
    lane, shifted = with_lanes(body, count)
    at_once, _ = lane_loads(body, count)
    names = {load.name for load in at_once}
    others = [load for load in shifted.loads if load.name not in names]
    shared = [load for load in others if _is_shared(load, inner)]
    own = (load for load in others if load not in shared)
    each = Loop(lane, Binding.SIMD, (*own, *shifted.lets, *shifted.stores))
    return Loop(inner, Binding.CHUNKS, (*at_once, *shared, each), count)


def _is_shared(load: Load, inner: Axis) -> bool:
    """Whether all lanes read the same. A compiler that cannot tell that no lane stores there would
    read it for each: a byte, as truth values are, for as many lanes as a vector has bytes, and with
    fewer lanes than that it makes vectors of two."""
    return load.drawn is None and load.at.is_of_axes and not load.at.coefficient(inner)


def chunk_length(body: Body, parameters: CpuParameters) -> int:
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


def chunk_of(
    body: Body, count: int, parameters: CpuParameters
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """`count` neighbouring elements: what asks for memory of theirs, and what computes them into
    registers, then stores them at once."""
    inner = body.axes[-1]
    lane, shifted = with_lanes(body, count)
    consecutive = [load for load in reads_in(body.loads) if step_along(load.at, inner) == 1]
    asked = tuple(
        _asked_ahead(load, body, count, parameters.ahead_bytes)
        for load in consecutive
        if not _stays_in_cache(load, body.axes, parameters)
    )

    lanes = Loop(lane, Binding.SIMD, ())
    done = stored_at_once(body, count, lanes, each=shifted.code)
    return asked, tuple(done)


def are_whole_vectors(body: Body, count: int) -> bool:
    """Whether so many neighbours are whole vectors of what a body stores, and of float32."""
    sizes = (store.dtype.itemsize for store in body.stores)
    return count % (_LINE_BYTES // min((DataType.Float.itemsize, *sizes))) == 0


def _is_row_copy(body: Body, parameters: CpuParameters) -> bool:
    """Whether a body is a copy of long rows."""
    if len(body.axes) < 2 or body.lets or len(body.loads) != 1 or len(body.stores) != 1:
        return False
    (load,), (store,) = body.loads, body.stores
    row_bytes = body.axes[-1].extent * store.dtype.itemsize
    return (
        load.drawn is None
        and store.source == Ref(load.name, store.dtype)
        and step_along(load.at, body.axes[-1]) == 1
        and row_bytes >= parameters.stream_row_bytes
    )


def _chunk_start(body: Body, chunk: int, parameters: CpuParameters) -> Peel | None:
    """Where chunks begin if not with the row: at whole lines of the first tensor stored. Its ends
    share lines with others, and what is stored after them waits for these lines, if they are not
    asked for: the gradient of a relative shift of bfloat16 takes 0.7 of the time."""
    store = body.stores[0]
    *outer, inner = body.axes
    start = substitute(store.at, {inner: ZERO})
    if start.is_multiple_of(_LINE_BYTES // store.dtype.itemsize):
        return None
    row_bytes = inner.extent * store.dtype.itemsize
    asked = later(outer, parameters.ahead_bytes / row_bytes) if outer else None
    return Peel(store.tensor, start, chunk, asked)


def _repeating_little(chunk: int, body: Body, parameters: CpuParameters) -> int:
    """The length of chunks, or one so much shorter that the last of a row repeats little of the one
    before. A lone row repeats it once, so other lengths need no other text."""
    if len(body.axes) == 1:
        return chunk
    extent = body.axes[-1].extent
    shortest = max(_line_elements(body), parameters.processor.vector)
    while chunk > shortest and parameters.least_chunks * (-extent % chunk) > extent:
        chunk //= 2
    return chunk


def _line_elements(body: Body) -> int:
    """Elements of a line of the cache, of the narrowest tensor that is stored."""
    return _LINE_BYTES // min(store.dtype.itemsize for store in body.stores)


def _stays_in_cache(load: Load, axes: Sequence[Axis], parameters: CpuParameters) -> bool:
    """Whether a tensor is read over and over, and so small that it is there by itself."""
    if not load.at.is_of_axes:
        return False
    walked = [axis for axis in axes if load.at.coefficient(axis)]
    again = point_count(axes) > point_count(walked)
    return again and point_count(walked) * load.dtype.itemsize <= parameters.held_bytes


def _asked_ahead(load: Load, body: Body, count: int, ahead_bytes: int) -> Prefetch:
    """What a chunk asks for: what comes soon in memory, or, where rows have gaps between them, the
    same of a later row, so far ahead: what is in the gaps would be read for nothing."""
    *outer, inner = body.axes
    row = load.at.coefficient(outer[-1]) if outer else 0
    if row in (0, inner.extent):
        return Prefetch(load.name, load.tensor, load.at, count)
    axis, rows = later(outer, ahead_bytes / (inner.extent * load.dtype.itemsize))
    further = Index(load.at.coefficient(axis) * rows)
    return Prefetch(load.name, load.tensor, load.at + further, count, there=True)
