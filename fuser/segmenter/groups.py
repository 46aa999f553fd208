"""Groups: operations that would share a kernel, what that kernel moves, and whether it can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from fuser.ir.nodes import Cast, Pointwise, Scatter, Value
from fuser.ir.printer import operation_name
from fuser.segmenter.cuts import Cuts
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.machine import Limits, Machine
from fuser.segmenter.places import Places, Spread
from fuser.segmenter.refusal import Refusal
from fuser.segmenter.rows import Rows, find_rows
from fuser.segmenter.scatters import scatter_refusal
from fuser.segmenter.traffic import bytes_moved, bytes_written, elements_of
from fuser.segmenter.work import Arithmetic, arithmetic_of, size_in_text


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
    scatters: bool

    @property
    def domain(self) -> tuple[int, ...] | None:
        """The one shape, sizes of 1 left out, of all that it stores; None if there are several."""
        shapes = {tuple(size for size in value.shape if size != 1) for value in self.stores}
        return shapes.pop() if len(shapes) == 1 else None


class GroupMaker:
    """Makes groups of nodes, given which values must be stored whatever shares a kernel."""

    def __init__(
        self, operations: OperationGraph, stored: Collection[Value], machine: Machine
    ) -> None:
        self.operations = operations
        self.machine = machine
        self._stored = frozenset(stored)
        self.places = Places(operations)
        self._cuts = Cuts(operations, self.places)
        self.readers: dict[Value, list[int]] = {}
        """The nodes that read each value."""
        self._cast_from = {
            node.out: node.op.arg
            for node in operations.nodes
            if isinstance(node.op, Cast) and node.op.arg in operations.free
            if node.out not in self._stored
        }
        """By a cast of what is in memory: what that is."""
        self._singles: dict[int, Group] = {}
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
        made = max(out.elements for out in outs)
        reads = self.operations.reads[index]
        loads = {read.value: elements_of(statement, read.value, made) for read in reads}
        used = tuple(v for v in outs if v in self._stored or v in self.readers)
        rows = find_rows(self.operations, (index,), used, self.machine)
        return Group(
            members=(index,),
            loads=loads,
            stores=used,
            arithmetic=arithmetic_of(self.operations, index, self.machine),
            size=size_in_text(op, self.machine),
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
        spread = self.spread(group)
        if isinstance(spread, Refusal):
            return spread
        most_live = self.limits(group).live
        if group.live > most_live:
            group = replace(group, live=self._live_values(group))
            if group.live > most_live:
                return Refusal(f"{group.live} values at a time do not fit the registers")
        if group.scatters:
            refusal = scatter_refusal(self.operations, group.members, group.stores)
            if refusal is not None:
                return refusal
        rows = find_rows(self.operations, group.members, group.stores, self.machine)
        if isinstance(rows, Refusal):
            return rows
        if rows is None:
            refusal = _domains_differ(group, related) or self._cuts.refusal(spread, self.machine)
        return refusal or replace(group, rows=rows)

    def _too_large(self, group: Group) -> Refusal | None:
        read, most = self.operations.address_count(group.loads), self.limits(group).tensors
        tensors = len(group.stores) + read
        if tensors > most:
            return Refusal(f"{tensors} tensors are more than the {most} of one kernel")
        if group.size > self.machine.most_operations:
            most = self.machine.most_operations
            return Refusal(f"a kernel of more than {most} operations compiles slowly")
        return None

    def limits(self, group: Group) -> Limits:
        """What a group may hold as one kernel."""
        return self.machine.of_rows if self._is_of_rows(group) else self.machine.of_points

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

    def spread(self, group: Group) -> Spread | Refusal:
        """The places of a group, or why they are none."""
        members, spread = self._last_spread
        if members != group.members:
            cut = self.machine.cuts and not self._is_of_rows(group)
            spread = self.places.of(group.members, cut=cut)
            self._last_spread = group.members, spread
        return spread

    def elements_read(self, group: Group, value: Value) -> int:
        """How often a group reads elements of a value that it does not make: at each of its places,
        and in each sweep of a row that is not kept."""
        readers = {member for member in self.readers.get(value, ()) if member in group.members}
        again = group.rows.swept_twice.get(value, 0) if group.rows is not None else 0
        reads = (read for reader in readers for read in self.operations.reads[reader])
        paths = {path for read in reads if read.value is value for path in read.paths}
        elements = value.elements
        if len(paths) > 1 or self.places.are_several(group.members):
            spread = self.spread(group)
            loaded = spread.loaded if isinstance(spread, Spread) else ()
            places = [number for read, number in loaded if read is value]
            elements = max(elements, self.places.elements(places, value))
        return int(elements * (1 + again))

    def as_kernel(self, group: Group) -> Group | None:
        """A group of any nodes with its rows; None if it cannot be a kernel, or one is asked to end
        inside it."""
        if self.boundary_asked_inside(group):
            return None
        checked = self.checked(group, related=False)
        return None if isinstance(checked, Refusal) else checked

    def boundary_asked_inside(self, group: Group) -> bool:
        """Whether a segment_set is in the group together with what reads it."""
        inside = frozenset(group.members)
        return any(not inside.isdisjoint(self.readers.get(value, ())) for value in group.requests)

    def listed(self, members: Sequence[int]) -> str:
        """Some operations, as a person reads them; of many, only the ends."""
        if len(members) <= 4:
            return ", ".join(map(self.name, members))
        first, second, last = map(self.name, (members[0], members[1], members[-1]))
        return f"{first}, {second}, ..., {last}"

    def name(self, member: int) -> str:
        statement = self.operations.nodes[member]
        return f"{statement.outs[0]}={operation_name(statement.op)}"

    def _moved(self, loads: Mapping[Value, int], stores: Sequence[Value]) -> int:
        """Bytes moved; a value in memory that is cast is read as it is there, and cast again."""
        free, read = self.operations.free, dict[Value, int]()
        for value, elements in loads.items():
            origin = self._cast_from.get(value, value)
            read[origin] = min(origin.elements, read.get(origin, 0) + elements)
        stored = [value for value in stores if value not in self._cast_from]
        return bytes_moved(read, free) + bytes_written(stored, free)


def _domains_differ(group: Group, related: bool) -> Refusal | None:
    sizes = {value.elements: value for value in reversed(group.stores)}
    if len(sizes) > 1:
        firsts = sorted(sizes.items(), key=lambda item: item[1].id)
        listed = ", ".join(f"{value} has {size}" for size, value in firsts)
        return Refusal(f"a kernel stores over one domain, but {listed} elements")
    if related or group.domain is not None:
        return None
    return Refusal("nothing relates their domains, and they differ")
