"""A dependency graph whose nodes are merged two at a time, and which never gets a cycle.

Every node keeps a position in one topological order. A path from a to b passes through positions
between theirs only, so looking for one is local; merging moves what lies on the wrong side
(D. Pearce and P. Kelly, A Dynamic Topological Sort Algorithm for Directed Acyclic Graphs, 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import networkx as nx


class MergeOrder:
    """The graph of groups: an edge where one reads what the other makes."""

    def __init__(self, graph: nx.DiGraph[int]) -> None:
        self.graph: nx.DiGraph[int] = graph.copy()
        ordered = in_order(self.graph, lambda node: node)
        self.position: dict[int, int] = {node: number for number, node in enumerate(ordered)}

    def detour(self, one: int, other: int) -> int | None:
        """A third node on a path from one of them to the other; None if there is no such path."""
        first, last = self._sorted(one, other)
        after = self._after(first, self.position[last])
        return next((node for node in after if last in self.graph.succ[node]), None)

    def merge(self, kept: int, gone: int) -> None:
        """Make two nodes between which there is no detour one."""
        first, last = self._sorted(kept, gone)
        after = self._after(first, self.position[last])
        before = self._before(last, self.position[first])
        places = sorted(self.position[node] for node in (*before, *after, first, last))
        for node in self.graph.pred[gone]:
            if node != kept:
                self.graph.add_edge(node, kept)
        for node in self.graph.succ[gone]:
            if node != kept:
                self.graph.add_edge(kept, node)
        self.graph.remove_node(gone)
        before.sort(key=self.position.__getitem__)
        after.sort(key=self.position.__getitem__)
        del self.position[gone]
        self.position.update(zip(before, places, strict=False))
        self.position[kept] = places[len(before)]
        self.position.update(zip(after, places[len(places) - len(after) :], strict=True))

    def regroup(self, graph: nx.DiGraph[int], group_of: Callable[[int], int]) -> None:
        """Take the edges between groups from the edges between nodes; the order stays as it is."""
        self.graph.clear()
        self.graph.add_nodes_from(sorted(self.position))
        ends = ((group_of(a), group_of(b)) for a, b in graph.edges)
        self.graph.add_edges_from((a, b) for a, b in ends if a != b)

    def execution_order(self, place: Callable[[int], int]) -> list[int]:
        """Nodes in dependency order; of several that are ready, that of the lowest place first."""
        return in_order(self.graph, place)

    def _sorted(self, one: int, other: int) -> tuple[int, int]:
        return (one, other) if self.position[one] < self.position[other] else (other, one)

    def _after(self, node: int, end: int) -> list[int]:
        """What depends on `node` and stands before position `end`."""
        return _reached(node, self.graph.succ.__getitem__, lambda n: self.position[n] < end)

    def _before(self, node: int, start: int) -> list[int]:
        """What `node` depends on and stands after position `start`."""
        return _reached(node, self.graph.pred.__getitem__, lambda n: self.position[n] > start)


def in_order(graph: nx.DiGraph[int], place: Callable[[int], int]) -> list[int]:
    """Nodes in dependency order; of several that are ready, that of the lowest place first. That is
    the order of their places, where these allow it: networkx takes a millisecond to begin."""
    if all(place(one) < place(other) for one, other in graph.edges):
        return sorted(graph, key=place)
    return list(nx.lexicographical_topological_sort(graph, key=place))


def _reached(
    start: int, neighbours: Callable[[int], Iterable[int]], within: Callable[[int], bool]
) -> list[int]:
    """Nodes on paths from `start` that stay within bounds, itself left out."""
    found: dict[int, None] = {}
    pending = [start]
    while pending:
        for node in neighbours(pending.pop()):
            if node not in found and within(node):
                found[node] = None
                pending.append(node)
    return list(found)
