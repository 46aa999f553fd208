"""Scatters that make their result row by row, each row from points of its own.

    T4 [R, V] = scatter_add(T1 [R, V], T2 [R, P], T3 [R, P], dim=1)

    for each row i0 < R:
      for i1 < V: T4_sum[i1] = T1[i0, i1]
      for i2 < P: T4_index = T2[i0, i2]; T4_sum[T4_index] += T3[i0, i2]
      for i1 < V: T4[i0, i1] = T4_sum[i1], and what else is made of it

A thread of a processor does all of a row, its points in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fuser.ir.dtypes import DataType
from fuser.schedule.code.row_body import Code, Sweep
from fuser.schedule.indices.index import ZERO, Axes
from fuser.schedule.scatters.elements import (
    ScatterTracer,
    atoms_of,
    axes_of,
    merged_over,
    or_skipped,
)
from fuser.schedule.tree.expressions import Ref
from fuser.schedule.tree.row_statements import Keep, KeepAt, Kept
from fuser.schedule.tree.statements import Let
from fuser.segmenter import Segment


@dataclass(frozen=True, slots=True)
class ScatteredRows:
    """What is done for each of `rows`: `of_row` once, `begun` and `last` for every element of it,
    before its points and after, and `added` for every point, which is kept where it belongs."""

    prologue: tuple[Let, ...]
    rows: Axes
    of_row: tuple[Code, ...]
    begun: Sweep
    added: Sweep
    last: Sweep


def trace_scattered_rows(segment: Segment, held: DataType) -> ScatteredRows:
    """The body of a scatter whose rows have points of their own, `held` as a type until all of
    these are there."""
    return _RowTracer(segment).run(held)


class _RowTracer(ScatterTracer):
    def run(self, dtype: DataType) -> ScatteredRows:
        op, out = self._op, self._out
        at = self._natural(out)
        self._kept = atoms_of(at[: op.dim])
        axes = axes_of(at[op.dim])
        kept = Kept(f"{out}_sum", dtype, axes)
        given = self.element(op.arg, at, dtype)
        keep = Keep(kept.name, dtype, axes, source=given.made)

        place = self._natural(op.index)  # of a point, where all rows share an index, or one number
        if not op.mode.startswith("index"):
            place = (*at[: op.dim], place[op.dim])
        point = place[-1] if place else ZERO
        row = self.row_named(place)
        source = self.element(*self.source((*at[: op.dim], point)), dtype)
        each = or_skipped(source.each, out)
        added = Let(f"{out}_added", dtype, source.made)
        placed = KeepAt(kept.name, dtype, row, Ref(added.name, dtype), op.joins)

        of_result, last = self.results(kept, axes)
        body = ScatteredRows(
            prologue=tuple(self._prologue),
            rows=tuple(axis for index in at[: op.dim] for axis in axes_of(index)),
            of_row=(*given.once, *source.once, *of_result),
            begun=Sweep(axes, (*given.each, keep)),
            added=Sweep(axes_of(point), (*each, added, placed)),
            last=last,
        )
        return _with_merged_rows(body)


def _with_merged_rows(body: ScatteredRows) -> ScatteredRows:
    """`body` with neighbouring axes merged that every access walks as one."""
    groups = body.rows, body.begun.axes, body.added.axes
    sweeps = Sweep((), body.of_row), body.begun, body.added, body.last
    (rows, *_), (once, begun, added, last), _ = merged_over(groups, sweeps)
    return replace(body, rows=rows, of_row=once.code, begun=begun, added=added, last=last)
