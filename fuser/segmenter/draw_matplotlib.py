"""A picture as SVG by matplotlib. Imported when a picture is drawn, where matplotlib is there."""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Literal, assert_never

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Ellipse, FancyBboxPatch, Patch, PathPatch, Polygon, Rectangle
from matplotlib.path import Path
from matplotlib.textpath import text_to_path

from fuser.segmenter.draw_layout import Layout, Link, Point, Size, arrange
from fuser.segmenter.picture import Edge, Entry, Look, Node, Picture

POINTS_PER_INCH = 72.0
MARGIN = 14.0
TEXT, SMALL = 9.0, 7.5
LINE = 1.35
"""Distance of text lines over the size of the text."""
ARROW = 4.5
INK, FAINT = "#333333", "#9a9a9a"
# Text stays text, so that it can be searched; the salt makes ids, and so the file, reproducible.
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "fuser", "font.family": "DejaVu Sans"}


def svg(picture: Picture) -> str:
    """The picture as SVG text, the same for equal pictures."""
    buffer = io.StringIO()
    with mpl.rc_context(_SETTINGS):  # pyright: ignore[reportUnknownMemberType, reportArgumentType]
        drawn = figure(picture)
        drawn.savefig(buffer, format="svg", metadata={"Date": None})  # pyright: ignore[reportUnknownMemberType]
    return buffer.getvalue()


def figure(picture: Picture) -> Figure:
    """The legend and, right of it, the graph; the size follows from what is in it."""
    links = _links(picture.edges)
    layout = arrange({node.name: _size(node) for node in picture.nodes}, list(links.values()))
    beside, height = _legend_size(picture.legend)
    left = MARGIN + (beside + 2 * MARGIN if picture.legend else 0.0)
    width = left + layout.size[0] + MARGIN
    height = max(height, layout.size[1]) + 2 * MARGIN
    made = Figure(figsize=(width / POINTS_PER_INCH, height / POINTS_PER_INCH))
    axes = made.add_axes((0.0, 0.0, 1.0, 1.0))  # pyright: ignore[reportUnknownMemberType]
    axes.set_xlim(0.0, width)
    axes.set_ylim(height, 0.0)
    axes.set_axis_off()
    _draw_legend(axes, picture.legend)
    _draw_edges(axes, picture.edges, list(links), layout, (left, MARGIN))
    for node in picture.nodes:
        x, y = layout.nodes[node.name]
        _draw_node(axes, node, (x + left, y + MARGIN))
    return made


# -- sizes -----------------------------------------------------------------------------------------


@cache
def _width(text: str, size: float) -> float:
    return text_to_path.get_text_width_height_descent(text, _font(size), False)[0]


@cache
def _font(size: float) -> FontProperties:
    return FontProperties(family="DejaVu Sans", size=size)


def _size(node: Node) -> Size:
    """Room for the label in the node's shape."""
    width = max(_width(line, TEXT) for line in node.label)
    height = len(node.label) * TEXT * LINE
    match node.look:
        case Look.INPUT | Look.OUTPUT:
            return width * 1.2 + 14.0, height * 1.3 + 4.0
        case Look.TORCH:
            return width + 28.0, height + 10.0
        case Look.KERNEL | Look.HOST:
            return width + 14.0, height + 9.0
        case _:
            assert_never(node.look)


def _links(edges: tuple[Edge, ...]) -> dict[tuple[str, str], Link]:
    """One link a tensor, by the node that has it and the tensor's name."""
    targets: dict[tuple[str, str], list[str]] = {}
    labels: dict[tuple[str, str], str] = {}
    for edge in edges:
        targets.setdefault((edge.source, edge.value), []).append(edge.target)
        labels[edge.source, edge.value] = edge.label
    return {
        key: Link(key[0], tuple(found), (_width(labels[key], SMALL) + 4.0, SMALL * LINE))
        for key, found in targets.items()
    }


# -- drawing ---------------------------------------------------------------------------------------


def _draw_node(axes: Axes, node: Node, centre: Point) -> None:
    shape = _shape(node.look, _size(node), centre)
    shape.set_gid(node.name)
    _paint(axes, shape, node.look, node.colour)
    top = centre[1] - (len(node.label) - 1) * TEXT * LINE / 2
    for number, line in enumerate(node.label):
        _write(axes, line, (centre[0], top + number * TEXT * LINE), TEXT)


def _shape(look: Look, size: Size, centre: Point) -> Patch:
    (width, height), (x, y) = size, centre
    left, right, top, bottom = x - width / 2, x + width / 2, y - height / 2, y + height / 2
    match look:
        case Look.INPUT | Look.OUTPUT:
            return Ellipse(centre, width, height)
        case Look.TORCH:
            inset = 9.0
            return Polygon(
                [
                    (left, y),
                    (left + inset, top),
                    (right - inset, top),
                    (right, y),
                    (right - inset, bottom),
                    (left + inset, bottom),
                ]
            )
        case Look.KERNEL | Look.HOST:
            style = "round,pad=0,rounding_size=4"
            return FancyBboxPatch((left, top), width, height, boxstyle=style)
        case _:
            assert_never(look)


