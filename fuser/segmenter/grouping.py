"""Grouping: which operations share a kernel, a profit for every merge and a reason for the rest.

Each node starts as a group of its own. Neighbours are groups one of which reads the other, or which
read the same memory; the merge of neighbours that saves most is taken first. Then groups that
nothing relates but their domain are set side by side.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Collection
from dataclasses import dataclass

from fuser.ir.nodes import Value
from fuser.ir.printer import operation_name
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.groups import Group, GroupMaker
from fuser.segmenter.neighbours import neighbouring_nodes
from fuser.segmenter.order import MergeOrder
from fuser.segmenter.prices import Prices
from fuser.segmenter.profit import Machine
from fuser.segmenter.refusal import Refusal

ROUNDS = 3
"""How often all boundaries are looked at, as long as operations move over them."""

SIDE_BY_SIDE = 8
"""How many earlier groups over its domain a group is tried with."""

SHORT = 128
"""A kernel of groups side by side takes no longer than as many launches. One launch less is under
1 % of a longer one, and a processor foresees the worse what is read, the more tensors there are."""


@dataclass(frozen=True, slots=True)
class _Detour(Refusal):
    """A third step has to run between two: they stay apart until it is in one of them."""

    through: int


class Grouping:
    """Groups under construction. The key of a group is one of its nodes."""

    def __init__(
        self, operations: OperationGraph, stored: Collection[Value], machine: Machine
    ) -> None:
        self.operations = operations
        self.machine = machine
        self.order = MergeOrder(operations.graph)
        self._maker = GroupMaker(operations, stored, machine)
        self._prices = Prices(self._maker)
        self.log: list[str] = []
        numbers = range(len(operations.nodes))
        self.groups = {number: self._maker.single(number) for number in numbers}
        self._group_of = list(numbers)
        self._versions = [0] * len(numbers)
        self._costs: dict[int, tuple[Group, int]] = {}
        """By key: a group whose cost was asked for, and its cost."""
        self._joins: dict[tuple[int, int], tuple[Group, Group, Group]] = {}
        """By keys: two groups, and what they would be as one."""
        self._stays: dict[tuple[int, int], tuple[Group, Group]] = {}
        """By a node and the key of a neighbour: the groups between which it did not move."""
        self._pairs = neighbouring_nodes(operations)
        self._queue: list[tuple[int, int, int, int, int]] = []
        self._waiting: dict[int, list[tuple[int, int]]] = {}
        """By group: pairs of nodes whose merge was refused, to be tried again when it grows, or
        when it is in one of theirs, as it ran between them."""
        self.boundaries: dict[tuple[int, int], str] = {}
        """By their keys: why neighbouring groups stayed apart, each pair once."""

    def run(self) -> None:
        """Merge until nothing gains."""
        for first, second in self._pairs:
            self._enqueue(first, second)
        self._merge_queued()
        self._merge_side_by_side()
        self._merge_queued()
        self._move_over_boundaries()
        while not self._settled():
            self._merge_queued()

    def step_of(self, number: int) -> int:
        """The key of the group a node is in; an extern's own number."""
        return self._group_of[number] if number < len(self._group_of) else number

    def names(self, key: int) -> str:
        """The operations of a group, as a person reads them."""
        return self._maker.names(self.groups[key])

    def elements_read(self, key: int, value: Value) -> int:
        """How often a group reads elements of a value that another makes."""
        return self._maker.elements_read(self.groups[key], value)

    def hides(self, key: int) -> int:
        """Instructions for which a group has time while memory is waited for."""
        return self._prices.hides(self.groups[key])

    def _enqueue(self, first_node: int, second_node: int) -> None:
        """Queue a pair of nodes by what merging their groups would save."""
        first, second = self._group_of[first_node], self._group_of[second_node]
        if first == second:
            return
        saved = self._profit(first, second, self._join(first, second))
        versions = self._versions[first], self._versions[second]
        heapq.heappush(self._queue, (-saved, first_node, second_node, *versions))

    def _merge_queued(self) -> None:
        while self._queue:
            _, first_node, second_node, *versions = heapq.heappop(self._queue)
            first, second = self._group_of[first_node], self._group_of[second_node]
            if first == second:
                continue
            if versions != [self._versions[first], self._versions[second]]:
                self._enqueue(first_node, second_node)
            elif (refusal := self._try(first, second)) is not None:
                detour = isinstance(refusal, _Detour)
                for key in (refusal.through,) if detour else (first, second):
                    self._waiting.setdefault(key, []).append((first_node, second_node))

    def _merge_side_by_side(self) -> None:
        """Join groups over one domain that nothing else relates."""
        by_domain: dict[object, list[int]] = {}
        for node in sorted(self.groups, key=self.order.position.__getitem__):
            key = self._group_of[node]
            if key != node:
                continue
            domains = self._domains(self.groups[key])
            earlier = [other for domain in domains for other in by_domain.get(domain, [])]
            candidates = list(dict.fromkeys(map(self._group_of.__getitem__, earlier)))
            few = [other for other in candidates if self._is_short(other, key)][-SIDE_BY_SIDE:]
            if all(self._try(other, key) is not None for other in few):
                for domain in domains:
                    by_domain.setdefault(domain, []).append(key)

    def _is_short(self, *keys: int) -> bool:
        """Whether one launch instead of several is worth the streams that memory then follows."""
        moved = sum(self.groups[key].moved for key in keys)
        return moved <= SHORT * self.machine.launch_bytes

    def _domains(self, group: Group) -> list[object]:
        """What a group and others beside it may have in common: sizes, or the atoms of rows."""
        if group.rows is not None:
            return [group.rows.kept]
        if group.domain is None:
            return []
        return [group.domain, self.operations.atoms.of(group.stores[-1])]

    def _move_over_boundaries(self) -> None:
        """Put single operations on the side of a boundary where fewer bytes cross it.

            [max sub exp sum] | [div add]     exp and sum cross
            [max sub exp sum div] | [add]     div does

        Merging takes the best pair first, so it may decide for an operation before a boundary near
        it is known. A move is right where what an operation reads still comes before it: then
        positions stay valid.
        """
        for _ in range(ROUNDS):
            moves = [pair for pair in self._pairs if self._move(*pair) or self._move(*pair[::-1])]
            self.order.regroup(self.operations.graph, self.step_of)
            if not moves:
                break

    def _move(self, node: int, neighbour: int) -> bool:
        """Move a node to the group of its neighbour, if it may and fewer bytes cross."""
        source, goal = self._group_of[node], self._group_of[neighbour]
        if source == goal or not self._stays_in_order(node, goal):
            return False
        groups = self.groups[source], self.groups[goal]
        if len(groups[0].members) == 1 or self._is_known_to_stay(node, goal, groups):
            return False
        moved = self._moved(node, source, goal)
        if moved is None:
            self._stays[node, goal] = groups
            return False
        changed, saved = moved
        words = f"{self._maker.name(node)} from [{self.names(source)}] to [{self.names(goal)}]"
        self.log.append(f"moved:            {words}: saves {saved} bytes")
        self.groups.update(changed)
        self._group_of[node] = goal
        if source == node:
            self._rename(source, changed[source].members[0])
        return True

    def _is_known_to_stay(self, node: int, goal: int, groups: tuple[Group, Group]) -> bool:
        """Whether a move was refused between groups that have not changed since: a node may have
        several neighbours in one, and is looked at in several rounds."""
        known = self._stays.get((node, goal))
        return known is not None and all(map(operator.is_, known, groups))

    def _moved(self, node: int, source: int, goal: int) -> tuple[dict[int, Group], int] | None:
        """The two groups once a node has moved, by their keys, and the bytes that saves; None where
        they may not be so, or no fewer bytes cross. Guards, cheapest first."""
        left = [member for member in self.groups[source].members if member != node]
        given = [*self.groups[goal].members, node]
        made = {source: self._maker.of_nodes(left), goal: self._maker.of_nodes(given)}
        if sum(self.groups[key].moved - group.moved for key, group in made.items()) <= 0:
            return None
        changed: dict[int, Group] = {}
        for key, group in made.items():
            checked = self._maker.checked(group, related=False)
            if isinstance(checked, Refusal) or self._maker.boundary_asked_inside(checked):
                return None
            changed[key] = checked
        saved = sum(map(self._cost, changed)) - sum(map(self._prices.cost, changed.values()))
        return (changed, saved) if saved > 0 else None

    def _rename(self, old: int, new: int) -> None:
        """Give a group another of its nodes as key."""
        self.groups[new] = self.groups.pop(old)
        self.order.position[new] = self.order.position.pop(old)
        self._waiting[new] = self._waiting.pop(old, [])
        for member in self.groups[new].members:
            self._group_of[member] = new

    def _stays_in_order(self, node: int, goal: int) -> bool:
        """Whether what the node reads comes before a group, and what reads it comes after."""
        graph, place = self.operations.graph, self.order.position
        end = place[goal]
        return all(place[self.step_of(n)] <= end for n in graph.pred[node]) and all(
            place[self.step_of(n)] >= end for n in graph.succ[node]
        )

    def _settled(self) -> bool:
        """Whether all that neighbour stay apart for a reason; the reasons are the boundaries."""
        found: dict[tuple[int, int], str] = {}
        for nodes in self._pairs:
            first, second = (self._group_of[node] for node in nodes)
            if first == second or (first, second) in found or (second, first) in found:
                continue
            verdict = self._joined(first, second)
            if not isinstance(verdict, Refusal):
                return self._try(first, second) is not None
            found[first, second] = verdict.reason
        self.boundaries = found
        for pair, reason in found.items():
            self.log.append(f"merge refused:    {self._words(*pair)}: {reason}")
        return True

    def _try(self, first: int, second: int) -> Refusal | None:
        """Merge two groups if it is legal and gains, or tell why not."""
        joined = self._joined(first, second)
        if isinstance(joined, Refusal):
            return joined
        saved = self._profit(first, second, joined)
        self.log.append(f"merge taken:      {self._words(first, second)}: saves {saved} bytes")
        sizes = {key: len(self.groups[key].members) for key in (first, second)}
        kept, gone = (first, second) if sizes[first] >= sizes[second] else (second, first)
        self.order.merge(kept, gone)
        for member in self.groups.pop(gone).members:
            self._group_of[member] = kept
        self.groups[kept] = joined
        self._versions[kept] += 1
        self._look_again(kept, gone)
        return None

    def _look_again(self, kept: int, gone: int) -> None:
        """Queue what waited for one of two groups, now one, once for each pair of groups; what had
        a detour through one of them and still has it waits on."""
        waiting = self._waiting.pop(gone, []) + self._waiting.pop(kept, [])
        still = self._waiting[kept] = list[tuple[int, int]]()
        queued = set[frozenset[int]]()
        for pair in sorted(set(waiting)):
            groups = frozenset(map(self._group_of.__getitem__, pair))
            if kept not in groups:
                still.append(pair)
            elif groups not in queued:
                queued.add(groups)
                self._enqueue(*pair)

    def _words(self, first: int, second: int) -> str:
        if self.order.graph.has_edge(second, first):
            first, second = second, first
        relation = "producer of" if self.order.graph.has_edge(first, second) else "beside"
        return f"[{self.names(first)}] {relation} [{self.names(second)}]"

    def _step(self, key: int) -> str:
        """A group or an extern, as a person reads it."""
        if key in self.groups:
            return f"[{self.names(key)}]"
        extern = self.operations.externs[key - len(self.operations.nodes)]
        return f"torch's {extern.outs[0]}={operation_name(extern.op)}"

    def _join(self, first: int, second: int) -> Group:
        """Two groups as one, made once: a pair is queued, tried, and asked why it stayed apart."""
        a, b, group_of = self.groups[first], self.groups[second], self._group_of
        known = self._joins.get((first, second))
        if known is None or known[0] is not a or known[1] is not b:
            joined = self._maker.united([a, b], lambda node: group_of[node] in (first, second))
            known = self._joins[first, second] = a, b, joined
        return known[2]

    def _profit(self, first: int, second: int, joined: Group) -> int:
        """Bytes that a merge saves."""
        return self._cost(first) + self._cost(second) - self._prices.cost(joined)

    def _cost(self, key: int) -> int:
        """The cost of a group, which is found once: each is tried with all its neighbours."""
        group = self.groups[key]
        known = self._costs.get(key)
        if known is None or known[0] is not group:
            known = self._costs[key] = group, self._prices.cost(group)
        return known[1]

    def _joined(self, first: int, second: int) -> Group | Refusal:
        """Two groups as one, or why they cannot be. Guards, cheapest first."""
        refusal = self._boundary_asked(first, second)
        if refusal is not None:
            return refusal
        between = self.order.detour(first, second)
        if between is not None:
            return _Detour(f"{self._step(between)} has to run between them", between)
        related = self.order.graph.has_edge(first, second)
        joined = self._maker.checked(self._join(first, second), related)
        if isinstance(joined, Refusal):
            return joined
        return self._loss(self._profit(first, second, joined), joined) or joined

    def _boundary_asked(self, first: int, second: int) -> Refusal | None:
        """The segment_set through which one group feeds the other, if any does."""
        for producer, consumer in ((first, second), (second, first)):
            for value in self.groups[producer].requests:
                readers = self._maker.readers.get(value, ())
                if any(self._group_of[reader] == consumer for reader in readers):
                    return Refusal(f"{value} = segment_set asks for a boundary")
        return None

    def _loss(self, saved: int, joined: Group) -> Refusal | None:
        if saved >= 0:
            return None
        if saved + self._prices.of_few_rows(joined) >= 0:
            words = "too few rows to keep the processors busy"
            return Refusal(f"{words}: {-saved} bytes' worth lost")
        return Refusal(f"recomputation would cost {-saved} bytes' worth more")
