"""Divides a graph into partitions, each of which becomes one definition, and what torch runs.

Every node has a *level*: how many of torch's nodes stand, one after the other, before it. No path
from a node to another of its level leads through torch, so the nodes of a level can be taken
together without a cycle. Those that touch, by a value or by reading the same tensor, are a
partition. A node that its level has no use for is moved to where it is read if less is stored then.
Views and factories cost nothing or little: they are repeated in each partition that reads them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

from fuser.integrations.fx_types import hints, meta_of, nbytes, tensors_of
from fuser.integrations.support import Role, Support


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Nodes that are run together. `outputs` are those that others read; `writes` are copies of
    others into inputs of the graph."""

    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    writes: tuple[Node, ...] = ()

    def graph(self) -> Graph:
        """The partition as a graph of its own, with the views and factories it repeats."""
        graph = Graph()
        copied: dict[Node, Node] = {}
        for node in self.inputs:
            copied[node] = graph.placeholder(node.name)
            copied[node].meta = dict(node.meta)
        for node in (*self.nodes, *self.writes):
            copied[node] = graph.node_copy(node, copied.__getitem__)
        graph.output(tuple(copied[node] for node in self.outputs))
        return graph


def partitions(graph: Graph, roles: Mapping[Node, Support]) -> list[Partition]:
    """The partitions of a graph, in the order of their first nodes."""
    return _Partitioner(graph, roles).run()


class _Partitioner:
    def __init__(self, graph: Graph, roles: Mapping[Node, Support]) -> None:
        self._nodes = list(graph.nodes)
        self._place = {node: place for place, node in enumerate(self._nodes)}
        self._roles = roles
        self._readers: dict[Node, list[Node]] = {}
        """Who reads a value, seen through views."""
        self._level: dict[Node, int] = {}
        for node in reversed(self._nodes):
            self._readers[node] = self._find_readers(node)
        self._members = {node for node in self._nodes if self._is_member(node)}

    def run(self) -> list[Partition]:
        self._find_levels()
        for node in reversed(self._nodes):
            if node in self._members and node.target is not operator.getitem:
                self._sink(node)
        found = [self._partition(group) for group in self._groups()]
        return [part for part in found if part.outputs]

    # -- what is to be divided -------------------------------------------------------------------

    def _role(self, node: Node) -> Role:
        return self._roles[node].role

    def _find_readers(self, node: Node) -> list[Node]:
        found: dict[Node, None] = {}
        for user in node.users:
            through = self._role(user) is Role.VIEW
            found |= dict.fromkeys(self._readers[user] if through else [user])
        return list(found)

    def _is_member(self, node: Node) -> bool:
        """Whether it is computed once: factories only if torch reads them."""
        match self._role(node):
            case Role.COMPUTE:
                return True
            case Role.FACTORY:
                covered = (Role.COMPUTE, Role.FACTORY)
                return any(self._role(reader) not in covered for reader in self._readers[node])
            case _:
                return False

    def _repeated(self, node: Node) -> bool:
        return node not in self._members and self._role(node) in (Role.VIEW, Role.FACTORY)

    # -- levels ----------------------------------------------------------------------------------

    def _find_levels(self) -> None:
        """The lowest level of each node.

        A partition's value of level k is there at 2k, torch's of level k at 2k + 1, inputs at -1.
        """
        there: dict[Node, int] = {}
        for node in self._nodes:
            latest = max((there[source] for source in node.all_input_nodes), default=-1)
            if node in self._members:
                self._level[node] = -(-latest // 2)
                there[node] = 2 * self._level[node]
            elif self._repeated(node):
                there[node] = latest
            else:
                self._level[node] = latest // 2
                there[node] = 2 * self._level[node] + 1

    def _sink(self, node: Node) -> None:
        """Move a node to the level that reads it first, if less is read and written then."""
        level, readers = self._level[node], self._real(self._readers[node])
        later = min((self._level[reader] for reader in readers), default=level)
        if later <= level or any(reader.op == "output" for reader in readers):
            return
        meets = any(r in self._members and self._level[r] == later for r in readers)
        stored = 2 * nbytes(node) if meets else 0
        more = sum(self._more_traffic(source, node) for source in self._sources(node))
        if more < stored or more == stored == 0:
            self._level[node] = later

    def _more_traffic(self, source: Node, node: Node) -> int:
        """Bytes to store and read `source` for `node` alone, were it at another level."""
        others = [self._level[r] for r in self._real(self._readers[source]) if r is not node]
        level = self._level[node]
        if source in self._members and self._level[source] == level:
            kept = any(other > level for other in others)
            return nbytes(source) * (1 if kept else 2)
        return nbytes(source) if level in others else 0

    def _real(self, readers: Iterable[Node]) -> list[Node]:
        """Readers, and those of the factories among them that are repeated."""
        found: list[Node] = []
        for reader in readers:
            found += self._real(self._readers[reader]) if self._repeated(reader) else [reader]
        return found

    def _sources(self, node: Node) -> list[Node]:
        """What a node reads, seen through what is repeated."""
        found: dict[Node, None] = {}
        pending = list(node.all_input_nodes)
        while pending:
            source = pending.pop()
            if self._repeated(source):
                pending += source.all_input_nodes
            else:
                found[source] = None
        return list(found)

    # -- partitions ------------------------------------------------------------------------------

    def _groups(self) -> list[list[Node]]:
        """Members of a level and a device that touch."""
        joined: dict[Node, Node] = {}
        touching: dict[object, Node] = {}

        def root(node: Node) -> Node:
            while node in joined:
                node = joined[node]
            return node

        for node in self._nodes:
            if node not in self._members:
                continue
            place = self._level[node], _device(node)
            for source in (node, *self._sources(node)):
                together = self._level.get(source) == place[0] and source in self._members
                if not together and _is_small(source):
                    continue
                other = root(touching.setdefault((source, *place), node))
                if other is not root(node):
                    joined[root(node)] = other
        groups: dict[Node, list[Node]] = {}
        for node in self._nodes:
            if node in self._members:
                groups.setdefault(root(node), []).append(node)
        return list(groups.values())

    def _partition(self, members: Sequence[Node]) -> Partition:
        own = set(members)
        nodes, inputs = set(members), set[Node]()
        pending = [source for node in members for source in node.all_input_nodes]
        while pending:
            source = pending.pop()
            if source in nodes or source in inputs:
                continue
            if self._repeated(source) or (source not in own and self._is_factory(source)):
                nodes.add(source)
                pending += source.all_input_nodes
            else:
                inputs.add(source)
        outputs = [n for n in members if any(r not in own for r in self._real(self._readers[n]))]
        in_order = self._place.__getitem__
        return Partition(
            tuple(sorted(nodes, key=in_order)),
            tuple(sorted(inputs, key=in_order)),
            tuple(outputs),
        )

    def _is_factory(self, node: Node) -> bool:
        return self._role(node) is Role.FACTORY


def _device(node: Node) -> torch.device:
    value = meta_of(node)
    (first, *_) = tensors_of(value)
    return first.device


def _is_small(node: Node) -> bool:
    """Whether reading the same is no reason to be together: numbers and tensors of one element."""
    return all(math.prod(hints(tensor.shape)) == 1 for tensor in tensors_of(meta_of(node)))
