"""Kernels do not read what they load at too many places."""

from __future__ import annotations

from fuser.frontend.handles import Handle
from fuser.segmenter.places import MOST_PLACES
from tests.segmenter.definition import Definition, kernels, refusals


def windows(d: Definition, x: Handle, sizes: list[int], dim: int, width: int) -> Handle:
    """The sum of `width` neighbours along a dimension."""
    total: Handle | None = None
    for start in range(width):
        starts, stops = [0, 0], list(sizes)
        starts[dim], stops[dim] = start, sizes[dim] - width + 1 + start
        part = d.ops.slice(x, starts, stops)
        total = part if total is None else total + part
    assert total is not None
    return total


def test_a_stencil_is_one_kernel():
    # T0 at 5 x 5 places:  [add * 8]
    d = Definition((40, 40))
    x = d.handles[0]
    y = windows(d, windows(d, x, [40, 40], 0, 5), [36, 40], 1, 5)
    assert len(kernels(d.segment(y))) == 1


def test_a_stencil_of_too_many_places_is_two():
    # T0 at 13 x 13 places, or two times at 13:  [add * 12] | [add * 12]
    d = Definition((60, 60))
    x = d.handles[0]
    y = windows(d, windows(d, x, [60, 60], 0, 13), [48, 60], 1, 13)
    segmented = d.segment(y)
    assert len(kernels(segmented)) == 2
    assert f"it would read at more than {MOST_PLACES} places" in refusals(segmented)


def test_what_reads_one_slice_reads_one_place():
    # 150 operations read T0[1:]
    d = Definition((64, 8))
    part = d.ops.slice(d.handles[0], [1, 0], [64, 8])
    y = part
    for _ in range(150):
        y = y * 0.5 + part
    assert len(kernels(d.segment(y))) == 1
