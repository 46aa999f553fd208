"""What several sweeps of a row need, and there is no room to keep between them.

    softmax of T0 [8192, 768]          three sweeps need T0, which is kept: 3 KiB
    softmax of T0 [4, 1000000]         three sweeps need T0, and read it from memory each time

Prices count what is read or made again, and processors do not share such a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fuser.ir.nodes import Reduce, Value
from fuser.segmenter.atoms import AtomSet
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.machine import Machine

Share = Fraction | int
"""A part of a value, or several times it: a whole number in most cases, which is faster."""


@dataclass(frozen=True, slots=True)
class RowSweeps:
    """The sweeps of a group's rows, which number the atoms `kept`, on a machine."""

    operations: OperationGraph
    kept: AtomSet
    machine: Machine
    room: int
    """Bytes of the longest row that is kept between sweeps."""
    row_bound: Collection[Value]
    """Values that follow from row values: no sweep makes them before these are known."""

    several_axes: bool
    """Whether a row is kept that lies along several axes, others between them."""

    def swept_twice(
        self, members: Sequence[int]
    ) -> tuple[Mapping[Value, Share], Collection[Value]]:
        """What reductions follow from, and later sweeps of the row too, with how many of these make
        or read it again, one that has a part of it as that; and what of it is kept instead."""
        sweep: dict[Value, int] = {}
        for member in members:  # the first sweep that can make it; of a row value, that reads it
            statement = self.operations.nodes[member]
            first = max((sweep.get(r.value, 0) for r in self.operations.reads[member]), default=0)
            sweep |= dict.fromkeys(statement.outs, first + isinstance(statement.op, Reduce))
        needed: dict[Value, dict[int, Share]] = {}  # by sweep, what part of it
        for member in reversed(members):
            statement = self.operations.nodes[member]
            out = made = statement.outs[0]
            if isinstance(statement.op, Reduce):
                made, sweeps = statement.op.arg, {sweep[out] - 1: 1}
            elif self.operations.atoms.of(out) <= self.kept:
                continue
            else:
                sweeps = needed.get(out) or {sweep[out]: 1}
            for read in self.operations.reads[member]:
                part = _part(made.elements, read.value.elements)
                parts = needed.setdefault(read.value, {})
                for number, of_made in sweeps.items():
                    parts[number] = max(parts.get(number, 0), part * of_made)
        several = {
            value: sum(parts.values(), start=-max(parts.values()))
            for value, parts in needed.items()
            if len(parts) > 1
        }
        loads = [value for value in several if value not in sweep]
        together = sum(map(self._bytes_in_row, loads))  # all of them are kept, or none
        sizes = {v: together if v in loads else self._bytes_in_row(v) for v in several}
        again = {v: more for v, more in several.items() if not self._is_kept(v, sizes[v])}
        return again, [v for v in several if v not in again and self._in_row(v)]

    def _bytes_in_row(self, value: Value) -> int:
        """What a row has of a value; 0 where it has one element."""
        in_row = self._in_row(value)
        return self.operations.atoms.elements(in_row) * value.dtype.itemsize if in_row else 0

    def _is_kept(self, value: Value, nbytes: int) -> bool:
        """Whether there is room for a value of a row between its sweeps, with what is kept beside
        it, or it is made late."""
        in_row = self._in_row(value)
        if not in_row or value in self.row_bound:
            return True
        if nbytes > self.room or not (self.kept or self.machine.keeps_only_row):
            return False
        return self.several_axes or self._is_along_one(value, in_row)

    def _in_row(self, value: Value) -> AtomSet:
        """The atoms that number what a row has of a value."""
        return self.operations.atoms.of(value) - self.kept

    def _is_along_one(self, value: Value, in_row: AtomSet) -> bool:
        """Whether the atoms that number a row of a value follow each other there."""
        order = itertools.chain.from_iterable(self.operations.atoms.factors(value))
        found = [atom in in_row for atom in order]
        first = found.index(True)
        return all(found[first : first + len(in_row)])


def _part(count: int, whole: int) -> Share:
    """What part of so many elements others are; all of them, if these are no fewer."""
    return 1 if count >= whole else Fraction(count, whole)