def _paint(axes: Axes, shape: Patch, look: Look, colour: str) -> None:
    shape.set_facecolor(colour)
    shape.set_edgecolor(INK)
    shape.set_linewidth(1.6 if look is Look.OUTPUT else 0.8)
    shape.set_linestyle("--" if look is Look.HOST else "-")
    shape.set_clip_on(False)
    axes.add_artist(shape)  # not add_patch, which would measure it to fit the axes


def _write(
    axes: Axes, text: str, at: Point, size: float, align: Literal["left", "center"] = "center"
) -> None:
    written = axes.text(*at, text)  # pyright: ignore[reportUnknownMemberType]
    written.set_fontsize(size)
    written.set_color(INK)
    written.set_horizontalalignment(align)
    written.set_verticalalignment("center_baseline")


def _draw_edges(
    axes: Axes,
    edges: tuple[Edge, ...],
    keys: list[tuple[str, str]],
    layout: Layout,
    shift: Point,
) -> None:
    """Lines and arrow heads, darker where memory is read; then every label on its line."""
    kinds = {(e.source, e.value, e.target): e.in_registers for e in edges}
    labels = {(e.source, e.value): e.label for e in edges}
    drawn: set[tuple[Point, Point]] = set()
    for in_registers, colour in ((False, INK), (True, FAINT)):
        chosen = [
            branch
            for branch in layout.branches
            if kinds[*keys[branch.link], branch.target] is in_registers
        ]
        pieces = dict.fromkeys(piece for branch in chosen for piece in branch.pieces)
        curves = [_curve(line, shift) for line in _lines(p for p in pieces if p not in drawn)]
        drawn.update(pieces)
        if curves:
            lines = Path.make_compound_path(*curves)
            heads = Path.make_compound_path(*(_head(branch.points[-1], shift) for branch in chosen))
            for path, style in ((lines, ("none", colour)), (heads, (colour, "none"))):
                patch = PathPatch(path, facecolor=style[0], edgecolor=style[1], linewidth=0.8)
                patch.set_clip_on(False)
                axes.add_artist(patch)
    for key, (x, y) in zip(keys, layout.labels, strict=True):
        _draw_label(axes, labels[key], (x + shift[0], y + shift[1]))


def _draw_label(axes: Axes, text: str, centre: Point) -> None:
    """Text on a line, which is covered behind it."""
    width, height = _width(text, SMALL) + 3.0, SMALL * LINE
    corner = centre[0] - width / 2, centre[1] - height / 2
    cover = Rectangle(corner, width, height, facecolor="white", linewidth=0, clip_on=False)
    axes.add_artist(cover)
    _write(axes, text, centre, SMALL)


def _lines(pieces: Iterable[tuple[Point, Point]]) -> list[list[Point]]:
    """Pieces that continue each other as one line, without the points on straight stretches."""
    lines: list[list[Point]] = []
    for start, end in pieces:
        if not lines or lines[-1][-1] != start:
            lines.append([start, end])
        elif lines[-1][-2][0] == start[0] == end[0]:
            lines[-1][-1] = end
        else:
            lines[-1].append(end)
    return lines


def _curve(points: list[Point], shift: Point) -> Path:
    """A line through the points, vertical at each."""
    corners = [(x + shift[0], y + shift[1]) for x, y in points]
    made = corners[:1]
    codes = [Path.MOVETO]
    for (x, y), (to_x, to_y) in pairwise(corners):
        if x == to_x:
            made.append((to_x, to_y))
            codes.append(Path.LINETO)
            continue
        made += [(x, (y + to_y) / 2), (to_x, (y + to_y) / 2), (to_x, to_y)]
        codes += [Path.CURVE4] * 3
    return Path(made, codes)


def _head(tip: Point, shift: Point) -> Path:
    """An arrow head that points down."""
    x, y = tip[0] + shift[0], tip[1] + shift[1]
    corners = [(x, y), (x - ARROW / 2, y - ARROW), (x + ARROW / 2, y - ARROW), (x, y)]
    return Path(corners, closed=True)


# -- the legend ------------------------------------------------------------------------------------

_SWATCH: Size = (22.0, 11.0)
_ROW = 17.0


def _legend_size(entries: tuple[Entry, ...]) -> Size:
    width = max((_width(entry.words, TEXT) for entry in entries), default=0.0)
    return _SWATCH[0] + 7.0 + width, len(entries) * _ROW


def _draw_legend(axes: Axes, entries: tuple[Entry, ...]) -> None:
    for number, entry in enumerate(entries):
        y = MARGIN + (number + 0.5) * _ROW
        swatch = _shape(entry.look, _SWATCH, (MARGIN + _SWATCH[0] / 2, y))
        _paint(axes, swatch, entry.look, entry.colour)
        _write(axes, entry.words, (MARGIN + _SWATCH[0] + 7.0, y), TEXT, align="left")
