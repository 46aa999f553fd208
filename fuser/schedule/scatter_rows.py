"""Scatters that make their result row by row, each row from points of its own.

    T4 [R, V] = scatter_add(T1 [R, V], T2 [R, P], T3 [R, P], dim=1)

    for each row i0 < R:
      for i1 < V: T4_sum[i1] = T1[i0, i1]
      for i2 < P: T4_index = T2[i0, i2]; T4_sum[T4_index] += T3[i0, i2]
      for i1 < V: T4[i0, i1] = T4_sum[i1], and what else is made of it

One thread does all of a row, its points in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fuser.schedule.axes import merge_axes
from fuser.schedule.emit import convert
from fuser.schedule.expressions import Ref
from fuser.schedule.index import ZERO, Index
from fuser.schedule.row_axes import replace_axes
from fuser.schedule.row_body import Code, Sweep
from fuser.schedule.row_statements import Keep, KeepAt, Kept
from fuser.schedule.scatter_elements import (
    Axes,
    ScatterTracer,
    atoms_of,
    axes_of,
    held_type,
    moved,
)
from fuser.schedule.statements import Let
from fuser.segmenter import Segment


@dataclass(frozen=True, slots=True)
class ScatteredRows:
    """What is done for each of `rows`: `of_row` once, `begun` and `last` for every element of it,
    before its points and after, and `added` for every point, which is then `placed`."""

    prologue: tuple[Let, ...]
    rows: Axes
    of_row: tuple[Code, ...]
    begun: Sweep
    added: Sweep
    placed: KeepAt
    last: Sweep


def trace_scattered_rows(segment: Segment) -> ScatteredRows:
    """The body of a scatter whose rows have points of their own."""
    return _RowTracer(segment).run()


class _RowTracer(ScatterTracer):
    def run(self) -> ScatteredRows:
        op, out = self._op, self._out
        at, dtype = self._natural(out), held_type(self._op)
        self._kept = atoms_of(at[: op.dim])
        axes = axes_of(at[op.dim])
        kept = Kept(f"{out}_sum", dtype, axes[-1], outer=axes[:-1])
        self._make((op.arg, at))
        first = convert(self.get(op.arg, at), dtype)
        of_row, begin = self._row_code, self._sweep_code
        begun = Keep(kept.name, dtype, axes[-1], source=first, outer=axes[:-1])

        self.restart()
        place = self._natural(op.index)  # of a point, where all rows share an index, or one number
        if not op.mode.startswith("index"):
            place = (*at[: op.dim], place[op.dim])
        point = place[-1] if place else ZERO
        row = self.row_named(place)
        source = self.source((*at[: op.dim], point))
        self._make(source)
        added = Let(f"{out}_added", dtype, convert(self.get(*source), dtype))
        placed = KeepAt(kept.name, dtype, row, Ref(added.name, dtype), "add" if op.adds else None)
        of_points, code = self._row_code, (*self._sweep_code, added)

        self.restart()
        of_result, last = self.results(kept, axes)
        body = ScatteredRows(
            prologue=tuple(self._prologue),
            rows=tuple(axis for index in at[: op.dim] for axis in axes_of(index)),
            of_row=(*of_row, *of_points, *of_result),
            begun=Sweep(axes, (*begin, begun), (), ()),
            added=Sweep(axes_of(point), code, (), ()),
            placed=placed,
            last=last,
        )
        return _with_merged_rows(body)


def _with_merged_rows(body: ScatteredRows) -> ScatteredRows:
    """`body` with neighbouring axes merged that every access walks as one."""
    sweeps, of_row = (body.begun, body.added, body.last), Sweep((), body.of_row, (), ())
    indices: list[Index] = [index for sweep in (of_row, *sweeps) for index in sweep.indices()]
    rows, replaced = merge_axes(body.rows, indices)
    columns, and_these = merge_axes(body.begun.axes, indices)
    points, also = merge_axes(body.added.axes, indices)
    replaced |= and_these | also
    return replace(
        body,
        rows=rows,
        of_row=replace_axes(of_row, replaced).code,
        begun=moved(body.begun, columns, replaced),
        added=replace(replace_axes(body.added, replaced), axes=points),
        last=moved(body.last, columns, replaced),
    )
