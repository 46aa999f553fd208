"""Groups: operations that would share a kernel, what that kernel moves, and whether it can be."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from fuser.ir.nodes import Pointwise, Scatter, Statement, Value
from fuser.ir.printer import operation_name
from fuser.segmenter.atoms import Atoms, AtomSet
from fuser.segmenter.cuts import Cuts, joints
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.places import ALL, HERE, Places, Spread
from fuser.segmenter.profit import (
    MOST_PARTS,
    Limits,
    Machine,
    is_costly,
    is_divided,
    operation_cost,
    repeated_cost,
    size_in_text,
)
from fuser.segmenter.rows import Refusal, Rows, find_rows
from fuser.segmenter.scatters import scatter_refusal
from fuser.segmenter.traffic import bytes_read, bytes_written, elements_of

Arithmetic = Counter[tuple[int, AtomSet, int, bool, bool]]
"""The cost of operations by the number of elements they make, the atoms these are indexed by, the
share of the domain they are done for, and whether they are costly functions, or divisions."""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that will share a kernel, in the fusion's order, and what follows from them.

    `loads` counts the elements read of each value it loads; `stores` is what it writes.
    `arithmetic` is that of its operations, all over the domain, `size` what they are in its text,
    `live` bounds the values it holds at a time, `requests` are the segment_sets among them. `moved`
    is in bytes. `scatters` tells that it does: its domain is then that of the points.
    """

    members: tuple[int, ...]
    loads: Mapping[Value, int]
    stores: tuple[Value, ...]
    arithmetic: Arithmetic
    size: int
    live: int
    requests: tuple[Value, ...]
    moved: int
    rows: Rows | None
    scatters: bool = False

    @property
    def domain(self) -> tuple[int, ...] | None:
        """The one shape, sizes of 1 left out, of all that it stores; None if there are several."""
        shapes = {tuple(size for size in value.shape if size != 1) for value in self.stores}
        return shapes.pop() if len(shapes) == 1 else None

    def repeated(self, atoms: Atoms, machine: Machine, arithmetic: Arithmetic | None = None) -> int:
        """Instructions done more often than there are elements; `arithmetic` if it is done for
        parts of the domain only.

        What has one element is computed once a thread, and what is the same all along the innermost
        axis of what is stored, once for a row of it.
        """
        if self.rows is not None:
            return self.rows.repeated
        points = self._points(atoms)
        if points is None:
            return 0
        count, rows, along_rows = points
        found = 0
        for (elements, held, share, costly, _), cost in (arithmetic or self.arithmetic).items():
            done = (rows if held <= along_rows else count) * share // ALL
            times = machine.functions if costly else 1
            found += cost * times * (done - elements) if 1 < elements < done else 0
        return found

    def unhidden(self, operations: OperationGraph, arithmetic: Arithmetic | None = None) -> int:
        """Instructions of divisions and costly functions that are done again at every point of what
        is stored: of what is another number for each element that is innermost in memory."""
        points = self._points(operations.atoms) if self.rows is None else None
        if points is None:
            return 0
        count, found, along_rows = points[0], 0, self._along_rows_in_memory(operations)
        for (elements, held, share, *slow), cost in (arithmetic or self.arithmetic).items():
            done = 0 if held <= along_rows else count * share // ALL
            found += cost * (done - elements) if any(slow) and 1 < elements < done else 0
        return found

    def one_by_one(
        self, atoms: Atoms, machine: Machine, arithmetic: Arithmetic | None = None
    ) -> int:
        """Instructions that costly functions take more for one number after the other: of what is
        the same all along the innermost axis, there are no vectors, but where that is so short, or
        cut into pieces so short, that neighbours along another axis are side by side.
        """
        points = self._points(atoms) if self.rows is None else None
        if points is None:
            return 0
        count, _, along_rows = points
        found = 0
        for (elements, held, share, costly, _), cost in (arithmetic or self.arithmetic).items():
            fills_half_a_vector = 2 * (count * share // ALL) >= machine.lanes * elements
            is_alike = held <= along_rows and fills_half_a_vector
            found += cost * elements if costly and elements > 1 and is_alike else 0
        return found * machine.functions * (machine.lanes - 1)

    def _points(self, atoms: Atoms) -> tuple[int, int, AtomSet] | None:
        """How many points are stored, in how many rows along the innermost axis, and the atoms that
        number these; None if it is not a kernel of points."""
        stored = max(self.stores, key=lambda value: value.elements, default=None)
        if self.scatters or stored is None or not stored.elements:
            return None
        dims = [dim for dim in atoms.factors(stored) if dim]
        if not dims:
            return None
        innermost = dims[-1][-1]
        rows = stored.elements // atoms.size(innermost)
        return stored.elements, rows, atoms.of(stored) - {innermost}

    def _along_rows_in_memory(self, operations: OperationGraph) -> AtomSet:
        """The atoms of what is stored but for the innermost, in the order of memory if an input has
        the same dimensions: channels of images may be the last there."""
        stored = max(self.stores, key=lambda value: value.elements)
        dims = operations.atoms.factors(stored)
        steps: Sequence[int] = range(len(dims), 0, -1)
        for value in self.loads:
            memory = operations.free.get(value)
            if memory is not None and operations.atoms.factors(value) == dims:
                steps = [abs(step) for step in memory.strides]
        _, innermost = min((step, dim) for step, dim in zip(steps, dims, strict=True) if dim)
        return operations.atoms.of(stored) - {innermost[-1]}


class GroupMaker:
    """Makes groups of nodes, given which values must be stored whatever shares a kernel."""

    def __init__(
        self, operations: OperationGraph, stored: Collection[Value], machine: Machine
    ) -> None:
        self.operations = operations
        self._machine = machine
        self._stored = frozenset(stored)
        self._places = Places(operations)
        self._cuts = Cuts(operations, self._places)
        self.readers: dict[Value, list[int]] = {}
        """The nodes that read each value."""
        self._singles: dict[int, Group] = {}
        self._at_places: dict[tuple[int, ...], tuple[Mapping[int, int], Arithmetic | None]] = {}
        """By members: see `_done_at_places`. Each group is priced with all its neighbours."""
        self._last_spread: tuple[tuple[int, ...], Spread | Refusal] = (), Spread({}, ())
        """Of the members asked for last: a group is checked, then priced."""
        for index, reads in enumerate(operations.reads):
            for read in reads:
                self.readers.setdefault(read.value, []).append(index)

    def single(self, index: int) -> Group:
        """The group of one node, found once: each move of a node is of all that are with it."""
        if index not in self._singles:
            self._singles[index] = self._single(index)
        return self._singles[index]

    def _single(self, index: int) -> Group:
        statement = self.operations.nodes[index]
        op, outs = statement.op, statement.outs
        made, arithmetic = max(out.elements for out in outs), self._arithmetic(index, ALL)
        reads = self.operations.reads[index]
        loads = {read.value: elements_of(statement, read.value, made) for read in reads}
        used = tuple(v for v in outs if v in self._stored or v in self.readers)
        rows = find_rows(self.operations, (index,), used, self._machine)
        return Group(
            members=(index,),
            loads=loads,
            stores=used,
            arithmetic=arithmetic,
            size=size_in_text(op, self._machine),
            live=1 + len(reads),
            requests=outs if isinstance(op, Pointwise) and op.op == "segment_set" else (),
            moved=self._moved(loads, used),
            rows=None if isinstance(rows, Refusal) else rows,
            scatters=isinstance(op, Scatter),
        )

    def of_nodes(self, nodes: Sequence[int]) -> Group:
        """The group of several nodes."""
        inside = frozenset(nodes)
        return self.united([self.single(node) for node in sorted(nodes)], inside.__contains__)

    def united(self, groups: Sequence[Group], inside: Callable[[int], bool]) -> Group:
        """What groups would be as one: values that pass between them are not moved.

        `inside` tells the nodes of all. The rows of the result are not known yet.
        """
        node_of = self.operations.node_of
        loads: dict[Value, int] = {}
        for value, elements in (item for group in groups for item in group.loads.items()):
            node = node_of(value)
            if node is None or not inside(node):
                loads[value] = min(value.elements, loads.get(value, 0) + elements)
        stores = [
            value
            for group in groups
            for value in group.stores
            if value in self._stored
            or any(not inside(reader) for reader in self.readers.get(value, ()))
        ]
        stores.sort(key=lambda value: value.id)
        arithmetic: Arithmetic = Counter()
        for group in groups:
            arithmetic.update(group.arithmetic)
        return Group(
            members=tuple(sorted(member for group in groups for member in group.members)),
            loads=loads,
            stores=tuple(stores),
            arithmetic=arithmetic,
            size=sum(group.size for group in groups),
            live=sum(group.live for group in groups),
            requests=tuple(value for group in groups for value in group.requests),
            moved=self._moved(loads, stores),
            rows=None,
            scatters=any(group.scatters for group in groups),
        )

    def checked(self, group: Group, related: bool) -> Group | Refusal:
        """A group with its rows, or why it cannot be a kernel. Guards, cheapest first.

        `related` tells that edges lead from all of its operations to all others.
        """
        refusal = self._too_large(group)
        if refusal is not None:
            return refusal
        spread = self._spread(group)
        if isinstance(spread, Refusal):
            return spread
        most_live = self._limits(group).live
        if group.live > most_live:
            group = replace(group, live=self._live_values(group))
            if group.live > most_live:
                return Refusal(f"{group.live} values at a time do not fit the registers")
        if group.scatters:
            refusal = scatter_refusal(self.operations, group.members, group.stores)
            if refusal is not None:
                return refusal
        rows = find_rows(self.operations, group.members, group.stores, self._machine)
        if isinstance(rows, Refusal):
            return rows
        if rows is None:
            refusal = _domains_differ(group, related) or self._cuts.refusal(spread, self._machine)
        return refusal or replace(group, rows=rows)

    def _too_large(self, group: Group) -> Refusal | None:
        read, most = self.operations.address_count(group.loads), self._limits(group).tensors
        tensors = len(group.stores) + read
        if tensors > most:
            return Refusal(f"{tensors} tensors are more than the {most} of one kernel")
        if group.size > self._machine.most_operations:
            most = self._machine.most_operations
            return Refusal(f"a kernel of more than {most} operations compiles slowly")
        return None

    def _limits(self, group: Group) -> Limits:
        return self._machine.of_rows if self._is_of_rows(group) else self._machine.of_points

    def _is_of_rows(self, group: Group) -> bool:
        return any(member in self.operations.kept for member in group.members)

    def _live_values(self, group: Group) -> int:
        """How many values a group holds at a time, from where each is made to its last reader."""
        inside = {member: number for number, member in enumerate(group.members)}
        changes = [0] * (len(inside) + 1)
        for number, member in enumerate(group.members):
            for out in self.operations.nodes[member].outs:
                last = max((inside.get(r, 0) for r in self.readers.get(out, ())), default=0)
                changes[number] += 1
                changes[max(last, number)] -= 1
        for value in group.loads:
            uses = [inside[reader] for reader in self.readers[value] if reader in inside]
            changes[min(uses)] += 1
            changes[max(uses) + 1] -= 1
        held = most = 0
        for change in changes:
            held += change
            most = max(most, held)
        return most

    def cost(self, group: Group) -> int:
        """The cost of a group as one kernel, in bytes."""
        count = self._rows_swept_again(group)
        again, arithmetic = self._done_at_places(group)
        own, repeated = self._instructions(group, again, arithmetic)
        alone = group.one_by_one(self.operations.atoms, self._machine, arithmetic)
        alone += group.unhidden(self.operations, arithmetic) if self._machine.unhidden else 0
        return self._machine.kernel_cost(group.moved, own, repeated, count, alone=alone)

    def has_few_rows(self, group: Group) -> bool:
        """Whether a group has rows that it sweeps more than once, too few to keep all busy."""
        rows = self._rows_swept_again(group)
        return rows is not None and self._machine.are_few(rows)

    def _rows_swept_again(self, group: Group) -> int | None:
        rows = group.rows
        if rows is None or not rows.swept_again:
            return None
        return self.operations.atoms.elements(rows.kept)

    def hides(self, group: Group) -> int:
        """Instructions for which a group has time while memory is waited for, beside its own."""
        meanwhile = group.moved * self._machine.operations_per_byte
        return max(meanwhile - sum(self._instructions(group, *self._done_at_places(group))), 0)

    def _instructions(
        self, group: Group, again: Mapping[int, int], arithmetic: Arithmetic | None
    ) -> tuple[int, int]:
        """Those that are done once for each element they make, and those done more often."""
        rows = group.rows
        own = sum(cost * elements for (elements, *_), cost in group.arithmetic.items())
        own += sum(again.values())
        own += 0 if rows is None else self._chosen(group, rows) * self._machine.chosen_in_rows
        repeated = group.repeated(self.operations.atoms, self._machine, arithmetic)
        repeated += 0 if rows is None else self._in_later_sweeps(group.members, rows, again)
        return own, repeated

    def _spread(self, group: Group) -> Spread | Refusal:
        members, spread = self._last_spread
        if members != group.members:
            cut = self._machine.cuts and not self._is_of_rows(group)
            spread = self._places.of(group.members, cut=cut)
            self._last_spread = group.members, spread
        return spread

    def _done_at_places(self, group: Group) -> tuple[Mapping[int, int], Arithmetic | None]:
        """Instructions for what a group computes at more than one place, by member; and its
        arithmetic, if what it is done for is known of each operation."""
        if not self._places.are_several(group.members):
            return {}, None
        if group.members not in self._at_places:
            spread = self._spread(group)
            at_places = spread.computed.items() if isinstance(spread, Spread) else ()
            again = {
                member: self._done_again(member, at) for member, at in at_places if len(at) > 1
            }
            arithmetic: Arithmetic = Counter()
            for member, at in at_places if self._machine.cuts else ():
                arithmetic += self._arithmetic(member, self._places.share(at))
            self._at_places[group.members] = again, arithmetic or None
        return self._at_places[group.members]

    def elements_read(self, group: Group, value: Value) -> int:
        """How often a group reads elements of a value that it does not make: at each of its places,
        and in each sweep of a row that is not kept."""
        readers = {member for member in self.readers.get(value, ()) if member in group.members}
        sweeps = 1 + (group.rows.swept_twice.get(value, 0) if group.rows is not None else 0)
        reads = (read for reader in readers for read in self.operations.reads[reader])
        paths = {path for read in reads if read.value is value for path in read.paths}
        elements = value.elements
        if len(paths) > 1 or self._places.are_several(group.members):
            spread = self._spread(group)
            loaded = spread.loaded if isinstance(spread, Spread) else ()
            places = [number for read, number in loaded if read is value]
            elements = max(elements, self._places.elements(places, value))
        return elements * sweeps

    def _arithmetic(self, member: int, share: int) -> Arithmetic:
        op, outs = self.operations.nodes[member].op, self.operations.nodes[member].outs
        indexed_by = frozenset[int]().union(*map(self.operations.atoms.of, outs))
        made = max(out.elements for out in outs)
        cost = operation_cost(op, self._machine)
        return Counter({(made, indexed_by, share, is_costly(op), is_divided(op)): cost})

    def _done_again(self, member: int, numbers: set[int]) -> int:
        statement = self.operations.nodes[member]
        value = max(statement.outs, key=lambda out: out.elements)
        again = self._places.elements(numbers, value) - value.elements
        return max(again, 0) * repeated_cost(statement.op, self._machine)

    def _in_later_sweeps(
        self, members: Sequence[int], rows: Rows, at_places: Mapping[int, int]
    ) -> int:
        """Instructions for what later sweeps make again, at each of its places."""
        found, inside = 0, frozenset(members)
        for value, more in rows.swept_twice.items():
            member = self.operations.node_of(value)
            if member in inside:
                op = self.operations.nodes[member].op
                longer = self._machine.in_strips if rows.in_strips and is_costly(op) else 1
                found += repeated_cost(op, self._machine) * value.elements * more * longer
                found += at_places.get(member, 0) * more
        return found

    def _chosen(self, group: Group, rows: Rows) -> int:
        """Elements that a group chooses along its rows, by pads and concatenations, at each place
        where it does, if these are not a few long parts, swept one after the other."""
        nodes = self.operations.nodes
        choosing = [m for m in group.members if not self._changing(nodes[m]) <= rows.kept]
        own = {member: _ends(nodes[member]) for member in choosing}
        ends = sorted({end for of_node in own.values() for end in of_node})
        parts = [end - start for start, end in itertools.pairwise(ends)]
        shortest = min(parts, default=0)
        swept = len(parts) <= MOST_PARTS and shortest >= self._machine.shortest_part
        chosen = [member for member in choosing if not (own[member] and swept)]
        several = bool(chosen) and self._places.are_several(group.members)
        spread = self._spread(group) if several else None
        places = spread.computed if isinstance(spread, Spread) else dict[int, set[int]]()
        return sum(len(places.get(m, {HERE})) * nodes[m].out.elements for m in chosen)

    def _changing(self, statement: Statement) -> AtomSet:
        """The atoms along which a pad or a concatenation reads now this, now that."""
        return self.operations.atoms.along(statement.outs[0], joints(statement))

    def boundary_asked_inside(self, group: Group) -> bool:
        """Whether a segment_set is in the group together with what reads it."""
        inside = frozenset(group.members)
        return any(not inside.isdisjoint(self.readers.get(value, ())) for value in group.requests)

    def names(self, group: Group) -> str:
        """The operations of a group, as a person reads them; only the ends of a long one."""
        members = group.members
        if len(members) <= 4:
            return ", ".join(map(self.name, members))
        first, second, last = map(self.name, (members[0], members[1], members[-1]))
        return f"{first}, {second}, ..., {last}"

    def name(self, member: int) -> str:
        statement = self.operations.nodes[member]
        return f"{statement.outs[0]}={operation_name(statement.op)}"

    def _moved(self, loads: Mapping[Value, int], stores: Sequence[Value]) -> int:
        free = self.operations.free
        return bytes_read(loads, free) + bytes_written(stores, free)


def _domains_differ(group: Group, related: bool) -> Refusal | None:
    sizes = {value: value.elements for value in group.stores}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{value} has {size}" for value, size in sizes.items())
        return Refusal(f"a kernel stores over one domain, but {listed} elements")
    if related or group.domain is not None:
        return None
    return Refusal("nothing relates their domains, and they differ")


def _ends(statement: Statement) -> set[int]:
    """Where a row begins, ends and reads another operand, or none, if it is padded or concatenated
    along its last dimension."""
    found, last = joints(statement), len(statement.out.shape) - 1
    return {0, *found[last], statement.out.shape[last]} if list(found) == [last] else set()
