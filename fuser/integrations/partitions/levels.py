"""At which level each node of a graph is computed.

A *level* is how many of torch's nodes stand, one after the other, before a node. The lowest level
that a node can have is where all it reads is there; at a later one it is computed where it is read,
and need not be stored. From the last level to the first, the nodes of one level that move to later
ones are those on the far side of the cheapest cut: as few bytes as possible are written and read.

    level 0:  m = mask * 2                        level 0:
    level 3:  dx = g * m, of g torch's      ->    level 3:  m = mask * 2; dx = g * m
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import networkx as nx
from torch.fx import Node

from fuser.integrations.fx.nodes import nbytes
from fuser.integrations.partitions.uses import Uses

_networkx: Any = nx
_STAYS, _MOVES = "stays", "moves"


def levels(uses: Uses) -> dict[Node, int]:
    """The level of every node but those that are repeated where they are read."""
    found = _lowest(uses)
    by_level: dict[int, list[Node]] = {}
    for node in uses.nodes:
        if node in uses.members:
            by_level.setdefault(found[node], []).append(node)
    for level in sorted(by_level, reverse=True):
        moving = _Level(uses, found, level, by_level[level]).moving()
        for node in reversed(moving):
            found[node] = min(found[reader] for reader in uses.readers(node))
        for node in moving:
            if node.target is operator.getitem:  # another result may be read earlier
                found[node] = found[node.all_input_nodes[0]]
    return found


def _lowest(uses: Uses) -> dict[Node, int]:
    """The lowest level of each node.

    A partition's value of level k is there at 2k, torch's of level k at 2k + 1, inputs at -1.
    """
    found: dict[Node, int] = {}
    there: dict[Node, int] = {}
    for node in uses.nodes:
        latest = max((there[source] for source in node.all_input_nodes), default=-1)
        if node in uses.members:
            found[node] = -(-latest // 2)
            there[node] = 2 * found[node]
        elif uses.is_repeated(node):
            there[node] = latest
        else:
            found[node] = latest // 2
            there[node] = 2 * found[node] + 1
    return found


class _Level:
    """The nodes of one level, all later ones being where they stay."""

    def __init__(
        self, uses: Uses, levels: dict[Node, int], level: int, members: Sequence[Node]
    ) -> None:
        self._uses, self._levels, self._level = uses, levels, level
        self._movable: dict[Node, int] = {}
        """Nodes that nobody needs at this level, in order, and the first level they could go to."""
        for node in reversed(members):
            goal = self._goal(node)
            if goal is not None:
                self._movable[node] = goal
        self._movable = dict(reversed(self._movable.items()))
        self._graph: Any = _networkx.DiGraph()
        self._graph.add_nodes_from([_STAYS, _MOVES])

    def moving(self) -> list[Node]:
        """The nodes that are computed later, in their order."""
        if not self._movable:
            return []
        for node in self._movable:
            self._constrain(node)
        sources = (source for node in self._movable for source in self._uses.sources(node))
        for value in dict.fromkeys((*self._movable, *sources)):
            self._charge(value)
        _, (stay, _) = _networkx.minimum_cut(self._graph, _STAYS, _MOVES)
        return [node for node in self._movable if node not in stay]

    def _goal(self, node: Node) -> int | None:
        """The first level that a node could move to; None if it has to stay."""
        goals = [self._goal_of_reader(reader) for reader in self._uses.readers(node)]
        return None if not goals or None in goals else min(g for g in goals if g is not None)

    def _goal_of_reader(self, reader: Node) -> int | None:
        if reader.op == "output":
            return None
        if self._is_here(reader):
            return self._movable.get(reader)
        level = self._levels[reader]
        return level if level > self._level else None

    def _is_here(self, node: Node) -> bool:
        return node in self._uses.members and self._levels[node] == self._level

    def _constrain(self, node: Node) -> None:
        """Who reads a node here moves with it, and the results of one operation are together."""
        for reader in self._uses.readers(node):
            if reader in self._movable:
                self._graph.add_edge(reader, node)
                if reader.target is operator.getitem:
                    self._graph.add_edge(node, reader)
        # Of two ways that cost the same, the later one: what it makes lives no longer than needed.
        self._graph.add_edge(node, _MOVES, capacity=1)

    def _charge(self, value: Node) -> None:
        """What a value costs where it and its readers are."""
        readers, size = self._uses.readers(value), nbytes(value)
        here = [reader for reader in readers if reader in self._movable]
        members = [r for r in readers if r in self._uses.members and not self._is_here(r)]
        later = {self._levels[r] for r in members if self._levels[r] > self._level}
        by_torch = any(reader not in self._uses.members for reader in readers)
        if value in self._movable:
            # What torch reads is written anywhere; what several later levels read, at one of them.
            written = 0 if by_torch or len(later) > 1 else size
            if later:
                self._add(value, _MOVES, size + written)
            else:
                self._if_read_later(value, value, here, size + written)
            return
        is_made_here = self._is_here(value)
        written = 0 if not is_made_here or by_torch or later else size
        elsewhere = [reader for reader in here if self._movable[reader] not in later]
        self._if_read_later(value, _STAYS, elsewhere, size + written)
        if not is_made_here and len(here) == sum(map(self._is_here, readers)):
            self._if_read_here(value, here, size)

    def _if_read_later(
        self, value: Node, where: object, readers: Sequence[Node], cost: int
    ) -> None:
        """A cost if the value is made at `where` and a reader is later."""
        if readers:
            self._add(where, (value, _MOVES), cost)
            self._graph.add_edges_from(((value, _MOVES), reader) for reader in readers)

    def _if_read_here(self, value: Node, readers: Sequence[Node], cost: int) -> None:
        """A cost if a reader is here."""
        self._add((value, _STAYS), _MOVES, cost)
        self._graph.add_edges_from((reader, (value, _STAYS)) for reader in readers)

    def _add(self, source: object, sink: object, cost: int) -> None:
        known = self._graph.get_edge_data(source, sink, {"capacity": 0})["capacity"]
        self._graph.add_edge(source, sink, capacity=known + cost)
