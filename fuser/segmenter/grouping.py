"""Grouping: which operations share a kernel, a profit for every merge and a reason for the rest.

Each node starts as a group of its own. Neighbours are groups one of which reads the other, or which
read the same memory; the merge of neighbours that saves most is taken first. Then groups that
nothing relates but their domain are set side by side.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import networkx as nx

from fuser.ir.nodes import Value
from fuser.segmenter.boundary_moves import BoundaryMoves
from fuser.segmenter.current_groups import CurrentGroups
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.groups import Group
from fuser.segmenter.machine import Machine
from fuser.segmenter.neighbours import neighbouring_nodes
from fuser.segmenter.order import MergeOrder
from fuser.segmenter.refusal import Refusal

SIDE_BY_SIDE = 8
"""How many earlier groups over its domain a group is tried with."""

SHORT = 128
"""A kernel of groups side by side takes no longer than as many launches. One launch less is under
1 % of a longer one, and a processor foresees the worse what is read, the more tensors there are."""

_LONG = "a launch is under 1 % of what they move"


@dataclass(frozen=True, slots=True)
class _Detour(Refusal):
    """A third step has to run between two: they stay apart until it is in one of them."""

    through: int


class Grouping:
    """Merges groups, two at a time, and says why the rest stay apart."""

    def __init__(
        self, operations: OperationGraph, stored: Collection[Value], machine: Machine
    ) -> None:
        self.groups = CurrentGroups(operations, stored, machine)
        self.order = MergeOrder(operations.graph)
        self.log: list[str] = []
        self._versions = [0] * len(operations.nodes)
        self._pairs = neighbouring_nodes(operations)
        self._queue: list[tuple[int, int, int, int, int]] = []
        self._waiting: dict[int, list[tuple[int, int]]] = {}
        """By group: pairs of nodes whose merge was refused, to be tried again when it grows, or
        when it is in one of theirs, as it ran between them."""
        self.boundaries: dict[tuple[int, int], str] = {}
        """By their keys: why groups stayed apart, each pair once: neighbours and, once these are
        known, what no neighbours lead to."""

    def run(self) -> None:
        """Merge until nothing gains."""
        for first, second in self._pairs:
            self._enqueue(first, second)
        self._merge_queued()
        self._merge_side_by_side()
        self._merge_queued()
        moves = BoundaryMoves(self.groups, self.order, self._pairs, self._renamed)
        moves.run()
        self.log += moves.log
        while not self._settled():
            self._merge_queued()

    def relate(self, kernels: Sequence[int]) -> list[str]:
        """Give each of some groups, in their order, a boundary: one that no others lead to is asked
        why it is not one with the group before it. What is to be logged of that."""
        if len(kernels) < 2:
            return []
        related: nx.Graph[int] = nx.Graph()
        related.add_nodes_from(kernels)
        related.add_edges_from(ends for ends in self.boundaries if {*ends} <= {*kernels})
        place = {key: number for number, key in enumerate(kernels)}
        first = {min(keys, key=place.__getitem__) for keys in nx.connected_components(related)}
        apart = [ends for ends in itertools.pairwise(kernels) if ends[1] in first]
        self.boundaries |= {ends: self._why_apart(*ends) for ends in apart}
        return [self._refused(ends) for ends in apart]

    def _why_apart(self, first: int, second: int) -> str:
        """Why groups that are no neighbours are two."""
        verdict = self._joined(first, second)
        if isinstance(verdict, Refusal):
            return verdict.reason
        short = self._is_short(first, second)
        return "they share no tensor" + ("" if short else f", and {_LONG}")

    def _enqueue(self, first_node: int, second_node: int) -> None:
        """Queue a pair of nodes by what merging their groups would save."""
        first, second = self.groups.key_of[first_node], self.groups.key_of[second_node]
        if first == second:
            return
        saved = self.groups.profit(first, second, self.groups.joined(first, second))
        versions = self._versions[first], self._versions[second]
        heapq.heappush(self._queue, (-saved, first_node, second_node, *versions))

    def _merge_queued(self) -> None:
        while self._queue:
            _, first_node, second_node, *versions = heapq.heappop(self._queue)
            first, second = self.groups.key_of[first_node], self.groups.key_of[second_node]
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
        for key in sorted(self.groups.by_key, key=self.order.position.__getitem__):
            domains = self._domains(self.groups.by_key[key])
            earlier = [other for domain in domains for other in by_domain.get(domain, [])]
            candidates = list(dict.fromkeys(map(self.groups.key_of.__getitem__, earlier)))
            few = [other for other in candidates if self._is_short(other, key)][-SIDE_BY_SIDE:]
            if all(self._try(other, key) is not None for other in few):
                for domain in domains:
                    by_domain.setdefault(domain, []).append(key)

    def _is_short(self, *keys: int) -> bool:
        """Whether one launch instead of several is worth the streams that memory then follows."""
        moved = sum(self.groups.by_key[key].moved for key in keys)
        return moved <= SHORT * self.groups.machine.launch_bytes

    def _domains(self, group: Group) -> list[object]:
        """What a group and others beside it may have in common: sizes, or the atoms of rows."""
        if group.rows is not None:
            return [group.rows.kept]
        if group.domain is None:
            return []
        return [group.domain, self.groups.operations.atoms.of(group.stores[-1])]

    def _words(self, first: int, second: int) -> str:
        if self.order.graph.has_edge(second, first):
            first, second = second, first
        relation = "producer of" if self.order.graph.has_edge(first, second) else "beside"
        return f"[{self.groups.names(first)}] {relation} [{self.groups.names(second)}]"

    def _settled(self) -> bool:
        """Whether all that neighbour stay apart for a reason; the reasons are the boundaries."""
        found: dict[tuple[int, int], str] = {}
        for nodes in self._pairs:
            first, second = (self.groups.key_of[node] for node in nodes)
            if first == second or (first, second) in found or (second, first) in found:
                continue
            verdict = self._joined(first, second)
            if not isinstance(verdict, Refusal):
                return self._try(first, second) is not None
            found[first, second] = verdict.reason
        self.boundaries = found
        self.log += map(self._refused, found)
        return True

    def _refused(self, ends: tuple[int, int]) -> str:
        """What the log says of a boundary."""
        return f"merge refused:    {self._words(*ends)}: {self.boundaries[ends]}"

    def _try(self, first: int, second: int) -> Refusal | None:
        """Merge two groups if it is legal and gains, or tell why not."""
        joined = self._joined(first, second)
        if isinstance(joined, Refusal):
            return joined
        saved = self.groups.saved(first, second, joined)
        self.log.append(f"merge taken:      {self._words(first, second)}: {saved}")
        sizes = {key: len(self.groups.by_key[key].members) for key in (first, second)}
        kept, gone = (first, second) if sizes[first] >= sizes[second] else (second, first)
        self.order.merge(kept, gone)
        self.groups.merge(kept, gone, joined)
        self._versions[kept] += 1
        self._look_again(kept, gone)
        return None

    def _renamed(self, old: int, new: int) -> None:
        """A group has another key; what waits for it still does."""
        self._waiting[new] = self._waiting.pop(old, [])

    def _look_again(self, kept: int, gone: int) -> None:
        """Queue what waited for one of two groups, now one, once for each pair of groups; what had
        a detour through one of them and still has it waits on."""
        waiting = self._waiting.pop(gone, []) + self._waiting.pop(kept, [])
        still = self._waiting[kept] = list[tuple[int, int]]()
        queued = set[frozenset[int]]()
        for pair in sorted(set(waiting)):
            groups = frozenset(map(self.groups.key_of.__getitem__, pair))
            if kept not in groups:
                still.append(pair)
            elif groups not in queued:
                queued.add(groups)
                self._enqueue(*pair)

    def _joined(self, first: int, second: int) -> Group | Refusal:
        """Two groups as one, or why they cannot be. Guards, cheapest first."""
        refusal = self.groups.boundary_asked(first, second)
        if refusal is not None:
            return refusal
        between = self.order.detour(first, second)
        if between is not None:
            return _Detour(f"{self.groups.step(between)} has to run between them", between)
        related = self.order.graph.has_edge(first, second)
        joined = self.groups.maker.checked(self.groups.joined(first, second), related)
        if isinstance(joined, Refusal):
            return joined
        if self.groups.profit(first, second, joined) < 0:
            return Refusal(self.groups.saved(first, second, joined).reason)
        return joined
