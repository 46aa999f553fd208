"""Grouping: which operations share a kernel, with a reason for every refusal."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import networkx as nx

from fuser.ir.nodes import Pointwise, Value
from fuser.ir.printer import operation_name
from fuser.segmenter.graph import OperationGraph, contract, has_detour
from fuser.segmenter.profit import kernel_cost

MAX_TENSORS = 48
"""Tensors one kernel may read and store; more make the parameter block and the live set large."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why two groups do not become one."""

    reason: str


@dataclass(slots=True)
class Group:
    """Nodes that will share a kernel."""

    members: list[int]
    refusals: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """(a node of the other group, why the two were not merged), in the order they were tried."""


class Grouping:
    """Groups under construction, one node each at first."""

    def __init__(self, operations: OperationGraph, stored: Collection[Value]) -> None:
        self.operations = operations
        self.log: list[str] = []
        self._stored = frozenset(stored)
        self._graph: nx.DiGraph[int] = nx.DiGraph(operations.graph)
        self._groups = {index: Group([index]) for index in range(len(operations.nodes))}
        self._group_of = list(range(len(operations.nodes)))
        self._readers: dict[Value, list[int]] = {}
        for index, reads in enumerate(operations.reads):
            for value in reads:
                self._readers.setdefault(value, []).append(index)

    def run(self) -> tuple[list[Group], nx.DiGraph[int]]:
        """Merge until nothing gains; the groups by number, and the graph between them."""
        self._merge_along_edges()
        self._merge_side_by_side()
        return [self._groups[key] for key in sorted(self._groups)], self._graph

    def key_of(self, group: Group) -> int:
        """The group's node in the graph that `run` returned."""
        return self._group_of[group.members[0]]

    def boundaries(self, group: Group) -> list[str]:
        """Why the group did not grow further, without what later merges settled."""
        own = self.key_of(group)
        reasons = (words for other, words in group.refusals if self._group_of[other] != own)
        return list(dict.fromkeys(reasons))

    def _merge_along_edges(self) -> None:
        edges: list[tuple[int, int]] = list(self.operations.graph.edges)
        externs_from = len(self.operations.nodes)
        for producer, consumer in sorted(edges, key=lambda edge: (edge[1], edge[0])):
            if max(producer, consumer) < externs_from:
                self._try(self._group_of[producer], self._group_of[consumer], "producer of")

    def _merge_side_by_side(self) -> None:
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for key in sorted(self._groups):
            shape = self._domain(self._groups[key].members)
            if shape is None:
                continue
            earlier = by_shape.setdefault(shape, [])
            if not any(self._try(other, key, "beside") for other in earlier):
                earlier.append(key)

    def _try(self, first: int, second: int, relation: str) -> bool:
        """Merge two groups if it is legal and gains; log either way."""
        if first == second:
            return False
        a, b = self._groups[first], self._groups[second]
        words = f"[{self._names(a)}] {relation} [{self._names(b)}]"
        refusal = self._legality(first, second)
        apart = self._cost(a.members) + self._cost(b.members)
        profit = apart - self._cost(a.members + b.members)
        if refusal is None and profit <= 0:
            refusal = Refusal(f"recomputation would cost {-profit} bytes' worth more")
        if refusal is not None:
            self.log.append(f"merge refused:    {words}: {refusal.reason}")
            words = f"not merged with [{self._names(b)}]: {refusal.reason}"
            a.refusals.append((b.members[0], words))
            return False
        self.log.append(f"merge taken:      {words}: saves {profit} bytes")
        kept, gone = min(first, second), max(first, second)
        merged = sorted(a.members + b.members)
        self._groups[kept] = Group(merged, a.refusals + b.refusals)
        del self._groups[gone]
        for member in merged:
            self._group_of[member] = kept
        contract(self._graph, kept, gone)
        return True

    def _legality(self, first: int, second: int) -> Refusal | None:
        """Why the groups cannot be one kernel; None if they can. Guards, cheapest first."""
        members = self._groups[first].members + self._groups[second].members
        asked = self._boundary_asked(first, second)
        if asked is not None:
            return Refusal(f"{asked} asks for a boundary")
        stored = self._stores(members)
        sizes = {value: _elements(value) for value in stored}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{value} has {size}" for value, size in sizes.items())
            return Refusal(f"a kernel stores over one domain, but {listed} elements")
        if not self._graph.has_edge(first, second) and self._domain(members) is None:
            return Refusal("nothing relates their domains, and they differ")
        tensors = len(stored) + len(self._loads(members))
        if tensors > MAX_TENSORS:
            return Refusal(f"{tensors} tensors are more than the {MAX_TENSORS} of one kernel")
        if has_detour(self._graph, first, second) or has_detour(self._graph, second, first):
            return Refusal("another segment would have to run between them")
        return None

    def _boundary_asked(self, first: int, second: int) -> str | None:
        """The segment_set through which one group feeds the other, if any does."""
        nodes = self.operations.nodes
        for member in self._groups[first].members:
            op = nodes[member].op
            if isinstance(op, Pointwise) and op.op == "segment_set":
                readers = self._readers.get(nodes[member].out, [])
                if any(self._group_of[reader] == second for reader in readers):
                    return f"{nodes[member].out} = segment_set"
        return None

    def _stores(self, members: list[int]) -> list[Value]:
        """Values a group of these nodes would write to memory, in order."""
        inside = set(members)
        nodes = self.operations.nodes
        return [
            nodes[member].out
            for member in members
            if nodes[member].out in self._stored
            or any(reader not in inside for reader in self._readers.get(nodes[member].out, []))
        ]

    def _loads(self, members: list[int]) -> list[Value]:
        inside = set(members)
        reads = (value for member in members for value in self.operations.reads[member])
        owner = self.operations.owner
        return [v for v in dict.fromkeys(reads) if owner.get(v, -1) not in inside]

    def _domain(self, members: list[int]) -> tuple[int, ...] | None:
        """The one shape of all that a group stores; None if there are several."""
        found = {value.shape for value in self._stores(members)}
        return found.pop() if len(found) == 1 else None

    def _cost(self, members: list[int]) -> int:
        statements = (self.operations.nodes[member] for member in members)
        return kernel_cost(
            self._loads(members), self._stores(members), statements, self.operations.free
        )

    def _names(self, group: Group) -> str:
        statements = [self.operations.nodes[member] for member in group.members]
        names = [f"{s.out}={operation_name(s.op)}" for s in statements]
        return ", ".join(names if len(names) <= 4 else [*names[:2], "...", names[-1]])


def _elements(value: Value) -> int:
    return math.prod(value.shape)
