"""Moves: operations change to the side of a boundary where fewer bytes cross it.

    [max sub exp sum] | [div add]           exp and sum cross
    [max sub exp sum div] | [add]           div does

    [max] | [div round pack cat]            both read x
    [max div round pack] | [cat]            one does; cat would not be one kernel with max

Merging takes the best pair first, so it may decide for an operation before a boundary near it is
known. A move is right where what an operation reads still comes before it: then positions stay
valid. First single operations move, then parts of groups: where each on its own would have what is
between them go through memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from fuser.segmenter.current_groups import CurrentGroups
from fuser.segmenter.groups import Group
from fuser.segmenter.order import MergeOrder
from fuser.segmenter.parts import find_part
from fuser.segmenter.price import Price, saved

ROUNDS = 3
"""How often all boundaries are looked at, as long as operations move over them."""

PART_SAVES = 0.01
"""Of what two groups cost: for less no part moves, as what crosses their boundary then is another
value, which may be dearer to make again."""


class BoundaryMoves:
    """Moves nodes to groups of their neighbours; `pairs` are neighbouring nodes. `renamed` is told
    of a group that has another key, as the node it was named by left it."""

    def __init__(
        self,
        groups: CurrentGroups,
        order: MergeOrder,
        pairs: Sequence[tuple[int, int]],
        renamed: Callable[[int, int], None],
    ) -> None:
        self._groups = groups
        self._order = order
        self._pairs = pairs
        self._renamed = renamed
        self._stays: dict[tuple[int, int], tuple[Group, Group]] = {}
        """By a node and the key of a neighbour: the groups between which it did not move."""
        self.log: list[str] = []

    def run(self) -> None:
        """Move until no round finds a move."""
        self._move_nodes()
        if self._move_parts():
            self._move_nodes()

    def _move_nodes(self) -> None:
        for _ in range(ROUNDS):
            moves = [pair for pair in self._pairs if self._move(*pair) or self._move(*pair[::-1])]
            self._order.regroup(self._groups.operations.graph, self._groups.step_of)
            if not moves:
                break

    def _move_parts(self) -> bool:
        """Move parts of groups to neighbours; whether any moved."""
        key_of, asked, moved = self._groups.key_of, set[tuple[int, int]](), False
        for pair in self._pairs:
            for node, neighbour in (pair, pair[::-1]):
                ends = key_of[node], key_of[neighbour]
                if ends[0] != ends[1] and ends not in asked:
                    asked.add(ends)
                    moved |= self._move_part(*ends)
        if moved:
            self._order.regroup(self._groups.operations.graph, self._groups.step_of)
        return moved

    def _move_part(self, source: int, goal: int) -> bool:
        """Move what a group may take of another, where all of that would gain."""
        if self._groups.profit(source, goal, self._groups.joined(source, goal)) <= 0:
            return False
        part = find_part(self._groups, self._order, source, goal)
        is_part = 0 < len(part) < len(self._groups.by_key[source].members)
        return is_part and self._move_all(part, source, goal, PART_SAVES)

    def _move(self, node: int, neighbour: int) -> bool:
        """Move a node to the group of its neighbour, if it may and fewer bytes cross."""
        source, goal = self._groups.key_of[node], self._groups.key_of[neighbour]
        if source == goal or not self._stays_in_order(node, goal):
            return False
        groups = self._groups.by_key[source], self._groups.by_key[goal]
        if len(groups[0].members) == 1 or self._is_known_to_stay(node, goal, groups):
            return False
        if self._move_all([node], source, goal):
            return True
        self._stays[node, goal] = groups
        return False

    def _move_all(self, nodes: Sequence[int], source: int, goal: int, share: float = 0) -> bool:
        """Move nodes from one group to another, if they may be so and fewer bytes cross, by more
        than a share of what the two cost."""
        moved = self._moved(nodes, source, goal, share)
        if moved is None:
            return False
        changed, less = moved
        ends = " to ".join(f"[{self._groups.names(key)}]" for key in (source, goal))
        names = self._groups.maker.listed(nodes)
        self.log.append(f"moved:            {names} from {ends}: {less}")
        self._groups.by_key.update(changed)
        for node in nodes:
            self._groups.key_of[node] = goal
        if source in nodes:
            self._rename(source, changed[source].members[0])
        return True

    def _is_known_to_stay(self, node: int, goal: int, groups: tuple[Group, Group]) -> bool:
        """Whether a move was refused between groups that have not changed since: a node may have
        several neighbours in one, and is looked at in several rounds."""
        known = self._stays.get((node, goal))
        return known is not None and all(map(operator.is_, known, groups))

    def _moved(
        self, nodes: Sequence[int], source: int, goal: int, share: float
    ) -> tuple[dict[int, Group], Price] | None:
        """The two groups once nodes have moved, by their keys, and what that saves; None where
        they may not be so, or no fewer bytes cross. Guards, cheapest first."""
        left = [member for member in self._groups.by_key[source].members if member not in nodes]
        given = [*self._groups.by_key[goal].members, *nodes]
        made = {source: self._groups.maker.of_nodes(left), goal: self._groups.maker.of_nodes(given)}
        if sum(self._groups.by_key[key].moved - group.moved for key, group in made.items()) <= 0:
            return None
        changed: dict[int, Group] = {}
        for key, group in made.items():
            checked = self._groups.maker.as_kernel(group)
            if checked is None:
                return None
            changed[key] = checked
        prices, cost = self._groups.prices, sum(map(self._groups.cost, changed))
        if sum(map(prices.cost, changed.values())) >= cost * (1 - share):
            return None
        before = map(self._groups.price, changed)
        return changed, saved(before, map(prices.price, changed.values()))

    def _rename(self, old: int, new: int) -> None:
        """Give a group another of its nodes as key."""
        self._groups.rename(old, new)
        self._order.position[new] = self._order.position.pop(old)
        self._renamed(old, new)

    def _stays_in_order(self, node: int, goal: int) -> bool:
        """Whether what the node reads comes before a group, and what reads it comes after."""
        graph, place = self._groups.operations.graph, self._order.position
        end = place[goal]
        return all(place[self._groups.step_of(n)] <= end for n in graph.pred[node]) and all(
            place[self._groups.step_of(n)] >= end for n in graph.succ[node]
        )
