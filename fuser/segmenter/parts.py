"""Parts: what one group may take of another that it cannot have as a whole.

    [max] | [div round pack cat]     cat is not of the rows of max; div, round and pack are

A part is closed: nothing that its operations need stays behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.segmenter.current_groups import CurrentGroups
from fuser.segmenter.order import MergeOrder


def find_part(groups: CurrentGroups, order: MergeOrder, source: int, goal: int) -> list[int]:
    """The nodes of group `source` that group `goal`, which may not have all, may have: from the
    side where the groups meet on, as far as each may follow those before."""
    search = _Search(groups, order, source, goal)
    members = groups.by_key[source].members
    search.take_halves(members if search.forwards else members[::-1])
    return search.taken


class _Search:
    """What was taken and what was left so far."""

    def __init__(self, groups: CurrentGroups, order: MergeOrder, source: int, goal: int) -> None:
        self._groups, self._position = groups, order.position
        self._source, self._goal = source, goal
        self.forwards = self._position[goal] < self._position[source]
        self.taken: list[int] = []
        self._left: set[int] = set()

    def take_halves(self, nodes: Sequence[int]) -> None:
        """Take what may be taken of nodes that may not be taken together."""
        if len(nodes) == 1:
            self._left.update(nodes)
            return
        middle = len(nodes) // 2
        for half in (nodes[:middle], nodes[middle:]):
            self._take(half)

    def _take(self, nodes: Sequence[int]) -> None:
        followers: list[int] = []
        for node in nodes:
            if self._may_follow(node):
                followers.append(node)
            else:
                self._left.add(node)
        if followers and self._are_legal(followers):
            self.taken += followers
        elif followers:
            self.take_halves(followers)

    def _may_follow(self, node: int) -> bool:
        """Whether nothing that the node needs stays behind, or is made beyond the other group."""
        graph, place = self._groups.operations.graph, self._position
        needed = graph.pred[node] if self.forwards else graph.succ[node]
        if any(other in self._left for other in needed):
            return False
        steps = {self._groups.step_of(other) for other in needed} - {self._source, self._goal}
        return all((place[step] < place[self._goal]) == self.forwards for step in steps)

    def _are_legal(self, more: Sequence[int]) -> bool:
        maker = self._groups.maker
        nodes = [*self._groups.by_key[self._goal].members, *self.taken, *more]
        return maker.as_kernel(maker.of_nodes(nodes)) is not None
