"""The groups of the moment: which operations they have, what they cost, and would as one.

The key of a group is one of its nodes.
"""

from __future__ import annotations

from collections.abc import Collection

from fuser.ir.nodes import Value
from fuser.ir.printer import operation_name
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.groups import Group, GroupMaker
from fuser.segmenter.machine import Machine
from fuser.segmenter.price import Price, saved
from fuser.segmenter.prices import Prices
from fuser.segmenter.refusal import Refusal


class CurrentGroups:
    """Groups under construction; at first, each node is one."""

    def __init__(
        self, operations: OperationGraph, stored: Collection[Value], machine: Machine
    ) -> None:
        self.operations = operations
        self.machine = machine
        self.maker = GroupMaker(operations, stored, machine)
        self.prices = Prices(self.maker)
        numbers = range(len(operations.nodes))
        self.by_key = {number: self.maker.single(number) for number in numbers}
        self.key_of = list(numbers)
        """By node: the key of its group."""
        self._prices: dict[int, tuple[Group, Price]] = {}
        """By key: a group whose price was asked for, and its price."""
        self._joins: dict[tuple[int, int], tuple[Group, Group, Group]] = {}
        """By keys: two groups, and what they would be as one."""

    def merge(self, kept: int, gone: int, joined: Group) -> None:
        """Make two groups one, which has the key of the first."""
        for member in self.by_key.pop(gone).members:
            self.key_of[member] = kept
        self.by_key[kept] = joined

    def rename(self, old: int, new: int) -> None:
        """Give a group another of its nodes as key."""
        self.by_key[new] = self.by_key.pop(old)
        for member in self.by_key[new].members:
            self.key_of[member] = new

    def step_of(self, number: int) -> int:
        """The key of the group a node is in; an extern's own number."""
        return self.key_of[number] if number < len(self.key_of) else number

    def names(self, key: int) -> str:
        """The operations of a group, as a person reads them."""
        return self.maker.listed(self.by_key[key].members)

    def step(self, key: int) -> str:
        """A group or an extern, as a person reads it."""
        if key in self.by_key:
            return f"[{self.names(key)}]"
        extern = self.operations.externs[key - len(self.operations.nodes)]
        return f"torch's {extern.outs[0]}={operation_name(extern.op)}"

    def joined(self, first: int, second: int) -> Group:
        """Two groups as one, made once: a pair is queued, tried, and asked why it stayed apart."""
        a, b, key_of = self.by_key[first], self.by_key[second], self.key_of
        known = self._joins.get((first, second))
        if known is None or known[0] is not a or known[1] is not b:
            joined = self.maker.united([a, b], lambda node: key_of[node] in (first, second))
            known = self._joins[first, second] = a, b, joined
        return known[2]

    def profit(self, first: int, second: int, joined: Group) -> int:
        """Bytes that a merge saves."""
        return self.cost(first) + self.cost(second) - self.prices.cost(joined)

    def cost(self, key: int) -> int:
        """The cost of a group."""
        return self.price(key).total

    def price(self, key: int) -> Price:
        """The price of a group, which is found once: each is tried with all its neighbours."""
        group = self.by_key[key]
        known = self._prices.get(key)
        if known is None or known[0] is not group:
            known = self._prices[key] = group, self.prices.price(group)
        return known[1]

    def saved(self, first: int, second: int, joined: Group) -> Price:
        """What a merge saves by what it is for: its profit, for a person."""
        return saved(map(self.price, (first, second)), [self.prices.price(joined)])

    def boundary_asked(self, first: int, second: int) -> Refusal | None:
        """The segment_set through which one group feeds the other, if any does."""
        for producer, consumer in ((first, second), (second, first)):
            for value in self.by_key[producer].requests:
                readers = self.maker.readers.get(value, ())
                if any(self.key_of[reader] == consumer for reader in readers):
                    return Refusal(f"{value} = segment_set asks for a boundary")
        return None
