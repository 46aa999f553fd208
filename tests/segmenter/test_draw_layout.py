"""Drawings: boxes and labels lie over nothing, lines pass no box."""

from __future__ import annotations

import pytest

from fuser.segmenter.draw_layout import Layout, Link, arrange
from tests.segmenter.drawn import Rectangle, apart


def rectangles(
    layout: Layout, boxes: dict[str, tuple[float, float]], links: list[Link]
) -> list[Rectangle]:
    """All that takes room: nodes and labels."""
    placed = [(layout.nodes[name], size) for name, size in boxes.items()]
    placed += [(at, link.label) for at, link in zip(layout.labels, links, strict=True)]
    return [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in placed]


@pytest.mark.parametrize("width", [1, 3, 8])
def test_nothing_lies_over_anything_else(width: int):
    # Layers of `width` nodes, each reading two of the layer before and one from further up.
    names = [f"n{number}" for number in range(width * 12)]
    boxes = {name: (30.0 + 7 * (number % 5), 20.0) for number, name in enumerate(names)}
    readers: dict[str, list[str]] = {name: [] for name in names}
    for number, name in enumerate(names[width:], start=width):
        for back in {width, width + number % 3, 3 * width}:
            if number >= back:
                readers[names[number - back]].append(name)
    links = [Link(name, tuple(found), (40.0, 9.0)) for name, found in readers.items() if found]
    layout = arrange(boxes, links)
    found = rectangles(layout, boxes, links)
    for number, one in enumerate(found):
        assert all(apart(one, other) for other in found[:number])
        assert min(one[:2]) >= -1e-6
        assert one[2] <= layout.size[0] + 1e-6
        assert one[3] <= layout.size[1] + 1e-6
    for branch in layout.branches:
        heights = [y for _, y in branch.points]
        assert heights == sorted(heights)


def test_lines_pass_no_node():
    # a -> b -> c and a -> c, past b
    boxes = {"a": (30.0, 10.0), "b": (300.0, 10.0), "c": (30.0, 10.0)}
    links = [Link("a", ("b", "c"), (20.0, 9.0)), Link("b", ("c",), (20.0, 9.0))]
    layout = arrange(boxes, links)
    (past,) = (branch for branch in layout.branches if branch.link == 0 and branch.target == "c")
    (x, y), (width, height) = layout.nodes["b"], boxes["b"]
    beside = [at for at, down in past.points if abs(down - y) <= height / 2]
    assert beside
    assert all(abs(at - x) > width / 2 for at in beside)


def test_chains_are_straight():
    boxes = {name: (20.0 + 9 * number, 10.0) for number, name in enumerate("abcdef")}
    links = [Link(a, (b,), (20.0, 9.0)) for a, b in zip("abcde", "bcdef", strict=True)]
    layout = arrange(boxes, links)
    assert len({round(x, 6) for x, _ in layout.nodes.values()}) == 1


def test_nothing_is_laid_out_too():
    assert arrange({}, []).size == (0.0, 0.0)
