"""Scatters in place: the code of a point.

    T4 [V, D] = index_add(T1 [V, D], T2 [T], T3 [T, D], dim=0)

    for each point i0 < T: T4_index = T2[i0]; for i1 < D: T4[T4_index, i1] += T3[i0, i1]

Elements that differ in a column, a dimension which the index does not number, never meet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fuser.schedule.code.row_body import Code, Sweep, nodes_read
from fuser.schedule.indices.coordinates import Coordinates
from fuser.schedule.indices.index import ZERO, Axes, Axis, Index
from fuser.schedule.scatters.elements import ScatterTracer, atoms_of, axes_of, merged_over
from fuser.schedule.tree.statements import Let, Store
from fuser.segmenter import Segment


@dataclass(frozen=True, slots=True)
class PointBody:
    """What is done at every point: the columns outside of all points, the points, and what is
    done once for each; then the columns inside, and what is done at each of those."""

    prologue: tuple[Let, ...]
    outside: Axes
    points: Axes
    code: tuple[Code, ...]
    sweep: Sweep

    @property
    def store(self) -> Store:
        """What writes, or adds, an element of a point."""
        (store,) = self.sweep.stores
        return store

    @property
    def shares_index(self) -> bool:
        """Whether all columns inside have one index."""
        return not self.sweep.checks

    def code_for(self, wanted: Iterable[str]) -> tuple[Code, ...]:
        """What of `code` makes these names, and all that they need."""
        return nodes_read(self.code, set(wanted), reporting=False)


def trace_points(segment: Segment) -> PointBody:
    """The body of a scatter in place."""
    return _PointTracer(segment).run()


class _PointTracer(ScatterTracer):
    def run(self) -> PointBody:
        op = self._op
        whole = op.src.is_tensor and op.src.shape == op.points
        at = self._natural(op.src if whole else op.index)
        strides = self._segment.memory[self._out].strides
        inside = [dim for dim in self._columns() if strides[self._column(dim)] < strides[op.dim]]
        outside = [dim for dim in self._columns() if dim not in inside]
        of_points = {dim: at[dim] for dim in op.point_dims}
        self._kept = atoms_of(at[dim] for dim in range(len(at)) if dim not in inside)
        chosen = self.row_named(self._index_at(at))
        place = (*at[: op.dim], chosen, *at[op.dim + len(op.point_dims) :])
        source = self.source(at)
        self._make(source)
        added = self.get(*source)
        store = Store(self._out, self._address(self._out, place), added, joins=op.joins)
        axes = [axis for dim in inside for axis in axes_of(at[dim])]
        sweep = Sweep(self._by_stride(axes, store.at), tuple(self._sweep_code), (), (store,))
        columns = tuple(axis for dim in outside for axis in axes_of(at[dim]))
        points = tuple(axis for index in of_points.values() for axis in axes_of(index))
        return _with_merged_points(
            PointBody(tuple(self._prologue), columns, points, tuple(self._row_code), sweep)
        )

    def _columns(self) -> list[int]:
        """The dimensions of a point that the index does not number."""
        return [dim for dim in range(len(self._op.points)) if dim not in self._op.point_dims]

    def _column(self, dim: int) -> int:
        """The dimension of the result that is a column of the points."""
        return dim - len(self._op.point_dims) + 1 if dim > self._op.dim else dim

    def _index_at(self, at: Coordinates) -> Coordinates:
        op = self._op
        if op.mode.startswith("index"):
            dims = op.point_dims if op.index.shape else ()
            return tuple(at[dim] for dim in dims)
        lies = self._segment.memory.get(op.index)
        if lies is None:
            return at
        return tuple(i if s else ZERO for i, s in zip(at, lies.strides, strict=True))

    @staticmethod
    def _by_stride(axes: Iterable[Axis], at: Index) -> Axes:
        return tuple(sorted(axes, key=lambda axis: -abs(at.coefficient(axis))))


def _with_merged_points(body: PointBody) -> PointBody:
    """`body` with neighbouring axes merged that every access walks as one."""
    groups = body.outside, body.points, body.sweep.axes
    (outside, points, _), (once, sweep), _ = merged_over(groups, (Sweep((), body.code), body.sweep))
    return PointBody(body.prologue, outside, points, once.code, sweep)
