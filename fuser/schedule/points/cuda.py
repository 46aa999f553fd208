"""Body -> loop tree for CUDA: a thread for neighbouring elements, tiles where memory is turned."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from fuser.schedule.code.axes import arrange
from fuser.schedule.code.body import Body, rewrite_points, trace
from fuser.schedule.code.cuda_blocks import block_shape, grid_shape
from fuser.schedule.code.in_place import points_refusal, rows_refusal
from fuser.schedule.code.index_comparisons import points_in_32_bits
from fuser.schedule.code.sums_with_one import join_sums_with_one
from fuser.schedule.cuda_parameters import CudaParameters, CudaRowParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.indices.width import index_dtype
from fuser.schedule.points.carried import Lane, carry
from fuser.schedule.points.common import scalar_nodes, with_lanes
from fuser.schedule.points.interleave import together
from fuser.schedule.points.runs import Runs, are_neighbours, run_lanes, runs_of
from fuser.schedule.points.short_rows_cuda import short_rows
from fuser.schedule.points.tile_columns import with_columns
from fuser.schedule.points.tiling import (
    TileShape,
    Turned,
    column_nodes,
    cuda_shape,
    find_turned,
    loops_over_tiles,
    shared_bytes,
    tile_nodes,
    within_shared,
)
from fuser.schedule.points.vectors_cuda import shared_by_lanes, vector_load
from fuser.schedule.rows.cuda.mapping import map_rows
from fuser.schedule.rows.cuda.points import as_rows
from fuser.schedule.rows.facts import divide_by_inverses, use_facts
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.buffers import ACCESS_BYTES, Alignments, Buffers
from fuser.schedule.tree.counts import ceil_div, point_count
from fuser.schedule.tree.loop_nest import Launch, LoopNest
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.names import kernel_name
from fuser.schedule.tree.runs import load_run, store_run
from fuser.schedule.tree.vectors import (
    aligned_lanes,
    step_along,
    stores_of_lanes,
    wanted_lanes,
    widest_lanes,
)
from fuser.segmenter import Segment


def schedule_cuda(
    segment: Segment,
    alignments: Alignments,
    parameters: CudaParameters,
    row_parameters: CudaRowParameters,
) -> LoopNest:
    """One thread for `lanes` neighbouring elements; blocks cover the two innermost axes, or
    tiles where reads need them. Rows of points where more is loaded ahead by them, or vectors are
    wider: see `rows/cuda/points.py`."""
    buffers = Buffers(segment.memory, alignments)
    body = points_in_32_bits(arrange(trace(segment)))
    body = divide_by_inverses(rewrite_points(body, join_sums_with_one))
    turned = None if segment.overwritten else find_turned(body)
    if turned is not None:
        return _tiled_cuda(segment, body, turned, buffers, parameters)
    refusal = points_refusal(segment, body)
    points = _points(buffers, body, parameters)
    if not points.runs.loads and not points.runs.stores:
        rows = as_rows(buffers, body, points.lanes, row_parameters)
        if rows is not None and rows_refusal(segment, rows, by_team=True) is None:
            rows = use_facts(rows, by_inverse=True)
            nest = map_rows(segment, rows, None, buffers, row_parameters)
            return dataclasses.replace(nest, name=kernel_name("pointwise", segment))
    return _over_points(segment, points, "pointwise", refusal, buffers, parameters)


def schedule_short_rows_cuda(
    segment: Segment, alignments: Alignments, parameters: CudaParameters
) -> LoopNest | None:
    """Rows of a few elements as points, of which a thread takes as many as fill vectors; None if
    rows are not so short, or their memory is no runs of neighbours."""
    made = short_rows(segment, parameters)
    if made is None:
        return None
    body, refusal = made
    buffers = Buffers(segment.memory, alignments)
    runs = runs_of(buffers, body, parameters.together)
    lanes = run_lanes(buffers, body, runs, parameters)
    if lanes == 1 or not are_neighbours(body, runs):
        return None
    points = _Points(body, lanes, runs)
    return _over_points(segment, points, "rows", refusal, buffers, parameters)


@dataclass(frozen=True, slots=True)
class _Points:
    """A body of which a thread does `lanes` neighbouring points, and the runs that these move."""

    body: Body
    lanes: int
    runs: Runs = field(default_factory=Runs)


def _points(buffers: Buffers, body: Body, parameters: CudaParameters) -> _Points:
    """The points of a body; several elements of short innermost axes are one, if lanes of these
    would move less than a whole access."""
    lanes, most = _vector_lanes(buffers, body, parameters), parameters.together
    narrow = lanes * min(store.dtype.itemsize for store in body.stores)
    if narrow < ACCESS_BYTES and len(body.axes) > 1:
        joined = together(body, most)
        runs = runs_of(buffers, joined, most)
        wider = run_lanes(buffers, joined, runs, parameters) if runs.stores else 1
        if wider > 1:
            return _Points(joined, wider, runs)
    runs = runs_of(buffers, dataclasses.replace(body, stores=()), most)
    whole = lanes > 1 and all(axis.extent % lanes == 0 for axis in body.axes[-1:])
    return _Points(body, lanes, runs if whole else Runs())


def _over_points(
    segment: Segment,
    points: _Points,
    scheduler: str,
    refusal: str | None,
    buffers: Buffers,
    parameters: CudaParameters,
) -> LoopNest:
    """Blocks over the two innermost axes, a thread for neighbouring points."""
    body, lanes = points.body, points.lanes
    extents = [axis.extent for axis in body.axes]
    block = block_shape(extents, lanes, parameters)
    grid, numbered = grid_shape(_blocks(extents, lanes, block))
    threads = parameters.threads * (1 if len(extents) <= 1 else 2)
    inside = _lanes_of_thread(buffers, body, lanes, points.runs)
    return LoopNest(
        name=kernel_name(scheduler, segment),
        axes=body.axes,
        prologue=body.prologue,
        body=_over_threads(body.axes, inside, lanes),
        launch=Launch(grid, block, threads, numbered=numbered),
        index_dtype=index_dtype(segment, body.indices(), point_count(body.axes)),
        mapping=f"cuda pointwise, {lanes} lane(s), block {block[0]} x {block[1]}",
        parameters=parameters,
        overwrite_refusal=refusal,
    )


def _tiled_cuda(
    segment: Segment,
    body: Body,
    turned: Turned,
    buffers: Buffers,
    parameters: CudaParameters,
) -> LoopNest:
    """A block for each tile, through shared memory."""
    turned, shape = _within_block(turned, parameters)
    along = turned.along
    moved = {
        n: widest_lanes(buffers, [(n.tensor, n.at)], along, ACCESS_BYTES)
        for n in (*turned.loads, *turned.stores)
    }
    lanes = _vector_lanes(buffers, turned.rest, parameters)
    columns = _columns(buffers, turned, min(moved.values())) if turned.columns else ()
    nodes = tile_nodes(
        turned,
        _lanes_of_thread(buffers, turned.work(lanes), lanes, Runs()),
        lanes,
        moved,
        columns=columns,
    )
    threads = min(shape.lines * shape.columns // lanes, parameters.tile_threads)
    tiles = ceil_div(turned.across.extent, shape.columns), ceil_div(along.extent, shape.lines)
    grid, numbered = grid_shape((*(axis.extent for axis in turned.outer), *tiles))
    described = f"{lanes} lane(s), tiles of {shape.lines} x {shape.columns}"
    return LoopNest(
        name=kernel_name("pointwise", segment),
        axes=body.axes,
        prologue=body.prologue,
        body=loops_over_tiles(turned, shape, nodes, Binding.BLOCK),
        launch=Launch(grid, (threads, 1, 1), threads, numbered=numbered),
        index_dtype=index_dtype(segment, body.indices(), point_count(body.axes)),
        mapping=f"cuda pointwise, {described}",
        parameters=parameters,
        overwrite_refusal=points_refusal(segment, body),
    )


def _within_block(turned: Turned, parameters: CudaParameters) -> tuple[Turned, TileShape]:
    """What a block turns in its shared memory, in tiles of which shape."""
    fewer = with_columns(turned)
    shape = cuda_shape(fewer, parameters)
    if shared_bytes(fewer, shape) <= parameters.tile_bytes:
        return fewer, shape
    shape = cuda_shape(turned, parameters)
    return within_shared(turned, shape, parameters), shape


def _columns(buffers: Buffers, turned: Turned, lanes: int) -> tuple[Node, ...]:
    """The columns of a tile, `lanes` neighbours of one a thread."""
    work = turned.column_work(lanes)
    return column_nodes(turned, _lanes_of_thread(buffers, work, lanes, Runs()), lanes)


def _over_threads(axes: Sequence[Axis], inside: tuple[Node, ...], lanes: int) -> tuple[Node, ...]:
    """Loops around what a thread does of its lanes."""
    bindings = (Binding.THREAD_X, Binding.THREAD_Y)
    for depth, axis in enumerate(reversed(axes)):
        binding = bindings[depth] if depth < 2 else Binding.BLOCK
        step = lanes if depth == 0 else 1
        whole = step > 1 and axis.extent % step == 0
        inside = (Loop(axis, binding, inside, step, whole=whole),)
    return inside


def _lanes_of_thread(buffers: Buffers, body: Body, lanes: int, runs: Runs) -> tuple[Node, ...]:
    """Vector loads, the arithmetic over lanes, vector stores.

    What is the same for all lanes is loaded once; what is not consecutive is loaded lane by lane.
    """
    if lanes == 1:
        return scalar_nodes(body)
    inner = body.axes[-1]
    lane, shifted = with_lanes(body, lanes)
    before: list[Node] = [load_run(buffers, r, inner, lanes) for r in runs.loads]
    within: list[Lane] = []
    in_runs = {access for run in (*runs.loads, *runs.stores) for access in run.accesses}
    for load, moved in zip(body.loads, shifted.loads, strict=True):
        if load in in_runs:
            continue
        vector = vector_load(buffers, load, inner, lanes)
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
    alone = [(store, moved) for store, moved in pairs if store not in in_runs]
    within += [moved for store, moved in alone if step_along(store.at, inner) != 1]
    divided, within = carry(within, lane)
    at_once = [store for store, _ in alone if step_along(store.at, inner) == 1]
    at_once += [store for run in runs.stores for store in run.accesses]
    arrays, computed, whole = stores_of_lanes(at_once, lanes)
    array_of = dict(zip(at_once, arrays, strict=True))
    pairs = zip(at_once, whole, strict=True)
    stores: list[Node] = [vector for store, vector in pairs if store not in in_runs]
    for run in runs.stores:
        own = [array_of[store] for store in run.accesses]
        stores.append(store_run(buffers, run, own, inner))
    inside = Loop(lane, Binding.LANES, (*within, *computed))
    return (*before, *divided, *arrays, inside, *stores)


def _vector_lanes(buffers: Buffers, body: Body, parameters: CudaParameters) -> int:
    """The widest power of two for which every consecutive store is aligned; 1 if none is. Loads
    that are not aligned for it are made in pieces: that is more bytes on the way than one lane."""
    if not body.axes or step_along(body.stores[-1].at, body.axes[-1]) != 1:
        return 1
    inner = body.axes[-1]
    loads, stores = (
        [(node.tensor, node.at) for node in nodes if step_along(node.at, inner) == 1]
        for nodes in (body.loads, body.stores)
    )
    lanes = wanted_lanes([*loads, *stores], inner, parameters.max_lane_bytes)
    return min(aligned_lanes(buffers, store, inner, lanes) for store in stores)


def _blocks(extents: Sequence[int], lanes: int, block: tuple[int, int, int]) -> list[int]:
    """Thread blocks along each axis."""
    sizes = (block[0] * lanes, block[1])
    along = [
        ceil_div(extent, sizes[depth]) if depth < 2 else extent
        for depth, extent in enumerate(reversed(extents))
    ]
    return along[::-1]
