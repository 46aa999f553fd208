"""Divides a graph into partitions, each of which becomes one definition, and what torch runs.

Every node has a *level* (`levels.py`), and no path from a node to another of its level leads
through torch, so the nodes of a level can be taken together without a cycle. Those that touch, by a
value or by reading the same tensor, are a partition. Views and factories cost nothing or little:
they are repeated in each partition that reads them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

from fuser.integrations.fx.nodes import hints, meta_of, tensors_of
from fuser.integrations.partitions.levels import levels
from fuser.integrations.partitions.support import Support
from fuser.integrations.partitions.uses import Uses


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
    return _Partitioner(Uses(graph, roles)).run()


class _Partitioner:
    def __init__(self, uses: Uses) -> None:
        self._uses = uses
        self._place = {node: place for place, node in enumerate(uses.nodes)}
        self._level = levels(uses)

    def run(self) -> list[Partition]:
        found = [self._partition(group) for group in self._groups()]
        return [part for part in found if part.outputs]

    def _groups(self) -> list[list[Node]]:
        """Members of a level and a device that touch."""
        joined: dict[Node, Node] = {}
        touching: dict[object, Node] = {}

        def root(node: Node) -> Node:
            while node in joined:
                node = joined[node]
            return node

        members = [node for node in self._uses.nodes if node in self._uses.members]
        for node in members:
            place = self._level[node], device_of(node)
            for source in (node, *self._uses.sources(node)):
                together = self._level.get(source) == place[0] and source in self._uses.members
                if not together and _is_small(source):
                    continue
                other = root(touching.setdefault((source, *place), node))
                if other is not root(node):
                    joined[root(node)] = other
        groups: dict[Node, list[Node]] = {}
        for node in members:
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
            if self._uses.is_repeated(source) or self._uses.is_factory(source):
                nodes.add(source)
                pending += source.all_input_nodes
            else:
                inputs.add(source)
        outputs = [n for n in members if any(r not in own for r in self._uses.readers(n))]
        in_order = self._place.__getitem__
        return Partition(
            tuple(sorted(nodes, key=in_order)),
            tuple(sorted(inputs, key=in_order)),
            tuple(outputs),
        )


def device_of(node: Node) -> torch.device:
    return tensors_of(meta_of(node))[0].device


def _is_small(node: Node) -> bool:
    """Whether reading the same is no reason to be together: numbers and tensors of one element."""
    return all(math.prod(hints(tensor.shape)) == 1 for tensor in tensors_of(meta_of(node)))
