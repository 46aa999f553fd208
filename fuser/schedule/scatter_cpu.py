"""Scatters on a processor: no two threads touch one element, and points are added in their order.

    lists     every element of the result is made once, by the thread that has its row
    points    threads have columns of their own, and walk all points; without columns, one does

A thread that makes a row sums its points in the first cache, and asks for what comes later.
"""

from __future__ import annotations

import math

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import ScatterForm
from fuser.schedule.bindings import Binding
from fuser.schedule.counts import ceil_div, point_count
from fuser.schedule.cpu_parameters import CpuRowParameters
from fuser.schedule.in_place import scatter_refusal
from fuser.schedule.index import Axis, Index, Variable
from fuser.schedule.loop_nest import Launch, LoopNest
from fuser.schedule.loop_tree import (
    IfListed,
    ListLoop,
    Loop,
    Node,
    PointLists,
    PointOf,
    Region,
    nested,
)
from fuser.schedule.names import kernel_name
from fuser.schedule.past_cache import goes_past_cache
from fuser.schedule.row_body import Sweep
from fuser.schedule.row_memory import chunks, consecutive, cost, in_chunks
from fuser.schedule.row_statements import Kept, RowArray
from fuser.schedule.scatter_lists import ListBody, trace_lists, without_points
from fuser.schedule.scatter_trace import PointBody, scatter_of, trace_points
from fuser.schedule.statements import Prefetch
from fuser.segmenter import Segment

BLOCK = 256
"""Columns that a thread takes at a time, and walks all points for."""

AHEAD_BYTES = 1 << 13
"""How far ahead the elements of points are asked for, at least one point."""

ASKED = 64
"""The most columns of a later point that are asked for at once. All of a row at once would fill the
queue to memory, and what is needed now would wait behind it."""


def schedule_scatter_cpu(segment: Segment, parameters: CpuRowParameters) -> LoopNest:
    """The loop nest of a segment with a scatter."""
    _, op = scatter_of(segment)
    if op.form is ScatterForm.LISTS:
        return _lists(segment, trace_lists(segment), parameters)
    return _points(segment, trace_points(segment), parameters)


# -- points ----------------------------------------------------------------------------------------


def _points(segment: Segment, body: PointBody, parameters: CpuRowParameters) -> LoopNest:
    sweep = body.sweep
    inside: tuple[Node, ...] = (*sweep.code, *sweep.stores)
    shared = point_count(body.outside) > 1
    in_blocks = not shared and bool(sweep.axes) and sweep.axes[-1].extent > BLOCK
    if sweep.axes:
        *outer, inner = sweep.axes
        # One thread's own loop, else threads would meet for each point.
        binding = Binding.SIMD if shared or in_blocks else Binding.SERIAL
        inside = nested(outer, Binding.SERIAL, (Loop(inner, binding, inside),))
    nodes = nested(body.points, Binding.SERIAL, (*body.code, *inside))
    if shared:
        nodes = nested(body.outside, Binding.PARALLEL, nodes)
    elif in_blocks:
        nodes = (Loop(sweep.axes[-1], Binding.BLOCKS, nodes, BLOCK),)
    axes = (*body.outside, *body.points, *sweep.axes)
    work = point_count(axes) * cost(sweep)
    return LoopNest(
        name=kernel_name("scatter", segment),
        axes=axes,
        prologue=body.prologue,
        body=(Region((), nodes, ()),),
        launch=Launch(threaded=(shared or in_blocks) and work >= parameters.processor.serial_work),
        index_dtype=DataType.Int,
        mapping="cpu scatter, point by point",
        parameters=parameters,
        overwrite_refusal=scatter_refusal(segment),
    )


# -- lists -----------------------------------------------------------------------------------------


def _lists(segment: Segment, body: ListBody, parameters: CpuRowParameters) -> LoopNest:
    statement, op = scatter_of(segment)
    name = str(statement.out)
    listed = body.listed
    place = (*listed.code, PointOf(name, listed.number, listed.row))
    lists = PointLists(
        name, listed.rows, listed.points, nested(listed.axes, Binding.PARALLEL, place)
    )
    *outer, inner = body.first.axes
    array = next(node for node in body.last.code if isinstance(node, Kept))

    def finished(sweep: Sweep) -> tuple[Loop, ...]:
        in_lanes = in_chunks(sweep, parameters)
        return chunks(sweep, parameters.processor.chunk) if in_lanes else (_swept(sweep, inner),)

    summed: tuple[Node, ...] = (
        RowArray(array.name, array.dtype, inner),
        _swept(body.first, inner),
        _each_listed(name, body, last=not op.adds),
        *finished(body.last),
    )
    columns = IfListed(name, body.row, summed, finished(without_points(body)))
    row = (*body.of_row, *nested(outer, Binding.SERIAL, (columns,)))
    nodes = nested((*body.outside, *body.rows), Binding.PARALLEL, row)
    axes = dict.fromkeys((*listed.axes, *body.outside, *body.rows, *body.first.axes))
    work = point_count((*body.outside, *body.rows, *body.first.axes)) + math.prod(op.points)
    return LoopNest(
        name=kernel_name("scatter", segment),
        axes=tuple(axes),
        prologue=body.prologue,
        body=(lists, Region((), nodes, ())),
        launch=Launch(
            threaded=work * 3 >= parameters.processor.serial_work,
            past_cache=goes_past_cache(segment, parameters.processor.stream_bytes),
        ),
        index_dtype=DataType.Int,
        mapping="cpu scatter, by lists of points",
        parameters=parameters,
        overwrite_refusal=scatter_refusal(segment),
    )


def _each_listed(name: str, body: ListBody, *, last: bool) -> ListLoop:
    """The points of a row. They lie anywhere, so those that come later are asked for."""
    inner = body.added.axes[-1]
    lanes = 1 << min(ASKED, inner.extent).bit_length() - 1
    later = Variable(f"{body.point.name}_later", body.point.extent)
    read = [load for load in consecutive(body.added) if load.at.coefficient(body.point)]
    if not read or last or lanes == 1:
        each = (*body.of_point, _swept(body.added, inner))
        return ListLoop(name, body.point.name, each, last)
    asked: list[Node] = []
    for load in read:
        terms = ((later if t == body.point else t, c) for t, c in load.at.terms)
        at = Index(load.at.constant, tuple(terms))
        asked.append(Prefetch(load.name, load.tensor, at, lanes, there=True))
    run = inner.extent * max(load.tensor.dtype.itemsize for load in read)
    sweep = Loop(inner, Binding.SWEEP, (*asked, *body.added.code), lanes)
    ahead = ceil_div(AHEAD_BYTES, run)
    return ListLoop(name, body.point.name, (*body.of_point, sweep), last, later.name, ahead)


def _swept(sweep: Sweep, inner: Axis) -> Loop:
    return Loop(inner, Binding.SIMD, (*sweep.code, *sweep.stores))
