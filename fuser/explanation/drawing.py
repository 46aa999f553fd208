"""The segmented graph of a partition as SVG, for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from fuser.ir.nodes import Statement, Value
from fuser.ir.printer import print_statement
from fuser.markup import Markup, joined, tag
from fuser.segmenter import (
    Edge,
    Layout,
    Link,
    Look,
    Node,
    Picture,
    Segment,
    SegmentedFusion,
    arrange,
    picture_of,
)

Point = tuple[float, float]
Size = tuple[float, float]

MOST = 1500
"""Nodes of the largest graph that is drawn; of one of more nobody would see anything."""
_LETTER, _SMALL = 7.3, 6.2
"""Widths of a letter in a node and on a line: the page's monospaced 12 and 10 pixels."""
_LINE = 16.0
_MARGIN = 12.0


def drawing_of(
    segmented: SegmentedFusion, prefix: str, steps: Sequence[str], label: str
) -> Markup | None:
    """The graph, its nodes numbered after `prefix`; None where there are too many.

    `steps` are the page's names of the steps, which the nodes refer to.
    """
    picture = picture_of(segmented)
    if len(picture.nodes) > MOST:
        return None
    links = _links(picture)
    layout = arrange({node.name: _size(node) for node in picture.nodes}, list(links.values()))
    width, height = (extent + 2 * _MARGIN for extent in layout.size)
    told = _Told(segmented, steps)
    nodes = [
        _node(node, f"{prefix}-n{number}", layout.nodes[node.name], told, number == 0)
        for number, node in enumerate(picture.nodes)
    ]
    shift = f"translate({_MARGIN:g} {_MARGIN:g})"
    inner = tag("g", *_edges(picture, links, layout), *nodes, transform=shift)
    return tag(
        "svg",
        inner,
        class_="drawing",
        width=width,
        height=height,
        viewBox=f"0 0 {width:.1f} {height:.1f}",
        role="group",
        aria_label=label,
    )


class _Told:
    """What is said of a node: its operation, and where its tensors lie."""

    def __init__(self, segmented: SegmentedFusion, names: Sequence[str]) -> None:
        self._segmented = segmented
        self._statements: dict[Value, Statement] = segmented.fusion.definitions()
        self._segments = {segment.name: segment for segment in segmented.segments}
        self._steps = {
            step.name if isinstance(step, Segment) else f"torch{number}": name
            for number, (step, name) in enumerate(zip(segmented.steps, names, strict=True))
        }

    def step(self, node: Node) -> str | None:
        """The page's name of the step that computes a node, if one does."""
        return self._steps.get(node.group or node.name.rpartition("_")[0])

    def lines(self, node: Node) -> list[str]:
        """The statement, and the type and the place of every tensor."""
        statement = self._statements.get(node.values[0]) if node.values else None
        computed = node.look not in (Look.INPUT, Look.OUTPUT)
        first = print_statement(statement) if computed and statement else " ".join(node.label[:1])
        segment = self._segments.get(node.group or "")
        return [first, *(self._place(value, node.look, segment) for value in node.values)]

    def _place(self, value: Value, look: Look, segment: Segment | None) -> str:
        lies = self._segmented.memory.get(value)
        if segment is not None and value not in segment.stores:
            return f"{value}: {value.type}, in registers"
        if lies is None:
            return f"{value}: {value.type}, {look.value}"
        words = f"{value}: {value.type}, strides {list(lies.strides)}"
        words += "" if lies.base is value else f", memory of {lies.base}"
        return words + (f" from element {lies.offset} on" if lies.offset else "")


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


def _node(node: Node, name: str, centre: Point, told: _Told, first: bool) -> Markup:
    (width, height), (x, y) = _size(node), centre
    lines = told.lines(node)
    top = y - (len(node.label) - 1) * _LINE / 2
    texts = [
        tag("text", line, x=x, y=top + number * _LINE) for number, line in enumerate(node.label)
    ]
    step = told.step(node)
    return tag(
        "g",
        tag("title", "\n".join(lines)),
        _shape(node.look, (x - width / 2, y - height / 2), (width, height)),
        *texts,
        id=name,
        class_=f"node {node.look.value}",
        style=f"--fill:{node.colour}" if node.group else None,
        data_step=step,
        tabindex="0" if first else "-1",
        role="button" if step else "img",
        aria_label=", ".join(lines),
    )


def _shape(look: Look, corner: Point, size: Size) -> Markup:
    (left, top), (width, height) = corner, size
    if look is Look.TORCH:
        right, bottom, middle, inset = left + width, top + height, top + height / 2, 10.0
        corners = [(left, middle), (left + inset, top), (right - inset, top), (right, middle)]
        corners += [(right - inset, bottom), (left + inset, bottom)]
        return tag("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners))
    radius = height / 2 if look in (Look.INPUT, Look.OUTPUT) else 4.0
    return tag("rect", x=left, y=top, width=width, height=height, rx=radius)


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
        kind = "registers" if registers else "memory"
        line = tag("path", class_=f"edge {kind}", d=_curve(branch.points))
        lines.append((registers, joined(line, _head(branch.points[-1], kind))))
    labels = {(edge.source, edge.value): edge.label for edge in picture.edges}
    sizes = [
        _label(labels[key], centre)
        for key, centre in zip(keys, layout.labels, strict=True)
        if links[key].label[1] > 2.0
    ]
    lines.sort(key=lambda line: not line[0])
    return [*(line for _, line in lines), *sizes]


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


def _head(tip: Point, kind: str) -> Markup:
    """An arrow head that points down."""
    x, y = tip
    corners = f"M{x:.1f} {y:.1f}l-3 -6h6z"
    return tag("path", class_=f"head {kind}", d=corners)
