"""Prices: what a group costs as one kernel, in bytes of memory, by what it moves and computes.

    T1 = exp(T0 [64])        T3 = T1 / T2 [8192, 64]     64 exponentials; in one kernel 8192 x 64
    T1 = exp(T0 [8192, 1])   T3 = T1 / T2 [8192, 64]     8192, once a row; in one kernel no vectors

What it computes more often than there are elements is priced as often as it does so.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fuser.ir.nodes import Statement
from fuser.segmenter.atoms import AtomSet
from fuser.segmenter.cuts import joints
from fuser.segmenter.groups import Group, GroupMaker
from fuser.segmenter.machine import MOST_PARTS, Machine
from fuser.segmenter.places import ALL, HERE, Spread
from fuser.segmenter.price import Price
from fuser.segmenter.rows import Rows
from fuser.segmenter.traffic import bytes_moved
from fuser.segmenter.work import Arithmetic, arithmetic_of, is_costly, repeated_cost


@dataclass(frozen=True, slots=True)
class Points:
    """What a kernel of points is done for: how many it stores, in how many rows along the innermost
    axis, and the atoms that number these; `along_lines` are those that number rows in memory."""

    count: int
    rows: int
    along_rows: AtomSet
    along_lines: AtomSet

    def repeated(self, arithmetic: Arithmetic, machine: Machine) -> int:
        """Instructions done more often than there are elements.

        What has one element is computed once a thread, and what is the same all along the innermost
        axis of what is stored, once for a row of it.
        """
        found = 0
        for work, cost in arithmetic.items():
            done = (self.rows if work.atoms <= self.along_rows else self.count) * work.share // ALL
            times = machine.functions if work.is_costly else 1
            found += cost * times * (done - work.elements) if 1 < work.elements < done else 0
        return found

    def unhidden(self, arithmetic: Arithmetic) -> int:
        """Instructions of divisions and costly functions that are done again at every point of what
        is stored: of what is another number for each element that is innermost in memory."""
        found = 0
        for work, cost in arithmetic.items():
            if work.elements > 1 and (work.is_costly or work.is_divided):
                done = 0 if work.atoms <= self.along_lines else self.count * work.share // ALL
                found += cost * max(done - work.elements, 0)
        return found

    def one_by_one(self, arithmetic: Arithmetic, machine: Machine) -> int:
        """Instructions that costly functions take more for one number after the other: of what is
        the same all along the innermost axis, there are no vectors, but where that is so short, or
        cut into pieces so short, that neighbours along another axis are side by side.
        """
        found = 0
        for work, cost in arithmetic.items():
            if work.is_costly and work.elements > 1 and work.atoms <= self.along_rows:
                done = self.count * work.share // ALL
                fills_half_a_vector = 2 * done >= machine.lanes * work.elements
                found += cost * work.elements if fills_half_a_vector else 0
        return found * machine.functions * (machine.lanes - 1)


@dataclass(frozen=True, slots=True)
class _Instructions:
    """`once` are done once for each element they make, `at_places` again at its further places,
    `chosen` for elements that rows choose, and `repeated` more often for other reasons. `unhidden`
    and `one_by_one` are those that wait for each other."""

    once: int
    at_places: int
    chosen: int = 0
    repeated: int = 0
    unhidden: int = 0
    one_by_one: int = 0

    @property
    def own(self) -> int:
        """Those that memory may hide, beside the `repeated` ones."""
        return self.once + self.at_places + self.chosen

    @property
    def alone(self) -> int:
        """Those that it does not."""
        return self.unhidden + self.one_by_one


class Prices:
    """What groups of one maker cost on its machine."""

    def __init__(self, maker: GroupMaker) -> None:
        self._maker = maker
        self._operations = maker.operations
        self._machine = maker.machine
        self._at_places: dict[tuple[int, ...], tuple[Mapping[int, int], Arithmetic | None]] = {}
        """By members: see `_done_at_places`. Each group is priced with all its neighbours."""
        self._last: tuple[Group, Price] | None = None
        """The group asked for last: what two are as one is tried, logged, and then a group."""

    def cost(self, group: Group) -> int:
        """The cost of a group as one kernel, in bytes."""
        return self.price(group).total

    def price(self, group: Group) -> Price:
        """The cost of a group by what it is for."""
        if self._last is None or self._last[0] is not group:
            self._last = group, self._price(group)
        return self._last[1]

    def _price(self, group: Group) -> Price:
        """Instructions of a kind cost what they add to those of the kinds before."""
        machine, done, again = self._machine, self._instructions(group), self.read_again(group)
        more = done.repeated
        moved = int((group.moved + again) * self._slowed(group))  # what memory could move meanwhile
        costs = [
            machine.launch_bytes + moved,
            machine.kernel_cost(moved, done.once, 0),
            machine.kernel_cost(moved, done.once + done.at_places, more, alone=done.unhidden),
            machine.kernel_cost(moved, done.own, more, alone=done.unhidden),
            machine.kernel_cost(moved, done.own, more, alone=done.alone),
        ]
        idle = moved - group.moved - again
        added = (after - before for before, after in itertools.pairwise(costs))
        return Price(machine.launch_bytes, group.moved, again, idle, *added)

    def hides(self, group: Group) -> int:
        """Instructions for which a group has time while memory is waited for, beside its own."""
        meanwhile, done = group.moved * self._machine.operations_per_byte, self._instructions(group)
        return max(meanwhile - done.own - done.repeated, 0)

    def read_again(self, group: Group) -> int:
        """Bytes that later sweeps of its rows read from memory once more. Of many rows, a cache
        holds what is read again of those at work, if it has room for that."""
        rows = group.rows
        if rows is None or not rows.swept_twice:
            return 0
        if self._slowed(group) == 1 and not self._is_past_cache(group, rows):
            return 0
        more, found = rows.swept_twice, 0
        for sweep in range(math.ceil(max(more.values()))):
            loads = {
                value: int(n * min(more[value] - sweep, 1))
                for value, n in group.loads.items()
                if more.get(value, 0) > sweep
            }
            found += bytes_moved(loads, self._operations.free)
        return found

    def _is_past_cache(self, group: Group, rows: Rows) -> bool:
        """Whether what the rows at work read again is more than a cache holds."""
        loads = {value: n for value, n in group.loads.items() if value in rows.swept_twice}
        if not loads:
            return False
        count = self._operations.atoms.elements(rows.kept)
        columns = self._machine.columns_of_a_processor if rows.in_columns else 1
        columns = self._machine.rows_of_a_strip if rows.in_strips else columns
        at_once = min(self._machine.rows_at_once * columns, count)
        again = bytes_moved(loads, self._operations.free)
        return again * at_once > self._machine.cache_bytes * count

    def _slowed(self, group: Group) -> Fraction:
        """How many times longer its bytes take to move, since few rows leave processors idle: any
        number of these share rows that are swept once, if nothing is folded over all rows."""
        rows = group.rows
        if rows is None or not (rows.swept_again or rows.is_alone):
            return Fraction(1)
        count = self._operations.atoms.elements(rows.kept)
        return self._machine.slowed(count, alone=rows.is_alone, in_columns=rows.in_columns)

    def _instructions(self, group: Group) -> _Instructions:
        again, at_places = self._done_at_places(group)
        once = sum(cost * work.elements for work, cost in group.arithmetic.items())
        more = sum(again.values())
        if group.rows is not None:
            chosen = self._chosen(group, group.rows) * self._machine.chosen_in_rows
            later = self._in_later_sweeps(group.members, group.rows, again)
            unhidden = group.rows.unhidden if self._machine.unhidden else 0
            return _Instructions(once, more, chosen, group.rows.repeated + later, unhidden)
        points, arithmetic = self._points(group), at_places or group.arithmetic
        if points is None:
            return _Instructions(once, more)
        return _Instructions(
            once,
            more,
            repeated=points.repeated(arithmetic, self._machine),
            unhidden=points.unhidden(arithmetic) if self._machine.unhidden else 0,
            one_by_one=points.one_by_one(arithmetic, self._machine),
        )

    def _points(self, group: Group) -> Points | None:
        """What a group stores; None if it is not a kernel of points."""
        stored = max(group.stores, key=lambda value: value.elements, default=None)
        if group.scatters or stored is None or not stored.elements:
            return None
        atoms = self._operations.atoms
        dims = [dim for dim in atoms.factors(stored) if dim]
        if not dims:
            return None
        inner = dims[-1][-1]
        in_memory: int | None = inner
        if self._machine.unhidden:
            in_memory = self._operations.innermost(group.loads, stored)
        rows, held = stored.elements // atoms.size(inner), atoms.of(stored)
        return Points(stored.elements, rows, held - {inner}, held - {in_memory})

    def _done_at_places(self, group: Group) -> tuple[Mapping[int, int], Arithmetic | None]:
        """Instructions for what a group computes at more than one place, by member; and its
        arithmetic, if what it is done for is known of each operation."""
        places = self._maker.places
        if not places.are_several(group.members):
            return {}, None
        if group.members not in self._at_places:
            spread = self._maker.spread(group)
            at_places = spread.computed.items() if isinstance(spread, Spread) else ()
            again = {
                member: self._done_again(member, at) for member, at in at_places if len(at) > 1
            }
            arithmetic: Arithmetic = Counter()
            for member, at in at_places if self._machine.cuts else ():
                share = places.share(at)
                arithmetic.update(arithmetic_of(self._operations, member, self._machine, share))
            self._at_places[group.members] = again, arithmetic or None
        return self._at_places[group.members]

    def _done_again(self, member: int, numbers: set[int]) -> int:
        statement = self._operations.nodes[member]
        value = max(statement.outs, key=lambda out: out.elements)
        again = self._maker.places.elements(numbers, value) - value.elements
        return max(again, 0) * repeated_cost(self._operations, member, self._machine)

    def _in_later_sweeps(
        self, members: Sequence[int], rows: Rows, at_places: Mapping[int, int]
    ) -> int:
        """Instructions for what later sweeps make again, at each of its places."""
        found, inside = 0, frozenset(members)
        for value, more in rows.swept_twice.items():
            member = self._operations.node_of(value)
            if member in inside:
                op = self._operations.nodes[member].op
                longer = self._machine.strip_functions if rows.in_strips and is_costly(op) else 1
                cost = repeated_cost(self._operations, member, self._machine)
                once = cost * value.elements * longer
                found += int((once + at_places.get(member, 0)) * more)
        return found

    def _chosen(self, group: Group, rows: Rows) -> int:
        """Elements that a group chooses along its rows, by pads and concatenations, at each place
        where it does, if these are not a few long parts, swept one after the other."""
        nodes = self._operations.nodes
        choosing = [m for m in group.members if not self._changing(nodes[m]) <= rows.kept]
        own = {member: _ends(nodes[member]) for member in choosing}
        ends = sorted({end for of_node in own.values() for end in of_node})
        parts = [end - start for start, end in itertools.pairwise(ends)]
        shortest = min(parts, default=0)
        swept = len(parts) <= MOST_PARTS and shortest >= self._machine.shortest_part
        chosen = [member for member in choosing if not (own[member] and swept)]
        several = bool(chosen) and self._maker.places.are_several(group.members)
        spread = self._maker.spread(group) if several else None
        places = spread.computed if isinstance(spread, Spread) else dict[int, set[int]]()
        return sum(len(places.get(m, {HERE})) * nodes[m].out.elements for m in chosen)

    def _changing(self, statement: Statement) -> AtomSet:
        """The atoms along which a pad or a concatenation reads now this, now that."""
        return self._operations.atoms.along(statement.outs[0], joints(statement))


def _ends(statement: Statement) -> set[int]:
    """Where a row begins, ends and reads another operand, or none, if it is padded or concatenated
    along its last dimension."""
    found, last = joints(statement), len(statement.out.shape) - 1
    return {0, *found[last], statement.out.shape[last]} if list(found) == [last] else set()
