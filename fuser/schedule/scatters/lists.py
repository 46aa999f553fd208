"""Scatters that make their result row by row: what is done before, for and after its points.

    T4 [V, D] = index_add(T1 [V, D], T2 [T], T3 [T, D], dim=0)

    for each row i0 < V: for i1 < D: T4_sum = T1[i0, i1]
    for each point of the row: for i1 < D: T4_sum += T3[T4_point, i1]
    for i1 < D: T4[i0, i1] = T4_sum, and what else is made of it

All of that is done for one row after the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.ir.shapes import row_major_strides
from fuser.schedule.code.row_body import Code, Sweep
from fuser.schedule.indices.coordinates import Coordinates
from fuser.schedule.indices.index import ZERO, Axes, Index, Variable, index_of, linear, unravel
from fuser.schedule.indices.rewrites import substitute
from fuser.schedule.scatters.elements import (
    ElementCode,
    ScatterTracer,
    atoms_of,
    axes_of,
    merged_over,
)
from fuser.schedule.tree.expressions import Call, Expression, Ref
from fuser.schedule.tree.row_statements import Keep, Kept
from fuser.schedule.tree.statements import Let
from fuser.segmenter import Segment


@dataclass(frozen=True, slots=True)
class Listed:
    """`code` makes `row`, that of point `number`; there are so many `points` and `rows`."""

    axes: Axes
    code: tuple[Code, ...]
    row: Index
    number: Index
    points: int
    rows: int


@dataclass(frozen=True, slots=True)
class ListBody:
    """What is done for every row of the result.

    `outside` and `rows` number rows, `row` among those with lists of their own. `begun`, `given`,
    `one`, `added` and `last` sweep the columns of a row: before its points, for what each of them
    is alone, with one of them, for each other, and after. `of_row` and `of_point` are done once for
    all columns; `point` is the number of a point.
    """

    prologue: tuple[Let, ...]
    listed: Listed
    outside: Axes
    rows: Axes
    row: Index
    of_row: tuple[Code, ...]
    begun: Sweep
    point: Variable
    of_point: tuple[Code, ...]
    given: Sweep
    one: Sweep
    added: Sweep
    last: Sweep


def trace_lists(segment: Segment, held: DataType) -> ListBody:
    """The body of a scatter that makes its result row by row, each `held` as a type until all of
    its points are there."""
    return _ListTracer(segment).run(held)


class _ListTracer(ScatterTracer):
    def run(self, dtype: DataType) -> ListBody:
        op, at = self._op, self._natural(self._out)
        listed = self._listed()
        outside, columns = self._columns(at)
        self._kept = atoms_of(at) - {axis.path[0] for axis in columns}
        name = f"{self._out}_sum"
        held, kept = Ref(name, dtype), Kept(name, dtype, columns[-1:])
        given = self.element(op.arg, at, dtype)
        point, added = self._at_point(at, dtype)
        of_result, last = self.results(kept, columns)

        def keeping(value: Expression, *code: Code) -> Sweep:
            """A sweep over the columns that keeps a value of each."""
            # The data and a point may need the same: the first is made of what is before it.
            each_once: dict[str, Code] = {}
            for node in code:
                each_once.setdefault(node.name, node)
            keep = Keep(name, dtype, columns[-1:], source=value)
            return Sweep(columns, (*each_once.values(), keep))

        alone = one = others = keeping(added.made, *added.each)
        if op.joins is not None:
            with_given, with_held = (
                Call(op.joins, (value, added.made), dtype) for value in (given.made, held)
            )
            one = keeping(with_given, *given.each, *added.each)
            others = keeping(with_held, kept, *added.each)
        body = ListBody(
            prologue=tuple(self._prologue),
            listed=listed,
            outside=outside,
            rows=axes_of(at[op.dim]),
            row=at[op.dim],
            of_row=(*given.once, *of_result),
            begun=keeping(given.made, *given.each),
            point=point,
            of_point=added.once,
            given=alone,
            one=one,
            added=others,
            last=last,
        )
        return _with_merged_lists(body)

    def _columns(self, at: Coordinates) -> tuple[Axes, Axes]:
        """The axes that have their rows outside of these, and those along which a row is swept:
        columns closer to each other in memory than rows are, or all, if none is."""
        stored = self._segment.stores[-1]
        address = self._address(stored, self._natural(stored))
        steps = [min(map(address.coefficient, axes_of(index)), default=0) for index in at]
        row = self._op.dim
        columns = [dim for dim in range(len(at)) if dim != row and axes_of(at[dim])]
        inside = [dim for dim in columns if steps[dim] < steps[row]] or columns
        outside = (axis for dim in columns if dim not in inside for axis in axes_of(at[dim]))
        swept = (axis for dim in inside for axis in axes_of(at[dim]))
        by_step = sorted(swept, key=lambda axis: -abs(address.coefficient(axis)))
        return tuple(outside), tuple(by_step)

    def _at_point(self, at: Coordinates, dtype: DataType) -> tuple[Variable, ElementCode]:
        """What point `point` of the list adds to the element `at`. Nothing of that is known once
        all points are done."""
        op, known = self._op, dict(self._known)
        sizes = tuple(op.points[dim] for dim in op.point_dims)
        point = Variable(f"{self._out}_point", math.prod(sizes))
        self._known[point, ()] = Ref(point.name, DataType.Int)
        number = index_of(point) if point.extent > 1 else ZERO
        source = self.source((*at[: op.dim], *unravel(number, sizes), *at[op.dim + 1 :]))
        added = self.element(*source, dtype)
        self._known = known
        return point, added

    def _listed(self) -> Listed:
        """The points, and the row of each."""
        op = self._op
        sizes = tuple(op.points[dim] for dim in op.point_dims)
        at = self._natural(op.index)
        if not op.mode.startswith("index"):  # the same all along the other dimensions
            at = tuple(place if dim == op.dim else ZERO for dim, place in enumerate(at))
        points = at if op.mode.startswith("index") else (at[op.dim],)
        self._kept = atoms_of(points)
        row = self.row_named(at)
        number = linear(points, row_major_strides(sizes)) if points else ZERO
        code = tuple(self._row_code)
        self._known = {
            key: known
            for key, known in self._known.items()
            if isinstance(key[0], Value) and not key[0].is_tensor
        }
        self.restart()
        axes = tuple(axis for part in points for axis in axes_of(part))
        return Listed(axes, code, row, number, math.prod(sizes), self._out.shape[op.dim])


def _with_merged_lists(body: ListBody) -> ListBody:
    """`body` with neighbouring axes merged that every access walks as one."""
    groups = body.outside, body.rows, body.begun.axes
    once = (Sweep((), code) for code in (body.of_row, body.of_point))
    sweeps = *once, body.begun, body.given, body.one, body.added, body.last
    (outside, rows, _), moved, replaced = merged_over(groups, sweeps, [body.row])
    of_row, of_point, begun, given, one, added, last = moved
    return replace(
        body,
        listed=_with_merged_axes(body.listed),
        outside=outside,
        rows=rows,
        row=substitute(body.row, replaced),
        of_row=of_row.code,
        of_point=of_point.code,
        begun=begun,
        given=given,
        one=one,
        added=added,
        last=last,
    )


def _with_merged_axes(listed: Listed) -> Listed:
    given = (Sweep((), listed.code),)
    (axes,), (once,), replaced = merged_over((listed.axes,), given, [listed.number])
    return replace(listed, axes=axes, code=once.code, number=substitute(listed.number, replaced))
