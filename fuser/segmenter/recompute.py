"""Recomputation: a value that several kernels read may be cheaper made again than stored.

    [cast] -> T1 Float | [sum] | [mul]     ->     [cast sum] | [cast mul]
    T0 BFloat16                                   T0 is read twice, T1 is never stored

What a kernel makes only for other kernels is looked at, last first. It is made again by each of its
readers if few and cheap pointwise operations lead to it from values that are in memory anyway, or
that are so small that storing them costs next to nothing: the mean of a row, not the row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fuser.ir.nodes import Pointwise, Value
from fuser.segmenter.current_groups import CurrentGroups
from fuser.segmenter.graph import POINT_OPERATIONS
from fuser.segmenter.price import Price
from fuser.segmenter.traffic import bytes_moved, bytes_written
from fuser.segmenter.work import operation_cost, repeated_cost

MAX_REPEATED = 8
"""Operations that one value may take to make again."""

SMALL = 16
"""How many times smaller a value is that is rather stored than made again."""

Loads = dict[Value, int]
"""Elements read of each value."""


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How to make a value again: from what is in memory, of which each element takes so many, by
    how many instructions an element; `repeated` ones where that is done more often than it has
    elements.

    `small` are sources that have to be stored for it.
    """

    sources: Mapping[Value, int]
    small: tuple[Value, ...]
    instructions: int
    repeated: int


