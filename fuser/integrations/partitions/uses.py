"""Who reads what in a graph, seen through what costs nothing: views, and factories repeated where
they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch.fx import Graph, Node

from fuser.integrations.partitions.support import Role, Support


class Uses:
    """Which nodes of a graph partitions compute, and who reads them."""

    def __init__(self, graph: Graph, roles: Mapping[Node, Support]) -> None:
        self.nodes = list(graph.nodes)
        self._roles = roles
        self._readers: dict[Node, list[Node]] = {}
        """Who reads a value, seen through views."""
        for node in reversed(self.nodes):
            self._readers[node] = self._find_readers(node)
        self.members = {node for node in self.nodes if self._is_member(node)}
        """What is computed once, in one partition."""

    def is_repeated(self, node: Node) -> bool:
        """Whether it is in every partition that reads it."""
        return node not in self.members and self._role(node) in (Role.VIEW, Role.FACTORY)

    def is_factory(self, node: Node) -> bool:
        """Whether it makes elements of nothing, as `full` does."""
        return self._role(node) is Role.FACTORY

    def readers(self, node: Node) -> list[Node]:
        """Who reads a node: members, torch's nodes and the output, never what is repeated."""
        return list(dict.fromkeys(self._real(self._readers[node])))

    def sources(self, node: Node) -> list[Node]:
        """What a node reads: members, inputs and torch's nodes, never what is repeated."""
        found: dict[Node, None] = {}
        pending = list(node.all_input_nodes)
        while pending:
            source = pending.pop()
            if self.is_repeated(source):
                pending += source.all_input_nodes
            else:
                found[source] = None
        return list(found)

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

    def _real(self, readers: Iterable[Node]) -> list[Node]:
        """Readers, and those of the factories among them that are repeated."""
        found: list[Node] = []
        for reader in readers:
            found += self._real(self._readers[reader]) if self.is_repeated(reader) else [reader]
        return found
