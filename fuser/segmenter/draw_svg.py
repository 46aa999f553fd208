"""A picture as SVG: for a page, which adds tooltips and its own colours, or as a file by itself.

All text is monospaced, so that how wide it is follows from the number of its letters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from fuser.markup import Attribute, Markup, joined, tag
from fuser.segmenter.draw_layout import Layout, Link, Point, Size, arrange
from fuser.segmenter.picture import Edge, Entry, Look, Node, Picture

MOST = 1500
"""Nodes of the largest picture that is drawn; in one of more nobody would see anything."""

STYLE = """\
.drawing { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
.drawing text {
  font-size: 12px; text-anchor: middle; dominant-baseline: central; fill: var(--ink);
}
.drawing .bytes { font-size: 10px; }
.drawing .legend { text-anchor: start; }
.cover { fill: var(--paper); }
.node rect, .node polygon { fill: var(--node); stroke: var(--faint); }
.node.kernel text { fill: #14171c; }
.node.output rect { stroke-width: 2; }
.node.host rect { stroke-dasharray: 4 3; }
.node.torch polygon { fill: var(--rule); }
.edge { fill: none; stroke: var(--ink); }
.head { fill: var(--ink); }
.edge.registers { stroke: var(--registers); }
.head.registers { fill: var(--registers); }
"""
"""CSS of a drawing; the page that it stands in has the colours."""

_COLOURS = {
    "ink": "#1d2129",
    "paper": "#ffffff",
    "node": "#ffffff",
    "faint": "#5c6470",
    "rule": "#d5d9e0",
    "registers": "#a3aab5",
}
_LETTER, _SMALL = 7.3, 6.2
"""Widths of a letter of 12 and of 10 pixels."""
_LINE = 16.0
_MARGIN = 12.0


@dataclass(frozen=True, slots=True)
class Remark:
    """What is said of a node beside its label, and attributes of its element."""

    words: str
    attributes: Mapping[str, Attribute]


def is_legible(picture: Picture) -> bool:
    """Whether a picture is small enough to be drawn."""
    return len(picture.nodes) <= MOST


def drawing_of(picture: Picture, remarks: Mapping[str, Remark], label: str) -> Markup:
    """An `svg` element for a page that has `STYLE`; `remarks` are by the names of nodes."""
    return _svg(*_graph(picture, remarks, 0.0), role="group", aria_label=label)


def svg_file(picture: Picture) -> str:
    """A file that needs no other, with a legend left of the graph; equal for equal pictures."""
    legend, (beside, below) = _legend(picture.legend)
    graph, (right, bottom) = _graph(picture, {}, beside)
    style = re.sub(r"var\(--(\w+)\)", lambda found: _COLOURS[found.group(1)], STYLE)
    paper = tag("rect", class_="cover", width="100%", height="100%")
    head = tag("title", "A segmented fusion"), tag("style", style), paper
    size = right, max(bottom, below)
    return _svg(joined(*head, legend, graph), size, xmlns="http://www.w3.org/2000/svg") + "\n"


def _svg(content: Markup, size: Size, **attributes: Attribute) -> Markup:
    width, height = size
    box = f"0 0 {width:.1f} {height:.1f}"
    return tag(
        "svg", content, class_="drawing", width=width, height=height, viewBox=box, **attributes
    )


def _graph(picture: Picture, remarks: Mapping[str, Remark], left: float) -> tuple[Markup, Size]:
    """Nodes and edges from `left` on, and where they end, with a margin around them."""
    links = _links(picture)
    layout = arrange({node.name: _size(node) for node in picture.nodes}, list(links.values()))
    nodes = [_node(node, layout.nodes[node.name], remarks.get(node.name)) for node in picture.nodes]
    shift = f"translate({left + _MARGIN:g} {_MARGIN:g})"
    width, height = (extent + 2 * _MARGIN for extent in layout.size)
    drawn = tag("g", *_edges(picture, links, layout), *nodes, transform=shift)
    return drawn, (left + width, height)


# -- nodes -----------------------------------------------------------------------------------------


def _size(node: Node) -> Size:
    """Room for the label in the node's shape."""
    width = max(map(len, node.label)) * _LETTER
    height = len(node.label) * _LINE
    match node.look:
        case Look.INPUT | Look.OUTPUT:
            return width + 28.0, height + 8.0
        case Look.TORCH:
            return width + 34.0, height + 12.0
        case Look.KERNEL | Look.HOST:
            return width + 16.0, height + 8.0
        case _:
            assert_never(node.look)


def _node(node: Node, centre: Point, remark: Remark | None) -> Markup:
    (width, height), (x, y) = _size(node), centre
    top = y - (len(node.label) - 1) * _LINE / 2
    texts = [
        tag("text", line, x=x, y=top + number * _LINE) for number, line in enumerate(node.label)
    ]
    return tag(
        "g",
        tag("title", remark.words) if remark else None,
        _shape(node.look, node.colour, (x - width / 2, y - height / 2), (width, height)),
        *texts,
        class_=f"node {node.look.value}",
        **(remark.attributes if remark else {"id": node.name}),
    )


def _shape(look: Look, colour: str, corner: Point, size: Size) -> Markup:
    """A hexagon, a pill or a box; a kernel's has a colour of its own."""
    (left, top), (width, height) = corner, size
    fill = f"fill:{colour}" if look is Look.KERNEL else None
    if look is Look.TORCH:
        right, bottom, middle, inset = left + width, top + height, top + height / 2, height / 3
        corners = [(left, middle), (left + inset, top), (right - inset, top), (right, middle)]
        corners += [(right - inset, bottom), (left + inset, bottom)]
        return tag("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners))
    radius = height / 2 if look in (Look.INPUT, Look.OUTPUT) else 4.0
    return tag("rect", x=left, y=top, width=width, height=height, rx=radius, style=fill)


# -- edges -----------------------------------------------------------------------------------------


def _links(picture: Picture) -> dict[tuple[str, str], Link]:
    """One link a tensor, by the node that has it and the tensor's name."""
    targets: dict[tuple[str, str], list[Edge]] = {}
    for edge in picture.edges:
        targets.setdefault((edge.source, edge.value), []).append(edge)
    return {
        key: Link(key[0], tuple(edge.target for edge in found), _label_size(found))
        for key, found in targets.items()
    }


def _label_size(edges: list[Edge]) -> Size:
    """Room for the bytes; none where all of it stays in registers."""
    if all(edge.in_registers for edge in edges):
        return 2.0, 2.0
    return len(edges[0].label) * _SMALL + 4.0, 13.0


def _edges(picture: Picture, links: Mapping[tuple[str, str], Link], layout: Layout) -> list[Markup]:
    """A line for every reader, those through memory above the others; then the bytes."""
    keys = list(links)
    kinds = {(edge.source, edge.value, edge.target): edge.in_registers for edge in picture.edges}
    lines: list[tuple[bool, Markup]] = []
    for branch in layout.branches:
        registers = kinds[(*keys[branch.link], branch.target)]
        lines.append((registers, _line(branch.points, "registers" if registers else "memory")))
    labels = {(edge.source, edge.value): edge.label for edge in picture.edges}
    sizes = [
        _label(labels[key], centre)
        for key, centre in zip(keys, layout.labels, strict=True)
        if links[key].label[1] > 2.0
    ]
    lines.sort(key=lambda line: not line[0])
    return [*(line for _, line in lines), *sizes]


def _line(points: tuple[Point, ...], kind: str) -> Markup:
    """A line with an arrow head that points down."""
    x, y = points[-1]
    line = tag("path", class_=f"edge {kind}", d=_curve(points))
    return joined(line, tag("path", class_=f"head {kind}", d=f"M{x:.1f} {y:.1f}l-3 -6h6z"))


def _label(words: str, centre: Point) -> Markup:
    """Bytes on a line, which is covered behind them."""
    (x, y), width = centre, len(words) * _SMALL + 4.0
    cover = tag("rect", class_="cover", x=x - width / 2, y=y - 6.5, width=width, height=13.0)
    return joined(cover, tag("text", words, class_="bytes", x=x, y=y))


def _curve(points: tuple[Point, ...]) -> str:
    """A line through the points, vertical at each; straight stretches are one piece."""
    (x, y), *rest = points
    pieces = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in rest:
        if to_x == x:
            if pieces[-1].startswith("V"):
                pieces.pop()
            pieces.append(f"V{to_y:.1f}")
        else:
            middle = (y + to_y) / 2
            pieces.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return "".join(pieces)


# -- the legend ------------------------------------------------------------------------------------

_SWATCH: Size = (22.0, 12.0)
_ROW = 18.0
_LINES = {"memory": "in memory, with its bytes", "registers": "in a kernel's registers"}


def _legend(entries: tuple[Entry, ...]) -> tuple[Markup, Size]:
    """Every kernel, and what else looks different, below each other; and where it ends."""
    width, height = _SWATCH
    rows = [(_swatch(entry), entry.words) for entry in entries]
    for kind, words in _LINES.items():
        line = tag("path", class_=f"edge {kind}", d=f"M0 {height / 2:g}H{width:g}")
        rows.append((line, f"a tensor {words}"))
    drawn = [
        tag(
            "g",
            swatch,
            tag("text", words, class_="legend", x=width + 7.0, y=height / 2),
            transform=f"translate({_MARGIN:g} {_MARGIN + number * _ROW:g})",
        )
        for number, (swatch, words) in enumerate(rows)
    ]
    longest = max(len(words) for _, words in rows) * _LETTER
    return joined(*drawn), (2 * _MARGIN + width + 7.0 + longest, 2 * _MARGIN + len(rows) * _ROW)


def _swatch(entry: Entry) -> Markup:
    shape = _shape(entry.look, entry.colour, (0.0, 0.0), _SWATCH)
    return tag("g", shape, class_=f"node {entry.look.value}")