class Recomputation:
    """What the kernels of finished groups load and store, by group, once `run` has decided."""

    def __init__(self, groups: CurrentGroups, stored: Collection[Value]) -> None:
        self._groups = groups
        self._operations = groups.operations
        self._machine = groups.machine
        self._stored = frozenset(stored)
        self.loads: dict[int, Loads] = {k: dict(g.loads) for k, g in groups.by_key.items()}
        self.stores = {key: dict.fromkeys(group.stores) for key, group in groups.by_key.items()}
        self._readers: dict[Value, dict[int, None]] = {}
        for key, loads in self.loads.items():
            for value in loads:
                self._readers.setdefault(value, {})[key] = None
        self._hidden: dict[int, int] = {}
        """By group: instructions of what it makes again while it waits for memory."""
        self.log: list[str] = []

    def run(self) -> None:
        """Decide for each value that only other kernels read."""
        for value in sorted(self._readers, key=lambda value: -value.id):
            if self._crosses(value):
                self._consider(value)

    def crossing(self) -> list[Value]:
        """What one kernel makes and another reads."""
        read = dict.fromkeys(value for loads in self.loads.values() for value in loads)
        return [value for value in read if self._operations.node_of(value) is not None]

    def _consider(self, value: Value) -> None:
        """Make a value again where it is read, if that costs less than storing it."""
        recipe = self._recipe(value) if value.elements else None
        maker, readers = self._key(value), list(self._readers[value])
        if recipe is None or not readers:
            return
        free = self._operations.free
        moved = bytes_written([value], free) - bytes_written(recipe.small, free)
        launch = repeated = 0
        if list(self.stores[maker]) == [value] and not recipe.small:
            moved += self._bytes(self.loads[maker])
            launch = self._machine.launch_bytes
        changed = {key: self._with_sources(key, value, recipe) for key in readers}
        hidden = dict[int, int]()
        for key, loads in changed.items():
            if self._reads_too_many(key, loads):
                return
            moved += self._bytes(self.loads[key]) - self._bytes(loads)
            points = self._points(key, value)
            once = points <= value.elements
            instructions = recipe.instructions if once else recipe.repeated
            read = self._groups.maker.elements_read(self._groups.by_key[key], value)
            at_places = max(read - points, 0)
            again = recipe.repeated * at_places
            hidden[key] = min(again, self._hides(key))
            waited = again - hidden[key]
            repeated += (instructions * points + waited) // self._machine.operations_per_byte
        saved = Price(launch, moved, repeated=-repeated)
        if saved.total <= 0:
            return
        for key, loads in changed.items():
            self._hidden[key] = self._hidden.get(key, 0) + hidden[key]
            self._set_loads(key, loads)
        for small in recipe.small:
            self.stores[self._key(small)][small] = None
        del self.stores[maker][value]
        if not self.stores[maker]:
            self._set_loads(maker, {})
        where = ", ".join(f"[{self._groups.names(key)}]" for key in readers)
        self.log.append(f"made again:       {value} in {where}: {saved}")

    def _reads_too_many(self, key: int, loads: Loads) -> bool:
        """Whether a group that loads this instead moves more tensors, and more than it may."""
        count = self._operations.address_count
        read, before = count(loads), count(self.loads[key])
        most = self._groups.maker.limits(self._groups.by_key[key]).tensors
        return read > before and read + len(self.stores[key]) > most

    def _set_loads(self, key: int, loads: Loads) -> None:
        for value in self.loads[key]:
            del self._readers[value][key]
        self.loads[key] = loads
        for value in loads:
            self._readers.setdefault(value, {})[key] = None

    def _recipe(self, value: Value) -> _Recipe | None:
        """The operations that lead to a value from memory; None if too many or too costly."""
        sources: dict[Value, None] = {}
        small: dict[Value, None] = {}
        made: set[int] = set()
        pending = [value]
        while pending:
            wanted = pending.pop()
            node = self._operations.node_of(wanted)
            if node is None or (wanted is not value and self._in_memory(wanted)):
                sources[wanted] = None
                continue
            if wanted.elements * SMALL <= value.elements and self._is_row_value(wanted):
                small[wanted] = sources[wanted] = None
                continue
            op = self._operations.nodes[node].op
            asked = isinstance(op, Pointwise) and op.op == "segment_set"
            if not isinstance(op, POINT_OPERATIONS) or asked:
                return None
            made.add(node)
            if len(made) > MAX_REPEATED:
                return None
            pending += [read.value for read in self._operations.reads[node]]
        once = sum(operation_cost(self._operations, node, self._machine) for node in made)
        repeated = sum(repeated_cost(self._operations, node, self._machine) for node in made)
        singles = [self._groups.maker.single(node).loads for node in made]
        read = {source: sum(loads.get(source, 0) for loads in singles) for source in sources}
        each = {source: -(-elements // value.elements) for source, elements in read.items()}
        return _Recipe(each, tuple(small), once, repeated)

    def _with_sources(self, key: int, value: Value, recipe: _Recipe) -> Loads:
        """What a group loads if it makes a value itself."""
        loads = {v: elements for v, elements in self.loads[key].items() if v is not value}
        for source, each in recipe.sources.items():
            if self._key(source) != key:
                wanted = loads.get(source, 0) + each * self.loads[key][value]
                loads[source] = min(source.elements, wanted)
        return loads

    def _points(self, key: int, value: Value) -> int:
        """How often a group would make a value: at every point of its domain, or once a row."""
        group, atoms = self._groups.by_key[key], self._operations.atoms
        if value.elements == 1:
            return 0
        if group.rows is not None:
            return atoms.elements(atoms.of(value) | group.rows.kept)
        return max(value.elements, *(stored.elements for stored in group.stores))

    def _hides(self, key: int) -> int:
        """Instructions for which a group still has time while it waits for memory."""
        hides = self._groups.prices.hides(self._groups.by_key[key])
        return max(hides - self._hidden.get(key, 0), 0)

    def _crosses(self, value: Value) -> bool:
        return self._operations.node_of(value) is not None and value not in self._stored

    def _is_row_value(self, value: Value) -> bool:
        """Whether the kernel that makes a value has one for each row, and so could store it."""
        rows = self._groups.by_key[self._key(value)].rows
        return rows is not None and rows.kept <= self._operations.atoms.of(value)

    def _in_memory(self, value: Value) -> bool:
        """Whether a kernel stores it, as far as decided."""
        return value in self.stores[self._key(value)]

    def _key(self, value: Value) -> int:
        """The group that makes a value; -1 for one that is free."""
        node = self._operations.node_of(value)
        return -1 if node is None else self._groups.step_of(node)

    def _bytes(self, loads: Loads) -> int:
        return bytes_moved(loads, self._operations.free)
