"""Where nodes and edges of a picture go: layers from top to bottom, nothing over anything else.

Nodes stand in layers, each below what it reads. Between two layers is another one for labels. A
tensor leaves its node as one line, past its label, and branches to its readers as late as it can;
where it passes a layer, a place in that layer is kept free for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from fuser.segmenter.draw_layers import Item, join, place_layers, sort_layers

Point = tuple[float, float]
Size = tuple[float, float]

BELOW = 13.0
"""Free room between layers, at least."""


@dataclass(frozen=True, slots=True)
class Link:
    """A tensor: from its node to those that read it, with the size of its label."""

    source: str
    targets: tuple[str, ...]
    label: Size


@dataclass(frozen=True, slots=True)
class Branch:
    """The way of a link to one of its targets, top down, vertical at each of its points.

    Branches of one link share their first points.
    """

    link: int
    target: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Centres of the nodes and of the links' labels; `size` is that of the whole."""

    nodes: Mapping[str, Point]
    labels: tuple[Point, ...]
    branches: tuple[Branch, ...]
    size: Size


def arrange(boxes: Mapping[str, Size], links: Sequence[Link]) -> Layout:
    """Lay out an acyclic graph whose nodes have these sizes."""
    layers, nodes, trunks = _items(boxes, links)
    sort_layers(layers)
    place_layers(layers)
    return _finished(layers, nodes, trunks, links)


def _items(
    boxes: Mapping[str, Size], links: Sequence[Link]
) -> tuple[list[list[Item]], dict[str, Item], list[list[Item]]]:
    """The items of every layer, those of nodes, and those each link passes from the top down."""
    ranks = _ranks(boxes, links)
    nodes = {name: Item(2 * ranks[name], *size) for name, size in boxes.items()}
    layers: list[list[Item]] = [[] for _ in range(2 * max(ranks.values(), default=-1) + 1)]
    for item in nodes.values():
        layers[item.layer].append(item)
    trunks: list[list[Item]] = []
    for link in links:
        first = nodes[link.source].layer + 1
        last = max(nodes[target].layer for target in link.targets)
        trunk = [Item(layer, 2.0, 0.0, passes=True) for layer in range(first, last)]
        trunk[0].width, trunk[0].height = link.label
        for upper, lower in zip([nodes[link.source], *trunk], trunk, strict=False):
            join(upper, lower)
        for item in trunk:
            layers[item.layer].append(item)
        for target in link.targets:
            join(trunk[nodes[target].layer - first - 1], nodes[target])
        trunks.append(trunk)
    return layers, nodes, trunks


def _ranks(boxes: Mapping[str, Size], links: Sequence[Link]) -> dict[str, int]:
    """Each node's layer: one below the lowest it reads, but chains from inputs near their end."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(boxes)
    graph.add_edges_from((link.source, target) for link in links for target in link.targets)
    ranks: dict[str, int] = {}
    hanging: set[str] = set()
    in_order = list(nx.topological_sort(graph))
    for name in in_order:
        before = list(graph.predecessors(name))
        ranks[name] = max((ranks[other] + 1 for other in before), default=0)
        if all(other in hanging and graph.out_degree(other) == 1 for other in before):
            hanging.add(name)
    for name in reversed(in_order):
        readers = [ranks[after] for after in graph.successors(name)]
        if name in hanging and readers:
            ranks[name] = min(readers) - 1
    return ranks


def _finished(
    layers: list[list[Item]],
    nodes: Mapping[str, Item],
    trunks: list[list[Item]],
    links: Sequence[Link],
) -> Layout:
    left = min((item.x - item.width / 2 for layer in layers for item in layer), default=0.0)
    right = max((item.x + item.width / 2 for layer in layers for item in layer), default=0.0)
    middles, heights, bottom = _heights(layers)

    def point(item: Item, edge: float = 0.0) -> Point:
        return item.x - left, middles[item.layer] + edge * heights[item.layer] / 2

    branches: list[Branch] = []
    for number, (link, trunk) in enumerate(zip(links, trunks, strict=True)):
        for target in link.targets:
            end = nodes[target]
            passed = trunk[: end.layer - trunk[0].layer]
            source = nodes[link.source]
            points = [_port(point(source), source.height / 2)]
            points += [point(item, edge) for item in passed for edge in (-1.0, 1.0)]
            points.append(_port(point(end), -end.height / 2))
            branches.append(Branch(number, target, tuple(points)))
    return Layout(
        {name: point(item) for name, item in nodes.items()},
        tuple(point(trunk[0]) for trunk in trunks),
        tuple(branches),
        (right - left, bottom),
    )


def _port(centre: Point, down: float) -> Point:
    return centre[0], centre[1] + down


def _heights(layers: list[list[Item]]) -> tuple[list[float], list[float], float]:
    """Each layer's middle and height, and where the last one ends. Long slants get more room."""
    middles: list[float] = []
    heights: list[float] = []
    y = 0.0
    for layer in layers:
        slant = max((abs(a.x - b.x) for b in layer for a in b.above), default=0.0)
        y += min(max(BELOW, slant / 5), 4 * BELOW) if middles else 0.0
        heights.append(max((item.height for item in layer), default=0.0))
        middles.append(y + heights[-1] / 2)
        y += heights[-1]
    return middles, heights, y
