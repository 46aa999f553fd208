"""Rows: the one shape of iteration that a kernel with reductions has.

    softmax of T0 [8192, 768]         rows: the 8192      amax, sum: a number for each row
                                      sweeps: the 768     sub, exp, div: along the row
    its mean loss                     epilogue            the sum over all rows, and what follows

The atoms that a kernel's reductions keep number its rows. Within a row, values are swept over any
further atoms, reductions among them give row values, and those are read again in later sweeps of
the same row. A reduction over the rows themselves accumulates while they are done; what follows
from it is computed at the very end, by whoever is last, and is no row's business.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fuser.ir.nodes import Cast, Operation, Pointwise, Reduce, Scan, Statement, Value
from fuser.segmenter.atoms import NONE, AtomSet
from fuser.segmenter.graph import OperationGraph, Read
from fuser.segmenter.machine import Machine
from fuser.segmenter.refusal import Refusal
from fuser.segmenter.row_guesses import in_memory, last_atoms, row_guesses, rows_alternate
from fuser.segmenter.swept_twice import RowSweeps, Share
from fuser.segmenter.work import is_costly, is_divided, operation_cost, repeated_cost

MAX_EPILOGUE = 1 << 16
"""Elements that one block may be left to finish after all rows are done."""


@dataclass(frozen=True, slots=True)
class Rows:
    """How a kernel with reductions iterates: over `kept`, with row values in between.

    `swept_again` tells that some value of a whole row depends on a row value, so that a row cannot
    be shared out freely.
    """

    kept: AtomSet
    swept_again: bool
    repeated: int
    """Instructions that are done again for every row."""
    unhidden: int
    """Those of divisions and costly functions among them."""
    swept_twice: Mapping[Value, Share] = field(default_factory=dict[Value, Share])
    """What an earlier sweep folds and a later one needs, of rows too long to be kept between them,
    or columns, with how many later sweeps need it; one that needs a part of it counts as that."""
    is_alone: bool = False
    """Whether processors cannot share a row: it is swept again, and what is loaded of it is not
    kept, or two of these happen to it: it is folded, scanned, folded into what all rows are."""
    in_columns: bool = False
    """Whether neighbouring rows, not elements of a row, are neighbours in memory, and folded."""
    in_strips: bool = False
    """Of rows that are swept again: whether they are columns in memory, many side by side."""


def find_rows(
    operations: OperationGraph,
    members: Sequence[int],
    stores: Collection[Value],
    machine: Machine,
) -> Rows | Refusal | None:
    """The rows of a group; None if it neither reduces nor scans. `members` are in the fusion's
    order."""
    reductions = [m for m in members if isinstance(operations.nodes[m].op, Reduce)]
    scans = [m for m in members if m in operations.scanned]
    if not reductions and not scans:
        return None
    furthest, refusal = -1, None
    for kept in row_guesses(operations, [*reductions, *scans], machine):
        walk = _Walk(operations, kept, machine)
        found = walk.run(members, stores)
        if isinstance(found, Rows):
            return found
        if walk.visited > furthest:
            furthest, refusal = walk.visited, found
    return refusal


class _Walk:
    """One walk over a group, for one guess at its rows."""

    def __init__(self, operations: OperationGraph, kept: AtomSet, machine: Machine) -> None:
        self._operations = operations
        self._machine = machine
        self._atoms = operations.atoms
        self._kept = kept
        self._row_bound: set[Value] = set()
        """Values that depend on a row value."""
        self._final: set[Value] = set()
        """Values that are known when all rows are done."""
        self._running: set[Value] = set()
        """Values that follow from a scan, point by point of the row."""
        self._along: tuple[int, ...] = ()
        """The atoms along which the row is scanned, outermost first."""
        self._reverse = False
        """Whether it is scanned from its end."""
        self._over_rows: list[tuple[Value, AtomSet, AtomSet]] = []
        """Results of reductions over the rows, with what they sweep of a row and keep of that."""
        self._swept_again = False
        self._folds_a_row = False
        self._repeated = self._unhidden = 0
        self.visited = 0
        """How many operations it came past: the later it fails, the better the guess."""

    def run(self, members: Sequence[int], stores: Collection[Value]) -> Rows | Refusal:
        inside = frozenset(members)
        for member in members:
            refusal = self._visit(member, inside)
            if refusal is not None:
                return refusal
            self.visited += 1
        for value in stores:
            refusal = self._check_store(value)
            if refusal is not None:
                return refusal
        if self._along:
            along = frozenset(self._along)
            for out, swept, kept in self._over_rows:
                if swept == along and kept not in (NONE, along):
                    return Refusal(f"{out} keeps a part of the dimension along which others scan")
            self._swept_again |= self._has_other_sweeps(members)
        in_columns = self._are_in_columns(members)
        found = Rows(self._kept, False, self._repeated, self._unhidden, in_columns=in_columns)
        if not self._swept_again:
            kinds = bool(self._along) + self._folds_a_row + bool(self._over_rows)
            return replace(found, is_alone=kinds > 1)
        found = replace(found, swept_again=True, in_strips=self._are_in_strips(members))
        arrays = any(kept != NONE for _, _, kept in self._over_rows)
        room = self._machine.room_of_row(in_columns=in_columns, in_parts=arrays)
        room = 0 if found.in_strips else room
        several_axes = self._machine.keeps_any_axes or not (arrays or in_columns)
        sweeps = RowSweeps(
            self._operations, self._kept, self._machine, room, self._row_bound, several_axes
        )
        twice, kept = sweeps.swept_twice(members)
        made = {out for member in members for out in self._operations.nodes[member].outs}
        is_alone = arrays or made.issuperset(kept) or not made.issuperset(twice)
        return replace(found, swept_twice=twice, is_alone=is_alone)

    def _are_in_columns(self, members: Sequence[int]) -> bool:
        """Whether neighbours in memory are neighbouring rows, where a machine treats these
        otherwise. Those that are scanned are not taken for columns: the fewer there are, the more
        threads has each."""
        if self._along or self._machine.columns_of_a_processor == 1:
            return False
        return not self._kept.isdisjoint(in_memory(self._operations, members)[:1])

    def _are_in_strips(self, members: Sequence[int]) -> bool:
        """Whether rows are columns in memory, of which many are swept side by side, or alternate
        there, a short piece of each after the other."""
        if not self._machine.folds_in_strips:
            return False
        nodes, scanned = self._operations.nodes, self._operations.scanned
        folding = [m for m in members if isinstance(nodes[m].op, Reduce) or m in scanned]
        if not self._kept.isdisjoint(last_atoms(self._operations, folding)):
            return True
        return rows_alternate(self._operations, members, self._kept, self._machine)

    def _has_other_sweeps(self, members: Sequence[int]) -> bool:
        """Whether a row is swept elsewhere than along the scan, so that it cannot be shared out."""
        made = [self._atoms.of(self._operations.nodes[member].outs[0]) for member in members]
        return any(not atoms - self._kept <= set(self._along) for atoms in made)

    def _visit(self, member: int, inside: frozenset[int]) -> Refusal | None:
        """Notes what a node's results depend on; why there is no place for it, if there is none."""
        statement = self._operations.nodes[member]
        out, op = statement.outs[0], statement.op
        reads = self._operations.reads[member]
        own = [read for read in reads if self._operations.node_of(read.value) in inside]
        final = [read for read in own if read.value in self._final]
        row_bound = [read for read in own if read.value in self._row_bound]
        running = [read for read in own if read.value in self._running]
        refusal = self._check_row_bound(out, row_bound, final)
        refusal = refusal or self._check_running(out, op, running)
        if refusal is not None:
            return refusal
        if isinstance(op, Reduce):
            return self._reduce(member, op, final)
        if final:
            return self._finish(statement, final)
        if row_bound:
            self._row_bound.update(statement.outs)
            self._swept_again |= not self._atoms.of(out) <= self._kept
        if member in self._operations.scanned:
            refusal = self._scan(member)
            if refusal is not None:
                return refusal
        elif running:
            self._running.update(statement.outs)
        self._count(out, member)
        return None

    def _check_row_bound(self, out: Value, own: list[Read], final: list[Read]) -> Refusal | None:
        """What follows from a row value is known in its row only, and before all are done."""
        if own and final:
            return Refusal(
                f"{out} needs {own[0].value} of every row after {final[0].value} of all rows"
            )
        for read in own:
            if not read.misplaced.isdisjoint(self._kept):
                return Refusal(f"{out} needs {read.value} of other rows than its own")
        return None

    def _finish(self, statement: Statement, final: list[Read]) -> Refusal | None:
        """The epilogue computes element by element of what is known when all rows are done."""
        out, known = statement.outs[0], max((r.value for r in final), key=lambda v: v.elements)
        in_place = not any(read.misplaced for read in final)
        whole = in_place and self._atoms.of(out) <= self._atoms.of(known)
        if not whole or not isinstance(statement.op, Pointwise | Cast):
            return Refusal(f"{out} needs {known}, which is known when all rows are done")
        self._final.update(statement.outs)
        return None

    def _scan(self, member: int) -> Refusal | None:
        """A scan keeps all atoms but the scanned ones, in whose order the row is swept."""
        out, along = self._operations.nodes[member].outs[0], self._operations.scanned[member]
        kept = self._operations.kept[member]
        if kept != self._kept:
            length = " x ".join(map(str, self._atoms.sizes(frozenset(along))))
            return Refusal(
                f"{out} is scanned along {length}, in {self._words(kept)}, while others have "
                f"{self._others(kept)}"
            )
        op = self._operations.nodes[member].op
        reverse = isinstance(op, Scan) and op.reverse
        if self._along and (self._along, self._reverse) != (along, reverse):
            return Refusal(f"{out} is scanned in another order than the rest of its row")
        self._along, self._reverse = along, reverse
        self._running.add(out)
        return None

    def _check_running(self, out: Value, op: Operation, running: list[Read]) -> Refusal | None:
        """What follows from a scan is known at the point that the sweep has come to, only."""
        for read in running:
            if read.misplaced:
                return Refusal(f"{out} needs {read.value} at other places than it is scanned")
            swept = self._atoms.of(op.arg if isinstance(op, Reduce) else out)
            if swept != self._atoms.of(read.value):
                return Refusal(f"{out} needs each element of {read.value}, a scan, several times")
        return None

    def _reduce(self, member: int, op: Reduce, final: list[Read]) -> Refusal | None:
        outs = self._operations.nodes[member].outs
        if final:
            known = final[0].value
            return Refusal(f"{outs[0]} reduces {known}, which is known when all rows are done")
        kept, held = self._operations.kept[member], self._atoms.of(op.arg)
        self._swept_again |= op.arg in self._row_bound and not held <= self._kept
        if kept == self._kept:
            self._row_bound.update(outs)
            self._folds_a_row = True
        elif op.op in ("var", "var_mean"):
            return Refusal(f"{outs[0]}, a variance over rows, has to know their mean first")
        elif self._kept and self._kept <= held and not self._kept <= kept:
            self._final.update(outs)
            self._over_rows.append((outs[0], held - self._kept, kept - self._kept))
        else:
            return Refusal(
                f"{outs[0]} is reduced to {self._words(kept)}, while others have "
                f"{self._others(kept)}"
            )
        self._count(op.arg, member)
        return None

    def _check_store(self, value: Value) -> Refusal | None:
        held = self._atoms.of(value)
        if value in self._final:
            if value.elements > MAX_EPILOGUE:
                return Refusal(
                    f"{value}, {value.elements} elements, would be finished by one block"
                )
        elif not self._kept <= held:
            return Refusal(
                f"each element of {value} belongs to several of the {self._words(self._kept)}"
            )
        return None

    def _count(self, value: Value, member: int) -> None:
        """Add what is done again for every row. What has one element is kept in a register."""
        held = self._atoms.of(value)
        if held and not self._kept <= held:
            points = self._atoms.elements(held | self._kept) - self._atoms.elements(held)
            self._repeated += repeated_cost(self._operations, member, self._machine) * points
            op = self._operations.nodes[member].op
            if is_costly(op) or is_divided(op):
                self._unhidden += operation_cost(self._operations, member, self._machine) * points

    def _words(self, kept: AtomSet) -> str:
        sizes = self._atoms.sizes(kept)
        return f"{' x '.join(map(str, sizes))} rows" if sizes else "one row"

    def _others(self, kept: AtomSet) -> str:
        """The rows of others, of which some operation has not those that number `kept`."""
        own, others = self._words(kept), self._words(self._kept)
        return f"{others} of other dimensions" if others == own else others
