"""Grouping: which operations share a kernel, with a reason for every refusal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

import networkx as nx

from fuser.ir.nodes import Pointwise, Value
from fuser.ir.printer import operation_name
from fuser.segmenter.graph import OperationGraph, contract, has_detour
from fuser.segmenter.profit import kernel_cost, operation_cost

MAX_TENSORS = 48
"""Tensors one kernel may read and store; more make the parameter block and the live set large."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why two groups do not become one."""

    reason: str


@dataclass(slots=True)
class Group:
    """Nodes that will share a kernel, and what follows from them.

    `loads` and `stores` are what it moves; `arithmetic` is the cost of its operations by the number
    of elements they make; `requests` are the segment_sets among them.
    """

    members: list[int]
    loads: list[Value]
    stores: list[Value]
    arithmetic: Counter[int]
    requests: list[Value]
    refusals: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """(a node of the other group, why the two were not merged), in the order they were tried."""

    @property
    def domain(self) -> tuple[int, ...] | None:
        """The one shape of all that it stores; None if there are several."""
        shapes = {value.shape for value in self.stores}
        return shapes.pop() if len(shapes) == 1 else None


class Grouping:
    """Groups under construction, one node each at first."""

    def __init__(self, operations: OperationGraph, stored: Collection[Value]) -> None:
        self.operations = operations
        self.log: list[str] = []
        self._stored = frozenset(stored)
        self._graph: nx.DiGraph[int] = nx.DiGraph(operations.graph)
        self._group_of = list(range(len(operations.nodes)))
        self._readers: dict[Value, list[int]] = {}
        for index, reads in enumerate(operations.reads):
            for value in reads:
                self._readers.setdefault(value, []).append(index)
        self._groups = {index: self._single(index) for index in range(len(operations.nodes))}

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
        """Join groups over one domain; of those that only share what they read, say why not."""
        tried: list[int] = []
        for key in sorted(self._groups):
            group = self._groups[key]
            same = [k for k in tried if self._groups[k].domain == group.domain is not None]
            if any(self._try(other, key, "beside") for other in same):
                continue
            loads = set(group.loads)
            for other in tried:
                if other not in same and not loads.isdisjoint(self._groups[other].loads):
                    self._try(other, key, "beside")
            tried.append(key)

    def _try(self, first: int, second: int, relation: str) -> bool:
        """Merge two groups if it is legal and gains; log either way."""
        if first == second:
            return False
        a, b = self._groups[first], self._groups[second]
        words = f"[{self._names(a)}] {relation} [{self._names(b)}]"
        joined = self._joined(first, second)
        refusal = self._legality(first, second, joined)
        profit = self._cost(a) + self._cost(b) - self._cost(joined)
        if refusal is None and profit <= 0:
            refusal = Refusal(f"recomputation would cost {-profit} bytes' worth more")
        if refusal is not None:
            self.log.append(f"merge refused:    {words}: {refusal.reason}")
            for group, other in ((a, b), (b, a)):
                reason = f"not merged with [{self._names(other)}]: {refusal.reason}"
                group.refusals.append((other.members[0], reason))
            return False
        self.log.append(f"merge taken:      {words}: saves {profit} bytes")
        kept, gone = min(first, second), max(first, second)
        for member in self._groups[gone].members:
            self._group_of[member] = kept
        self._groups[kept] = joined
        del self._groups[gone]
        contract(self._graph, kept, gone)
        return True

    def _single(self, index: int) -> Group:
        """The group of one node."""
        statement = self.operations.nodes[index]
        op, out = statement.op, statement.out
        return Group(
            members=[index],
            loads=list(self.operations.reads[index]),
            stores=[out],
            arithmetic=Counter({out.elements: operation_cost(op)}),
            requests=[out] if isinstance(op, Pointwise) and op.op == "segment_set" else [],
        )

    def _joined(self, first: int, second: int) -> Group:
        """What two groups would be as one: values that pass between them are not moved."""
        a, b = self._groups[first], self._groups[second]
        both = (first, second)
        owner = self.operations.owner
        loads = dict.fromkeys(a.loads + b.loads)
        stores = [
            value
            for value in a.stores + b.stores
            if value in self._stored
            or any(self._group_of[reader] not in both for reader in self._readers.get(value, []))
        ]
        return Group(
            members=sorted(a.members + b.members),
            loads=[v for v in loads if v not in owner or self._group_of[owner[v]] not in both],
            stores=sorted(stores, key=lambda value: owner[value]),
            arithmetic=a.arithmetic + b.arithmetic,
            requests=a.requests + b.requests,
            refusals=a.refusals + b.refusals,
        )

    def _legality(self, first: int, second: int, joined: Group) -> Refusal | None:
        """Why the groups cannot be one kernel; None if they can. Guards, cheapest first."""
        asked = self._boundary_asked(first, second) or self._boundary_asked(second, first)
        if asked is not None:
            return Refusal(f"{asked} asks for a boundary")
        sizes = {value: value.elements for value in joined.stores}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{value} has {size}" for value, size in sizes.items())
            return Refusal(f"a kernel stores over one domain, but {listed} elements")
        if not self._graph.has_edge(first, second) and joined.domain is None:
            return Refusal("nothing relates their domains, and they differ")
        tensors = len(joined.stores) + len(joined.loads)
        if tensors > MAX_TENSORS:
            return Refusal(f"{tensors} tensors are more than the {MAX_TENSORS} of one kernel")
        if has_detour(self._graph, first, second) or has_detour(self._graph, second, first):
            return Refusal("another segment would have to run between them")
        return None

    def _boundary_asked(self, first: int, second: int) -> str | None:
        """The segment_set through which one group feeds the other, if any does."""
        for value in self._groups[first].requests:
            if any(self._group_of[reader] == second for reader in self._readers.get(value, [])):
                return f"{value} = segment_set"
        return None

    def _cost(self, group: Group) -> int:
        return kernel_cost(group.loads, group.stores, group.arithmetic, self.operations.free)

    def _names(self, group: Group) -> str:
        def name(member: int) -> str:
            statement = self.operations.nodes[member]
            return f"{statement.out}={operation_name(statement.op)}"

        members = group.members
        if len(members) <= 4:
            return ", ".join(map(name, members))
        return f"{name(members[0])}, {name(members[1])}, ..., {name(members[-1])}"
