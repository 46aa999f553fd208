"""Scatters on a GPU: by lists of points, or in place, where memory itself joins, so that threads
may meet at one element.

    warps       a warp takes 32 points and some columns, a few neighbouring ones for each thread
    elements    a warp takes 32 elements, where there are few columns
    grid        every element for itself: columns with indices of their own, and overwriting

In the first two, a warp joins what goes to one place before, so that a place to which many points
go is changed once for up to 32 of them. Which of several elements stays where they are overwritten
is left to chance, as in torch.
"""

from __future__ import annotations

import dataclasses

from fuser.ir.nodes import ScatterForm
from fuser.schedule.code.in_place import scatter_refusal
from fuser.schedule.code.row_body import RowBody, Sweep, indices_of, names_in
from fuser.schedule.cuda_parameters import WARP, CudaRowParameters
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.indices.width import index_dtype
from fuser.schedule.rows.cuda.mapping import map_rows
from fuser.schedule.scatters.elements import scatter_of, starts_from
from fuser.schedule.scatters.lanes import lanes_of_warp, sweep_in_lanes
from fuser.schedule.scatters.lists_cuda import schedule_lists_cuda
from fuser.schedule.scatters.rows_cuda import schedule_scattered_rows_cuda
from fuser.schedule.scatters.trace import PointBody, trace_points
from fuser.schedule.tree.bindings import Binding, Team
from fuser.schedule.tree.buffers import Alignments, Buffers
from fuser.schedule.tree.counts import ceil_div, point_count
from fuser.schedule.tree.expressions import Literal
from fuser.schedule.tree.loop_nest import Launch, LoopNest
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.names import kernel_name
from fuser.schedule.tree.scatter_nodes import WarpElements, WarpPoints
from fuser.schedule.tree.statements import Store
from fuser.schedule.tree.vectors import step_along
from fuser.segmenter import Segment


def schedule_scatter_cuda(
    segment: Segment, alignments: Alignments, parameters: CudaRowParameters
) -> LoopNest:
    """The loop nest of a segment with a scatter."""
    _, op = scatter_of(segment)
    if op.form is ScatterForm.LISTS:
        return schedule_lists_cuda(segment, alignments, parameters)
    if op.form is ScatterForm.ROWS:
        return schedule_scattered_rows_cuda(segment, alignments, parameters)
    body = trace_points(segment)
    buffers = Buffers(segment.memory, alignments)
    columns = body.sweep.axes[-1].extent if body.sweep.axes else 1
    if body.store.joins and columns < parameters.shared_columns:
        return _elements(segment, body, parameters)
    if body.store.joins and body.shares_index:
        return _warps(segment, body, buffers, parameters)
    return _grid(segment, body, buffers, parameters)


# -- the grid --------------------------------------------------------------------------------------


def _grid(
    segment: Segment, body: PointBody, buffers: Buffers, parameters: CudaRowParameters
) -> LoopNest:
    if not body.shares_index:
        parameters = dataclasses.replace(parameters, max_lane_bytes=1)  # neighbours go anywhere
    axes = (*body.outside, *body.points, *body.sweep.axes) or (Axis((), 1),)
    sweep = Sweep(axes, (*body.code, *body.sweep.code), (), body.sweep.stores)
    rows = RowBody((), body.prologue, (sweep,), ())
    nest = map_rows(segment, rows, scatter_refusal(segment), buffers, parameters)
    return dataclasses.replace(nest, name=kernel_name("scatter", segment))


# -- elements --------------------------------------------------------------------------------------


def _elements(segment: Segment, body: PointBody, parameters: CudaRowParameters) -> LoopNest:
    axes = (*body.outside, *body.points, *body.sweep.axes)
    code = (*body.code, *body.sweep.code)
    warps = ceil_div(point_count(axes), WARP)
    node, words = WarpElements(axes, code, body.store), "cuda scatter, warps of 32 elements"
    return _nest(segment, body, axes, node, warps, words, parameters)


# -- warps -----------------------------------------------------------------------------------------


def _warps(
    segment: Segment, body: PointBody, buffers: Buffers, parameters: CudaRowParameters
) -> LoopNest:
    *others, inner = body.sweep.axes
    axes = (*others, *body.outside, *body.points)
    lanes = 1
    if step_along(body.store.at, inner) == 1:
        lanes = lanes_of_warp(buffers, [body.sweep], parameters)
    points = point_count(axes)
    chunks = ceil_div(inner.extent, WARP * lanes)
    warps = ceil_div(points, WARP) * chunks
    node = _warp_points(body, axes, inner, lanes)
    words = f"cuda scatter, warps of 32 points, {lanes} column(s) a thread"
    return _nest(segment, body, (*axes, inner), node, warps, words, parameters)


def _nest(
    segment: Segment,
    body: PointBody,
    axes: tuple[Axis, ...],
    node: Node,
    warps: int,
    words: str,
    parameters: CudaRowParameters,
) -> LoopNest:
    sweeps = Sweep((), body.code), body.sweep
    indices, each = indices_of(sweeps), parameters.scatter_warps
    return LoopNest(
        name=kernel_name("scatter", segment),
        axes=axes,
        prologue=body.prologue,
        body=(node,),
        launch=Launch((ceil_div(warps, each), 1, 1), (WARP, each, 1), WARP * each),
        index_dtype=index_dtype(segment, indices, warps * WARP),
        mapping=words,
        parameters=parameters,
        overwrite_refusal=scatter_refusal(segment),
        team=Team.WARP,
    )


def _warp_points(body: PointBody, axes: tuple[Axis, ...], inner: Axis, lanes: int) -> WarpPoints:
    store = body.store
    assert store.joins is not None
    along = Index(0, tuple(part for part in store.at.terms if part[0] == inner))
    nodes = sweep_in_lanes(body.sweep, lanes)
    source = next(node.source for node in reversed(nodes) if isinstance(node, Store))
    elsewhere = dataclasses.replace(store, at=Index())
    nowhere = dataclasses.replace(store, source=Literal(0, store.dtype))
    of_source = body.code_for(names_in((*body.sweep.code, elsewhere)))
    each = (node for node in nodes if not isinstance(node, Store))
    return WarpPoints(
        axes=axes,
        code=body.code_for(names_in((nowhere,))),
        place=store.at.without(inner),
        columns=Loop(inner, Binding.TEAM, (*of_source, *each), lanes, whole=True),
        store=dataclasses.replace(store, at=along, source=source, lanes=lanes),
        fill=starts_from(store.joins, store.dtype),
    )
