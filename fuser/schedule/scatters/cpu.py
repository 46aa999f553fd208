"""Scatters on a processor: no two threads touch one element, and points are added in their order.

    lists     every element of the result is made once, by the thread that has its row
    rows      a thread makes a row of the result, whose points no other row has
    points    threads have columns of their own, and walk all points; without columns, one does

A thread that makes a row sums its points in the first cache, and asks for what comes later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import ScatterForm
from fuser.schedule.code.axes import merge_axes, replace_axes
from fuser.schedule.code.in_place import scatter_refusal
from fuser.schedule.code.launch_cpu import launch_of
from fuser.schedule.code.row_body import Code, Sweep
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import Index, Variable
from fuser.schedule.rows.cpu.memory import chunks, consecutive, in_chunks
from fuser.schedule.rows.parts import PartByNumber, parts_by, parts_of
from fuser.schedule.scatters.elements import at_once, held_type, or_skipped, scatter_of
from fuser.schedule.scatters.lists import ListBody, trace_lists
from fuser.schedule.scatters.rows import ScatteredRows, trace_scattered_rows
from fuser.schedule.scatters.trace import PointBody, trace_points
from fuser.schedule.scatters.turns_cpu import placed_in_turn
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import ceil_div, point_count
from fuser.schedule.tree.loop_nest import Launch, LoopNest
from fuser.schedule.tree.loop_tree import Loop, Node, Region, every_node, nested
from fuser.schedule.tree.names import kernel_name
from fuser.schedule.tree.row_statements import KeepAt, Kept, RowArray
from fuser.schedule.tree.scatter_nodes import (
    IfBelow,
    IfListed,
    ListLoop,
    PointLists,
    PointOf,
    UnlistedRows,
    WhichPoints,
)
from fuser.schedule.tree.statements import CheckedIndex, Prefetch
from fuser.segmenter import Segment


def schedule_scatter_cpu(segment: Segment, parameters: CpuRowParameters) -> LoopNest:
    """The loop nest of a segment with a scatter."""
    _, op = scatter_of(segment)
    held = held_type(op, segment.stores)
    if op.form is ScatterForm.LISTS:
        return _lists(segment, trace_lists(segment, held), parameters)
    if op.form is ScatterForm.ROWS:
        return _rows(segment, trace_scattered_rows(segment, held), parameters)
    return _points(segment, trace_points(segment), parameters)


# -- points ----------------------------------------------------------------------------------------


def _points(segment: Segment, body: PointBody, parameters: CpuRowParameters) -> LoopNest:
    sweep = body.sweep
    inside: tuple[Node, ...] = (*map(_at_first, sweep.code), *sweep.stores)
    shared = point_count(body.outside) > 1
    block = parameters.columns_in_turn
    in_blocks = not shared and bool(sweep.axes) and sweep.axes[-1].extent > block
    if sweep.axes:
        *outer, inner = sweep.axes
        # One thread's own loop, else threads would meet for each point.
        binding = Binding.SIMD if shared or in_blocks else Binding.SERIAL
        inside = nested(outer, Binding.SERIAL, (Loop(inner, binding, inside),))
    if sweep.axes or not body.points:
        nodes = nested(body.points, Binding.SERIAL, (*body.code, *inside))
    else:
        *outer, inner = body.points
        code = or_skipped((*body.code, *sweep.code), body.store.tensor)
        loop = placed_in_turn(inner, [*map(_at_first, code)], body.store, parameters)
        nodes = nested(outer, Binding.SERIAL, (loop,))
    if shared:
        nodes = nested(body.outside, Binding.PARALLEL, nodes)
    elif in_blocks:
        nodes = (Loop(sweep.axes[-1], Binding.BLOCKS, nodes, block),)
    axes = (*body.outside, *body.points, *sweep.axes)
    work = point_count(axes) * sweep.cost
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


def _at_first(node: Code) -> Code:
    """An index that is 0 where it is out of range, and reported: of what is skipped then, nobody
    has to ask again, and where each column has its own, it would keep lanes from being vectors."""
    return replace(node, outside=0) if isinstance(node, CheckedIndex) else node


# -- rows ------------------------------------------------------------------------------------------


def _rows(segment: Segment, body: ScatteredRows, parameters: CpuRowParameters) -> LoopNest:
    kept = next(node for node in body.last.code if isinstance(node, Kept))
    outer = body.begun.axes[:-1]
    inside = (
        *body.of_row,
        RowArray(kept.name, kept.dtype, kept.axes),
        *nested(outer, Binding.SERIAL, _swept(body.begun, parameters)),
        *nested(body.added.axes[:-1], Binding.SERIAL, _point_by_point(body.added, parameters)),
        *nested(outer, Binding.SERIAL, _swept(body.last, parameters)),
    )
    axes = dict.fromkeys((*body.rows, *body.begun.axes, *body.added.axes))
    each = point_count(body.begun.axes) * (body.begun.cost + body.last.cost)
    each += point_count(body.added.axes) * body.added.cost
    return LoopNest(
        name=kernel_name("scatter", segment),
        axes=tuple(axes),
        prologue=body.prologue,
        body=(Region((), nested(body.rows, Binding.PARALLEL, inside), ()),),
        launch=launch_of(segment, point_count(body.rows) * each, parameters.processor),
        index_dtype=DataType.Int,
        mapping="cpu scatter, row by row",
        parameters=parameters,
        overwrite_refusal=scatter_refusal(segment),
    )


def _point_by_point(sweep: Sweep, parameters: CpuRowParameters) -> tuple[Node, ...]:
    """Loops over the innermost axis of points, in parts where they come from several tensors."""
    if not sweep.axes:
        return sweep.code
    loops: list[Loop] = []
    for part in parts_of(sweep, parameters.shortest_part):
        *code, placed = map(_at_first, part.sweep.code)
        assert isinstance(placed, KeepAt), "what a point adds is kept last"
        loops.append(placed_in_turn(sweep.axes[-1], code, placed, parameters, part.own_span))
    return tuple(loops)


# -- lists -----------------------------------------------------------------------------------------


def _lists(segment: Segment, body: ListBody, parameters: CpuRowParameters) -> LoopNest:
    statement, op = scatter_of(segment)
    name = str(statement.out)
    points = body.listed
    place = (*points.code, PointOf(name, points.number, points.row))
    lists = PointLists(
        name, points.rows, points.points, nested(points.axes, Binding.PARALLEL, place)
    )
    columns = _ListedRows(name, body, parameters).columns(joins=op.joins is not None)
    row = (*body.of_row, *nested(body.begun.axes[:-1], Binding.SERIAL, (columns,)))
    nodes = nested((*body.outside, *body.rows), Binding.PARALLEL, row)
    unlisted = [node.axis for node in every_node(nodes) if isinstance(node, UnlistedRows)]
    if unlisted:  # a thread's own loop may leave out rows
        (rows,) = body.rows
        nodes = (Loop(rows, Binding.BLOCKS, nested((rows,), Binding.SERIAL, row)),)
    axes = dict.fromkeys((*points.axes, *body.outside, *body.rows, *body.begun.axes, *unlisted))
    work = point_count((*body.outside, *body.rows, *body.begun.axes)) + math.prod(op.points)
    return LoopNest(
        name=kernel_name("scatter", segment),
        axes=tuple(axes),
        prologue=body.prologue,
        body=(lists, Region((), nodes, ())),
        launch=launch_of(segment, work * 3, parameters.processor),
        index_dtype=DataType.Int,
        mapping="cpu scatter, by lists of points",
        parameters=parameters,
        overwrite_refusal=scatter_refusal(segment),
    )


@dataclass(frozen=True, slots=True)
class _ListedRows:
    """What is done of rows that have the lists `name`."""

    name: str
    body: ListBody
    parameters: CpuRowParameters

    def columns(self, *, joins: bool) -> IfListed:
        """All columns of a row. An array has what several points come to, none that of one. Where
        points replace what was there, the last one does."""
        body, none = self.body, self.unlisted()
        if not joins:
            last = self.listed(WhichPoints.LAST, at_once(body.one, body.last))
            return IfListed(self.name, body.row, (last,), none)
        (kept,) = (node for node in body.last.code if isinstance(node, Kept))
        several = (
            RowArray(kept.name, kept.dtype, kept.axes),
            self.listed(WhichPoints.FIRST, body.one),
            self.listed(WhichPoints.OTHERS, body.added),
            *_swept(body.last, self.parameters),
        )
        one = self.listed(WhichPoints.FIRST, at_once(body.one, body.last))
        return IfListed(self.name, body.row, several, none, (one,))

    def unlisted(self) -> tuple[Node, ...]:
        """What is done of a row without points. Short rows whose elements follow each other in
        everything that is read and written are done together."""
        body, sweep = self.body, at_once(self.body.begun, self.body.last)
        one_by_one = _swept(sweep, self.parameters)
        counts = len(body.rows), len(body.begun.axes)
        if counts != (1, 1) or body.of_row or body.outside or in_chunks(sweep, self.parameters):
            return one_by_one
        merged, replaced = merge_axes((*body.rows, *body.begun.axes), sweep.indices())
        rows = body.rows[0].extent
        if len(merged) != 1 or rows == 1:
            return one_by_one
        (axis,) = merged
        together = replace_axes(sweep, replaced)
        loop = Loop(axis, Binding.SIMD, (*together.code, *together.stores))
        columns = axis.extent // rows
        return (UnlistedRows(self.name, body.rows[0], axis, columns, (loop,)),)

    def _by_point(self, parts: Sequence[PartByNumber]) -> tuple[Node, ...]:
        """What is done of a point, by its number."""
        first, *others = parts
        nodes = (*first.once, *_swept(first.sweep, self.parameters))
        if not others:
            return nodes
        return (IfBelow(self.body.point.name, first.end, nodes, self._by_point(others)),)

    def listed(self, which: WhichPoints, sweep: Sweep) -> ListLoop:
        """A sweep for points of a row, which may come from several tensors. They lie anywhere:
        those that come later are asked for."""
        point, inner, given = self.body.point, sweep.axes[-1], self.parameters
        lanes = 1 << min(given.asked_columns, inner.extent).bit_length() - 1
        later = Variable(f"{point.name}_later", point.extent)
        read = [load for load in consecutive(sweep) if load.at.coefficient(point)]
        if not read or which is WhichPoints.LAST or lanes == 1:
            parts = parts_by(point, self.body.of_point, sweep, given.most_numbered)
            return ListLoop(self.name, point.name, which, self._by_point(parts))
        asked: list[Prefetch] = []
        for load in read:
            terms = ((later if t == point else t, c) for t, c in load.at.terms)
            at = Index(load.at.constant, tuple(terms))
            asked.append(Prefetch(load.name, load.tensor, at, lanes, there=True))
        run = inner.extent * max(load.dtype.itemsize for load in read)
        swept = (*self.body.of_point, *_swept(replace(sweep, ahead=tuple(asked)), given))
        ahead = ceil_div(given.points_ahead_bytes, run)
        return ListLoop(self.name, point.name, which, swept, later.name, ahead)


def _swept(sweep: Sweep, parameters: CpuRowParameters) -> tuple[Loop, ...]:
    """The loops over the innermost axis: what is stored goes in chunks, if it is long."""
    inner = sweep.axes[-1]
    if sweep.stores and in_chunks(sweep, parameters):
        return chunks(sweep, parameters.processor.chunk)
    inside = (*sweep.ahead, *sweep.code, *sweep.stores)
    if sweep.ahead:
        return (Loop(inner, Binding.SWEEP, inside, sweep.ahead[0].lanes),)
    return (Loop(inner, Binding.SIMD, inside),)
