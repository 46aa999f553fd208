"""Moves: single operations change to the side of a boundary where fewer bytes cross it.

    [max sub exp sum] | [div add]     exp and sum cross
    [max sub exp sum div] | [add]     div does

Merging takes the best pair first, so it may decide for an operation before a boundary near it is
known. A move is right where what an operation reads still comes before it: then positions stay
valid.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from fuser.segmenter.current_groups import CurrentGroups
from fuser.segmenter.groups import Group
from fuser.segmenter.order import MergeOrder
from fuser.segmenter.price import Price, saved
from fuser.segmenter.refusal import Refusal

ROUNDS = 3
"""How often all boundaries are looked at, as long as operations move over them."""


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
        for _ in range(ROUNDS):
            moves = [pair for pair in self._pairs if self._move(*pair) or self._move(*pair[::-1])]
            self._order.regroup(self._groups.operations.graph, self._groups.step_of)
            if not moves:
                break

    def _move(self, node: int, neighbour: int) -> bool:
        """Move a node to the group of its neighbour, if it may and fewer bytes cross."""
        source, goal = self._groups.key_of[node], self._groups.key_of[neighbour]
        if source == goal or not self._stays_in_order(node, goal):
            return False
        groups = self._groups.by_key[source], self._groups.by_key[goal]
        if len(groups[0].members) == 1 or self._is_known_to_stay(node, goal, groups):
            return False
        moved = self._moved(node, source, goal)
        if moved is None:
            self._stays[node, goal] = groups
            return False
        changed, less = moved
        ends = " to ".join(f"[{self._groups.names(key)}]" for key in (source, goal))
        name = self._groups.maker.name(node)
        self.log.append(f"moved:            {name} from {ends}: {less}")
        self._groups.by_key.update(changed)
        self._groups.key_of[node] = goal
        if source == node:
            self._rename(source, changed[source].members[0])
        return True

    def _is_known_to_stay(self, node: int, goal: int, groups: tuple[Group, Group]) -> bool:
        """Whether a move was refused between groups that have not changed since: a node may have
        several neighbours in one, and is looked at in several rounds."""
        known = self._stays.get((node, goal))
        return known is not None and all(map(operator.is_, known, groups))

    def _moved(self, node: int, source: int, goal: int) -> tuple[dict[int, Group], Price] | None:
        """The two groups once a node has moved, by their keys, and what that saves; None where
        they may not be so, or no fewer bytes cross. Guards, cheapest first."""
        left = [member for member in self._groups.by_key[source].members if member != node]
        given = [*self._groups.by_key[goal].members, node]
        made = {source: self._groups.maker.of_nodes(left), goal: self._groups.maker.of_nodes(given)}
        if sum(self._groups.by_key[key].moved - group.moved for key, group in made.items()) <= 0:
            return None
        changed: dict[int, Group] = {}
        for key, group in made.items():
            checked = self._groups.maker.checked(group, related=False)
            if isinstance(checked, Refusal) or self._groups.maker.boundary_asked_inside(checked):
                return None
            changed[key] = checked
        prices = self._groups.prices
        if sum(map(prices.cost, changed.values())) >= sum(map(self._groups.cost, changed)):
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
