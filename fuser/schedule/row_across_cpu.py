"""Rows on a processor with lanes across rows, where memory is consecutive.

for each `strip` neighbouring rows: for each element of theirs: fold into a lane each
"""

from __future__ import annotations

from dataclasses import dataclass

from fuser.schedule.emit import convert, join
from fuser.schedule.folds import neutral
from fuser.schedule.heuristics import CpuRowParameters
from fuser.schedule.index import Axis, lanes_of
from fuser.schedule.loop_tree import Binding, Expression, Lanes, Let, Loop, Node, Ref, nested
from fuser.schedule.row_axes import replace_axes
from fuser.schedule.row_body import Fold, RowBody, Sweep, as_lane, dtype_of
from fuser.schedule.row_folds_cpu import wide
from fuser.schedule.row_scans import carry_of, point_by_point


def across_rows(body: RowBody, parameters: CpuRowParameters) -> tuple[Node, ...]:
    """Loops over strips of neighbouring rows, each with a lane of every fold."""
    *outer, inner = body.rows
    lane, moved = lanes_of(inner, parameters.strip)
    nodes: list[Node] = []
    for stage in body.stages:
        sweep = replace_axes(stage, moved)
        if sweep.axes:
            nodes += _sweep_across(sweep, lane, parameters)
        else:
            nodes += _point_across(sweep, lane)
    strip = Loop(inner, Binding.STRIP, tuple(nodes), parameters.strip)
    return nested(outer, Binding.PARALLEL, (strip,))


def _point_across(sweep: Sweep, lane: Axis) -> list[Node]:
    """What is done once a row; later stages read it lane by lane."""
    arrays: list[Node] = [Lanes(node.name, dtype_of(node), lane.extent) for node in sweep.code]
    within = (*map(as_lane, sweep.code), *sweep.stores)
    return [*arrays, Loop(lane, Binding.STRIP_LANES, within)]


@dataclass(frozen=True, slots=True)
class _LaneFold:
    """A fold with a lane for each of some rows. If `in_blocks`, a block of elements is folded in
    the type of the fold first, and joined to the wider lanes when it is done."""

    fold: Fold
    in_blocks: bool

    @property
    def lanes(self) -> Ref:
        return Ref(f"{self.fold.name}_lanes", wide(self.fold))

    @property
    def block(self) -> Ref:
        return Ref(f"{self.fold.name}_block", self.fold.dtype)

    def array(self, held: Ref, count: int) -> Lanes:
        """The lanes, or those of a block, before anything is folded."""
        return Lanes(held.name, held.dtype, count, neutral(self.fold.operation, held.dtype))

    def joined(self) -> Let:
        """What is done at a point."""
        return self._more(self.block if self.in_blocks else self.lanes, self.fold.value)

    def flushed(self) -> Let:
        """What is done when a block is."""
        return self._more(self.lanes, self.block)

    def result(self) -> Let:
        fold = self.fold
        return Let(fold.name, fold.dtype, convert(self.lanes, fold.dtype), in_lanes=True)

    def _more(self, held: Ref, value: Expression) -> Let:
        joined = join(self.fold.operation, held, value)
        return Let(held.name, held.dtype, joined, in_lanes=True)


def _sweep_across(sweep: Sweep, lane: Axis, parameters: CpuRowParameters) -> list[Node]:
    """A sweep of neighbouring rows. Long ones are folded in blocks: within a block in the type of
    the fold, over blocks in a wider one."""
    *outer, inner = sweep.axes
    count = lane.extent
    folds = [_LaneFold(f, f.dtype is not wide(f) and not sweep.stores) for f in sweep.folds]
    blocked = [fold for fold in folds if fold.in_blocks]
    body = (*point_by_point(sweep.code), *(fold.joined() for fold in folds), *sweep.stores)
    if sweep.stores:
        loop = Loop(inner, Binding.SERIAL, (Loop(lane, Binding.STRIP_LANES, body),))
    else:
        loop = Loop(inner, Binding.UNROLLED, body, parameters.unrolled)
    if blocked:
        arrays = (fold.array(fold.block, count) for fold in blocked)
        flush = Loop(lane, Binding.STRIP_LANES, tuple(fold.flushed() for fold in blocked))
        loop = Loop(inner, Binding.BLOCKS, (*arrays, loop, flush), parameters.strip_block)
    carries = (Lanes(c.name, c.dtype, count, c.fill) for c in map(carry_of, sweep.scans))
    before = (*(fold.array(fold.lanes, count) for fold in folds), *carries)
    nodes = [*before, *nested(outer, Binding.SERIAL, (loop,))]
    if folds:
        nodes += (Lanes(fold.name, fold.dtype, count) for fold in sweep.folds)
        nodes.append(Loop(lane, Binding.STRIP_LANES, tuple(fold.result() for fold in folds)))
    return nodes
