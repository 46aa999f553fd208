"""The file shows all that the picture has, in its own colours, each thing beside the others."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import combinations

from fuser.segmenter import Remark, drawing_of
from fuser.segmenter.draw_svg import svg_file
from fuser.segmenter.picture import Entry, Look, Picture, picture_of
from fuser.segmenter.traffic import byte_count
from tests.segmenter.drawn import Rectangle, all_cases, apart, gelu_case, labels, matmul_case

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</text><script>alert('1')</script>&amp;\"' onload=\"x"
ADVANCE = 0.602
"""Of a monospaced letter, over the size of its text."""


def svg_of(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(svg_file(picture))


def texts(svg: ElementTree.Element) -> list[str]:
    return [found.text or "" for found in svg.iter(f"{SVG}text")]


def nodes(svg: ElementTree.Element) -> dict[str, ElementTree.Element]:
    """The group of each node by its name."""
    return {found.get("id", ""): found for found in svg.iter(f"{SVG}g") if found.get("id")}


def fill(group: ElementTree.Element) -> str:
    """The colour of a node's or swatch's own."""
    return group[0].get("style", "").removeprefix("fill:")


def swatches(svg: ElementTree.Element) -> dict[str, ElementTree.Element]:
    """What the legend shows beside its words."""
    return {row[1].text or "": row[0] for row in svg.findall(f"{SVG}g[{SVG}text]")}


def placed(
    element: ElementTree.Element, x: float = 0.0, y: float = 0.0
) -> Iterator[tuple[ElementTree.Element, Rectangle]]:
    """The shapes and texts below an element, and where they are in the file."""
    for child in element:
        shift = re.findall(r"[\d.]+", child.get("transform", "")) or ["0", "0"]
        dx, dy = x + float(shift[0]), y + float(shift[1])
        found = rectangle(child)
        if found is not None:
            left, top, right, bottom = found
            yield child, (left + dx, top + dy, right + dx, bottom + dy)
        yield from placed(child, dx, dy)


def rectangle(element: ElementTree.Element) -> Rectangle | None:
    """The room that a shape or a text takes, in the coordinates of its group."""
    kind = element.get("class")
    if element.tag == f"{SVG}polygon":
        points = re.findall(r"([\d.]+),([\d.]+)", element.get("points", ""))
        x, y = [float(point[0]) for point in points], [float(point[1]) for point in points]
        return min(x), min(y), max(x), max(y)
    if element.tag == f"{SVG}text":
        size = 10.0 if kind == "bytes" else 12.0
        width, height = len(element.text or "") * ADVANCE * size, size
        left = 0.0 if kind == "legend" else width / 2
        x, y = float(element.get("x", "")) - left, float(element.get("y", "")) - height / 2
    elif element.tag == f"{SVG}rect" and element.get("width") != "100%":
        x, y, width, height = (float(element.get(key, "")) for key in ("x", "y", "width", "height"))
    else:
        return None
    return x, y, x + width, y + height


def within(a: Rectangle, b: Rectangle) -> bool:
    return b[0] <= a[0] and b[1] <= a[1] and a[2] <= b[2] and a[3] <= b[3]


@all_cases
def test_it_has_every_operation_kernel_and_tensor(made):
    found = made()
    written = texts(svg_of(picture_of(found)))
    assert labels(found) <= set(written)
    for kernel in found.segments:
        read, stored = byte_count(kernel.bytes_read), byte_count(kernel.bytes_written)
        assert f"{kernel.name}: reads {read}, writes {stored}" in written
    for value in (*found.fusion.inputs, *found.fusion.output_values):
        assert f"{value}" in written
        assert f"{value.type}" in written


@all_cases
def test_each_operation_has_the_colour_of_its_kernel(made):
    found = made()
    picture = picture_of(found)
    svg = svg_of(picture)
    drawn, shown = nodes(svg), swatches(svg)
    colours: set[str] = set()
    for kernel in found.segments:
        own = {fill(drawn[node.name]) for node in picture.nodes if node.group == kernel.name}
        (swatch,) = (shown[words] for words in shown if words.startswith(f"{kernel.name}: "))
        assert own == {fill(swatch)}
        colours |= own
    assert len(colours) == len(found.segments)
    assert all(not fill(drawn[node.name]) for node in picture.nodes if node.group is None)


@all_cases
def test_metadata_is_dashed_torch_calls_are_hexagons_and_nothing_else_is(made):
    picture = picture_of(made())
    svg = svg_of(picture)
    (style,) = (found.text or "" for found in svg.iter(f"{SVG}style"))
    assert re.findall(r"(\S+) rect {[^}]*dasharray", style) == [".node.host"]
    for node in picture.nodes:
        group = nodes(svg)[node.name]
        assert group.get("class") == f"node {node.look.value}"
        points = group[0].get("points", "").split()
        assert len(points) == (6 if node.look is Look.TORCH else 0)


@all_cases
def test_every_edge_has_an_arrow_and_those_in_registers_are_faint(made):
    picture = picture_of(made())
    for kind in ("memory", "registers"):
        wanted = sum(edge.in_registers is (kind == "registers") for edge in picture.edges)
        drawn = [path.get("class") for path in svg_of(picture).iter(f"{SVG}path")]
        assert drawn.count(f"head {kind}") == wanted
        assert drawn.count(f"edge {kind}") == wanted + 1  # the legend's


def check_places(picture: Picture) -> None:
    """Text is in its shape, and nothing lies over anything else or leaves the picture."""
    svg = svg_of(picture)
    found = list(placed(svg))
    words = [at for element, at in found if element.tag == f"{SVG}text"]
    beside = [at for element, at in found if element.get("class") == "legend"]
    shapes = [at for element, at in found if element.tag != f"{SVG}text"]
    assert all(apart(a, b) for a, b in combinations([*shapes, *beside], 2))
    for each in words:
        assert each in beside or sum(within(each, shape) for shape in shapes) == 1
    whole = 0.0, 0.0, float(svg.get("width", "")), float(svg.get("height", ""))
    assert all(within(at, whole) for _, at in found)


@all_cases
def test_nothing_lies_over_anything_else(made):
    check_places(picture_of(made()))


def test_the_legend_may_be_higher_than_the_graph():
    entries = tuple(Entry(f"kernel{number}", Look.KERNEL, "#99dbf7") for number in range(200))
    check_places(dataclasses.replace(picture_of(gelu_case()), legend=entries))


def test_a_file_refers_to_nothing_else():
    text = svg_file(picture_of(matmul_case()))
    assert not re.findall(r"var\(|url\(|@import|href|https?://(?!www\.w3\.org/2000/svg\")", text)


def test_hostile_names_are_text():
    picture = picture_of(matmul_case())
    named = [dataclasses.replace(node, label=(HOSTILE,)) for node in picture.nodes]
    edges = [dataclasses.replace(edge, label=HOSTILE) for edge in picture.edges]
    entries = (Entry(HOSTILE, Look.KERNEL, HOSTILE),)
    svg = svg_of(Picture(tuple(named), tuple(edges), entries))
    assert texts(svg).count(HOSTILE) >= len(named) + 1
    (swatch,) = (shown for words, shown in swatches(svg).items() if words == HOSTILE)
    assert fill(swatch) == HOSTILE
    assert not list(svg.iter(f"{SVG}script"))


def test_a_page_says_more_of_a_node():
    picture = picture_of(gelu_case())
    remarks = {"T0": Remark("lies <here>", {"id": "n0", "data_step": "s0", "role": "button"})}
    svg = ElementTree.fromstring(drawing_of(picture, remarks, "a graph"))
    (group,) = (found for found in svg.iter("g") if found.get("id") == "n0")
    assert (group.get("data-step"), group.get("role")) == ("s0", "button")
    assert [found.text for found in svg.iter("title")] == ["lies <here>"]
    assert svg.get("aria-label") == "a graph"
    assert not list(svg.iter("style"))
