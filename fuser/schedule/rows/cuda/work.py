"""What a GPU has to do for the rows of a body: by this the team of a row is chosen.

x - max(x), along i and j     two sweeps, vectors of 16 bytes along j, x is loaded twice: to keep
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fuser.schedule.code.row_body import RowBody, Sweep, contents, names_in
from fuser.schedule.code.row_slots import is_of_row
from fuser.schedule.cuda_parameters import CudaRowParameters
from fuser.schedule.indices.index import Axes, Axis
from fuser.schedule.rows.cuda.kept import loads_to_keep
from fuser.schedule.rows.cuda.room import Demand
from fuser.schedule.rows.vectors import Vectors, vectors_for
from fuser.schedule.tree.buffers import Buffers
from fuser.schedule.tree.counts import ceil_div, point_count
from fuser.schedule.tree.row_statements import Partial
from fuser.schedule.tree.statements import Load
from fuser.schedule.tree.vectors import step_along
from fuser.segmenter import Segment


@dataclass(frozen=True, slots=True)
class ToKeep:
    """How threads take neighbouring elements of the sweeps over the same axes, and the `loads` of
    the sweeps over `axes` that a row keeps where there is room, if it has some."""

    vectors: Mapping[Axes, Vectors]
    axes: Axes = ()
    loads: tuple[Load, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of an element of each load."""
        return tuple(load.dtype.itemsize for load in self.loads)

    @property
    def demand(self) -> Demand | None:
        """What that is; None of nothing."""
        if not self.axes:
            return None
        drawn = sum(load.dtype.itemsize for load in self.loads if load.drawn is not None)
        return demand_of(self.axes, self.vectors[self.axes], self.sizes, drawn)


def demand_of(axes: Axes, vectors: Vectors, sizes: tuple[int, ...], drawn: int = 0) -> Demand:
    """What a row wants to keep along its axes, of elements of so many bytes each, of which some are
    `drawn`."""
    return Demand(ceil_div(point_count(axes), vectors.lanes), vectors.lanes, sizes, drawn)


class AtOnce(NamedTuple):
    """What a row does once before its sweeps, in all blocks, these, and what it does once after
    them, in the last block."""

    before: Sequence[Sweep]
    sweeps: Sequence[Sweep]
    after: Sequence[Sweep]


