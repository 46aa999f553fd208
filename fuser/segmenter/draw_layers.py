"""The order and the places of items in the layers of a drawing: few crossings, straight lines."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right, insort
from dataclasses import dataclass, field

BETWEEN = 14.0
"""Free room between neighbours of a layer."""
ROUNDS = 12
"""How often layers are gone through, down and up."""


@dataclass(slots=True)
class Item:
    """What takes room in a layer: a node, a label, or a line that passes."""

    layer: int
    width: float
    height: float
    x: float = 0.0
    above: list[Item] = field(default_factory=list["Item"])
    below: list[Item] = field(default_factory=list["Item"])
    position: int = 0
    passes: bool = False


def join(upper: Item, lower: Item) -> None:
    upper.below.append(lower)
    lower.above.append(upper)


# -- the order within the layers -------------------------------------------------------------------


def sort_layers(layers: list[list[Item]]) -> None:
    """Sort each layer by the means of its neighbours' positions, down and up, while it helps."""
    _number(layers)
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for number in range(2 * ROUNDS):
        downwards = number % 2 == 0
        for layer in layers if downwards else reversed(layers):
            keys = {id(item): _mean_position(item, downwards) for item in layer}
            layer.sort(key=lambda item: keys[id(item)])
            _number([layer])
        found = _crossings(layers)
        if found < fewest:
            best, fewest = [list(layer) for layer in layers], found
    for layer, sorted_ in zip(layers, best, strict=True):
        layer[:] = sorted_
    _number(layers)


def _number(layers: list[list[Item]]) -> None:
    for layer in layers:
        for position, item in enumerate(layer):
            item.position = position


def _mean_position(item: Item, downwards: bool) -> float:
    neighbours = item.above if downwards else item.below
    if not neighbours:
        return float(item.position)
    return sum(other.position for other in neighbours) / len(neighbours)


def _crossings(layers: list[list[Item]]) -> int:
    """How many pairs of lines cross."""
    found = 0
    for layer in layers:
        seen: list[int] = []
        for item in layer:
            ends = sorted(other.position for other in item.below)
            found += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return found


# -- coordinates -----------------------------------------------------------------------------------


def place_layers(layers: list[list[Item]]) -> None:
    """Move items towards their neighbours, in order and without touching."""
    for layer in layers:
        _settle(layer, [0.0] * len(layer))
    for number in range(2 * ROUNDS):
        downwards = number % 2 == 0
        last = number >= 2 * ROUNDS - 2
        for layer in layers if downwards else reversed(layers):
            _settle(layer, [_wish(item, downwards, last) for item in layer])
    for _ in range(2):
        for run in _runs(layers):
            _straighten(run, layers)


def _wish(item: Item, downwards: bool, both: bool) -> float:
    near = item.above if downwards else item.below
    near = [*item.above, *item.below] if both else near or item.above or item.below
    weights = [8.0 if item.passes and other.passes else 1.0 for other in near]
    total = sum(weight * other.x for weight, other in zip(weights, near, strict=True))
    return total / sum(weights) if near else item.x


def _runs(layers: list[list[Item]]) -> list[list[Item]]:
    """Longest paths along which nothing branches off or joins, the longest first."""
    runs: list[list[Item]] = []
    for layer in layers:
        for item in layer:
            if len(item.above) == 1 and len(item.above[0].below) == 1:
                continue
            run = [item]
            while len(run[-1].below) == 1 and len(run[-1].below[0].above) == 1:
                run.append(run[-1].below[0])
            runs.append(run)
    return sorted(runs, key=len, reverse=True)


def _straighten(run: list[Item], layers: list[list[Item]]) -> None:
    """Put as long parts of a run as possible above each other, in the room their layers have."""
    while run:
        left, right, part = -math.inf, math.inf, list[Item]()
        for item in run:
            least, most = _room(item, layers[item.layer])
            if max(left, least) > min(right, most):
                break
            left, right = max(left, least), min(right, most)
            part.append(item)
        middle = statistics.median(item.x for item in part)
        for item in part:
            item.x = min(max(middle, left), right)
        run = run[len(part) :]


def _room(item: Item, layer: list[Item]) -> tuple[float, float]:
    """Between which places an item can move without touching its neighbours."""
    least, most = -math.inf, math.inf
    if item.position > 0:
        before = layer[item.position - 1]
        least = before.x + (before.width + item.width) / 2 + BETWEEN
    if item.position + 1 < len(layer):
        after = layer[item.position + 1]
        most = after.x - (after.width + item.width) / 2 - BETWEEN
    return min(least, item.x), max(most, item.x)


def _settle(layer: list[Item], wishes: list[float]) -> None:
    """The places closest to the wishes (least squares) that keep order and distance.

    With the distances taken off, places need only not decrease: neighbours whose wishes decrease
    are pooled at their mean.
    """
    offset, before = 0.0, 0.0
    pools: list[tuple[float, int]] = []  # (sum of wishes, items) of a run at one place
    offsets: list[float] = []
    for item, wish in zip(layer, wishes, strict=True):
        offset += (before + item.width) / 2 + BETWEEN if offsets else 0.0
        before = item.width
        offsets.append(offset)
        total, count = wish - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            joined, more = pools.pop()
            total, count = total + joined, count + more
        pools.append((total, count))
    places = [total / count for total, count in pools for _ in range(count)]
    for item, place, shift in zip(layer, places, offsets, strict=True):
        item.x = place + shift
