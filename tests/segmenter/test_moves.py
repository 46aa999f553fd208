"""Where a kernel computes what it stores, through slices, flips, pads and concatenations."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.segmenter.places import Place, Places, Spread
from tests.segmented import concrete
from tests.segmenter.test_graph import graph_of

Made = list[tuple[int, int, tuple[int, int] | None]]


def places_of_x(define: object) -> Made:
    """Scale, shift and span, along the one dimension of what is stored, of each place at which the
    first node, -x, is computed by a kernel of all nodes."""
    assert callable(define)
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.randn(10), static_sizes=True)
        fd.add_output(define(fd, fd.ops.neg(x)))
    graph = graph_of(concrete(fd.fusion, [torch.randn(10)]))
    places = Places(graph)
    spread = places.of(range(len(graph.nodes)), cut=True)
    assert isinstance(spread, Spread)
    (along,) = graph.atoms.factors(graph.nodes[0].out)

    def described(place: Place) -> tuple[int, int, tuple[int, int] | None]:
        line = place.line(along)
        return line.scale, line.shift, place.spans.get(line.dimension)

    return sorted(map(described, map(places.__getitem__, spread.computed[0])), key=str)


def part(fd: FusionDefinition, x: Handle, start: int, end: int, step: int = 1) -> Handle:
    return fd.ops.slice(x, [start], [end], [step])


def rolled(fd: FusionDefinition, x: Handle, by: int) -> Handle:
    return fd.ops.cat([part(fd, x, 10 - by, 10), part(fd, x, 0, 10 - by)], 0)


@pytest.mark.parametrize(
    ("define", "expected"),
    [
        (lambda fd, x: x * 2.0, [(1, 0, None)]),
        (lambda fd, x: part(fd, x, 3, 9) * 2.0, [(1, 3, None)]),
        (lambda fd, x: part(fd, x, 1, 10, 3) * 2.0, [(3, 1, None)]),
        (lambda fd, x: fd.ops.flip(x, [0]) * 2.0, [(-1, 9, None)]),
        (lambda fd, x: fd.ops.flip(part(fd, x, 2, 6), [0]) * 2.0, [(-1, 5, None)]),
        (lambda fd, x: fd.ops.pad(x, [2, 3]) * 2.0, [(1, -2, (2, 12))]),
        (lambda fd, x: fd.ops.pad(x, [-2, 3]) * 2.0, [(1, 2, (0, 8))]),
        # Parts of a stack that are the same are one place, which stands for both.
        (lambda fd, x: fd.ops.cat([x, x], 0) * 2.0, [(1, 0, (0, 10))]),
        (
            lambda fd, x: fd.ops.cat([x, part(fd, x, 1, 10)], 0),
            [(1, -9, (10, 19)), (1, 0, (0, 10))],
        ),
        (lambda fd, x: rolled(fd, x, 3), [(1, -3, (3, 10)), (1, 7, (0, 3))]),
        # Around once and back again: there is no place beyond an end, and the rest is one place.
        (
            lambda fd, x: rolled(fd, rolled(fd, x, 3) + 1.0, 7),
            [(1, 0, (0, 7)), (1, 0, (7, 10))],
        ),
        # Of a slice of what was padded, what is left of it.
        (lambda fd, x: part(fd, fd.ops.pad(x, [2, 0]) + 1.0, 1, 9), [(1, -1, (1, 8))]),
        (lambda fd, x: part(fd, fd.ops.pad(x, [2, 0]) + 1.0, 4, 9), [(1, 2, None)]),
        (
            lambda fd, x: fd.ops.cat([part(fd, x, 4, 5), x], 0) * 2.0,
            [(0, 4, None), (1, -1, (1, 11))],
        ),
    ],
)
def test_places_are_followed(define: object, expected: Made) -> None:
    assert places_of_x(define) == sorted(expected, key=str)


def test_paths_of_the_same_moves_are_one() -> None:
    with FusionDefinition() as fd:
        x = fd.ops.neg(fd.from_pytorch(torch.randn(10), static_sizes=True))
        fd.add_output(part(fd, x, 1, 9) + part(fd, x, 1, 9) * 2.0)
    graph = graph_of(concrete(fd.fusion, [torch.randn(10)]))
    (first,), (second,) = (
        [r.paths for r in reads if r.paths != ((),)] for reads in graph.reads[1:]
    )
    assert first == second


def test_an_index_is_a_place_of_its_own() -> None:
    with FusionDefinition() as fd:
        given = fd.from_pytorch(torch.randn(10), static_sizes=True)
        at = fd.from_pytorch(torch.randint(0, 10, (10,)), static_sizes=True)
        negative = fd.ops.neg(given)
        fd.add_output(fd.ops.index_select(negative, at, 0) + negative)
    graph = graph_of(concrete(fd.fusion, [torch.randn(10), torch.randint(0, 10, (10,))]))
    spread = Places(graph).of(range(len(graph.nodes)), cut=True)
    assert isinstance(spread, Spread)
    assert len(spread.computed[0]) == 2


def test_elements_of_a_span_are_counted_once() -> None:
    """A roll computes every element once, in two places; a sum of two rolls, twice."""
    for count in (1, 2):
        with FusionDefinition() as fd:
            x = fd.ops.exp(fd.from_pytorch(torch.randn(10), static_sizes=True))
            total = rolled(fd, x, 3)
            fd.add_output(total + rolled(fd, x, 4) if count == 2 else total)
        graph = graph_of(concrete(fd.fusion, [torch.randn(10)]))
        places = Places(graph)
        spread = places.of(range(len(graph.nodes)), cut=True)
        assert isinstance(spread, Spread)
        assert places.elements(spread.computed[0], graph.nodes[0].out) == 10 * count