@dataclass(frozen=True, slots=True)
class RowWork:
    """A body whose `stages` have no conflicting folds, and `partials` for its folds over rows."""

    segment: Segment
    body: RowBody
    stages: Sequence[Sweep]
    partials: Sequence[Partial]
    buffers: Buffers
    parameters: CudaRowParameters

    @property
    def rows(self) -> int:
        """How many there are."""
        return point_count(self.body.rows)

    @property
    def longest(self) -> int:
        """The points of a row's longest stage."""
        return self.body.longest

    @property
    def scans(self) -> bool:
        """Whether anything is scanned."""
        return any(sweep.scans for sweep in self.stages)

    @property
    def folds_or_scans(self) -> bool:
        """Whether anything is folded or scanned."""
        return any(sweep.folds or sweep.scans for sweep in self.body.stages)

    @property
    def has_arrays(self) -> bool:
        """Whether a fold over the rows has several places."""
        return any(partial.slots > 1 for partial in self.partials)

    @property
    def at_once(self) -> AtOnce | None:
        """The stages of a row if its sweeps fold, and nothing waits for that before all have, or
        overwrites what others read: then blocks may have a part of each."""
        swept = [number for number, sweep in enumerate(self.stages) if sweep.axes]
        if not swept:
            return None
        first, end = swept[0], swept[-1] + 1
        before, sweeps, after = self.stages[:first], self.stages[first:end], self.stages[end:]
        folds = {fold.name for sweep in sweeps for fold in sweep.folds}
        waits = not folds.isdisjoint(names_in(contents(sweeps)))
        overwrites = len(sweeps) > 1 and self.segment.overwritten
        if not folds or waits or overwrites or len(swept) < len(sweeps):
            return None
        stored = [Sweep((), (), stores=sweep.stores) for sweep in before if sweep.stores]
        before = [dataclasses.replace(sweep, stores=()) for sweep in before]
        return AtOnce(before, sweeps, (*stored, *after))

    @property
    def groups(self) -> dict[Axes, list[Sweep]]:
        """The sweeps along each axis alone, which take the same points of it."""
        return {axes: sweeps for axes, sweeps in self._groups.items() if len(axes) == 1}

    @property
    def _groups(self) -> dict[Axes, list[Sweep]]:
        """The sweeps over the same axes."""
        groups: dict[Axes, list[Sweep]] = {}
        for sweep in self.stages:
            if sweep.axes:
                groups.setdefault(sweep.axes, []).append(sweep)
        return groups

    def vectors(self, *, may_peel: bool) -> dict[Axes, Vectors]:
        """How threads take neighbouring elements along each axis that has sweeps of its own."""
        return {
            axes: self._vectors_along(axes, sweeps, may_peel=may_peel)
            for axes, sweeps in self.groups.items()
        }

    def vectors_over_several(self) -> dict[Axes, Vectors]:
        """How threads take neighbouring elements of sweeps over the same axes, of which they share
        out all: whole vectors along the last. Slots of a fold over the rows would belong to several
        threads, and a scan has its points in the order of the row."""
        if self.has_arrays or self.scans:
            return {}
        several = {axes: sweeps for axes, sweeps in self._groups.items() if len(axes) > 1}
        return {a: self._vectors_along(a, s, may_peel=False) for a, s in several.items()}

    def _vectors_along(self, axes: Axes, sweeps: Sequence[Sweep], *, may_peel: bool) -> Vectors:
        *outer, last = axes
        folds = [(fold, sweep) for sweep in sweeps for fold in sweep.folds]
        # Slots that a row's elements fold into belong to the same threads in every row.
        own = all(fold.slots in (None, 1) or is_of_row(fold, sweep) for fold, sweep in folds)
        given = self.buffers, sweeps, last, self.parameters
        found = vectors_for(*given, may_peel=may_peel, may_move=own)
        return Vectors(math.gcd(found.lanes, last.extent)) if outer else found

    def vectors_of_columns(self) -> dict[Axes, Vectors]:
        """How threads take elements of rows that are next to each other in memory: one by one, or
        as neighbours where another tensor has them side by side, as its rows."""
        alone = dict.fromkeys(self.groups, Vectors())
        if self.scans or not self.body.rows:
            return alone
        along = {axes: s for axes, s in self.groups.items() if self._lies_along(axes[-1], s)}
        return alone | {a: self._vectors_along(a, s, may_peel=False) for a, s in along.items()}

    def _lies_along(self, axis: Axis, sweeps: Sequence[Sweep]) -> bool:
        """Whether a tensor has a row's elements side by side, each row apart from the next."""
        steps = (
            (step_along(access.at, axis), step_along(access.at, self.body.rows[-1]))
            for sweep in sweeps
            for access in sweep.accesses
        )
        return any(element == 1 and row not in (0, 1, None) for element, row in steps)

    def to_keep(self, vectors: Mapping[Axes, Vectors], *, apart: bool = False) -> ToKeep:
        """The longest sweeps over the same axes in which something is loaded again, and these
        loads; also those of neighbours that lie `apart`."""
        if self.scans:
            return ToKeep(vectors)  # a scan has its points in the order of the row
        groups = self._groups
        for axes in sorted(vectors, key=lambda axes: -point_count(axes)):
            lanes = vectors[axes].lanes
            loads = loads_to_keep(groups[axes], self.body.rows, lanes, apart=apart)
            if loads:
                return ToKeep(vectors, axes, tuple(loads))
        return ToKeep(vectors)
