"""Domains cut where pads and concatenations change what they read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.axes import arrange
from fuser.schedule.code.body import Body, trace
from fuser.schedule.code.pieces import deciding, pieces
from fuser.schedule.indices.index import Axis, Clamped, Index, of_axis
from fuser.schedule.indices.rewrites import affine_parts
from tests.definitions import defined
from tests.segmented import segment_for

Build = Callable[..., Handle]


def cut(build: Build, *given: torch.Tensor, most: int = 24) -> list[Body]:
    """The pieces of the only kernel of a definition."""
    (segment,) = segment_for(defined(build, *given).fusion, given).segments
    return pieces(arrange(trace(segment)), most)


def extents(parts: list[Body]) -> list[list[int]]:
    return [[axis.extent for axis in part.axes] for part in parts]


def reads(parts: list[Body]) -> list[list[str]]:
    return [[load.name for load in part.loads] for part in parts]


def is_plain(part: Body) -> bool:
    """Whether nothing is clamped, divided or chosen by a place."""
    terms = [t for index in part.indices() for p in affine_parts(index) for t, _ in p.terms]
    return all(isinstance(term, Axis) for term in terms) and not any(
        "place" in let.name for let in part.lets
    )


def test_a_pad_is_its_fill_around_a_copy():
    # [5, 6] padded by 2 above, 1 below: rows of fill, rows of the operand, rows of fill
    parts = cut(lambda fd, x: fd.ops.pad(x, [0, 0, 2, 1], 0.5), torch.randn(5, 6))
    assert extents(parts) == [[12], [30], [6]]
    assert reads(parts) == [[], ["T0"], []]
    assert all(map(is_plain, parts))


def test_the_outermost_axis_is_cut_first_so_that_all_of_it_that_is_outside_is_one_piece():
    parts = cut(lambda fd, x: fd.ops.pad(x, [1, 2, 3, 4]), torch.randn(5, 6))
    assert extents(parts) == [[27], [5], [5, 6], [5, 2], [36]]
    assert parts[1].axes[0] == parts[2].axes[0] == parts[3].axes[0]
    assert reads(parts) == [[], [], ["T0"], [], []]


def test_a_concatenation_is_its_operands():
    x, y = torch.randn(4, 3), torch.randn(4, 5)
    parts = cut(lambda fd, x, y: fd.ops.cat([x, y, x], 1) * 2.0, x, y)
    assert extents(parts) == [[4, 3], [4, 5], [4, 3]]
    assert reads(parts) == [["T0"], ["T1"], ["T0_1"]]
    assert all(map(is_plain, parts))


def test_flipped_and_stepped_operands_are_cut_where_they_end():
    def build(fd: FusionDefinition, x: Handle) -> Handle:
        wide = fd.ops.pad(x, [2, 3])
        return fd.ops.flip(fd.ops.slice(wide, [0, 0], [4, 12], [1, 3]), [1]) + 1.0

    # places 9, 6, 3, 0 of [pad pad x0 .. x6 pad pad pad]: fill, x4, x1, fill
    parts = cut(build, torch.randn(4, 7))
    assert extents(parts) == [[4], [4, 2], [4]]
    assert [load.at.constant for part in parts for load in part.loads] == [4]


def test_without_a_clamp_axes_walk_as_one_and_divisions_go_away():
    """The gradient of a relative shift: views between two pads whose factors do not nest."""

    def build(fd: FusionDefinition, x: Handle) -> Handle:
        turned = fd.ops.reshape(fd.ops.pad(x, [0, 7]), [2, 15, 8])
        return fd.ops.reshape(fd.ops.pad(turned, [0, 0, 1, 0]), [2, 8, 16])

    parts = cut(build, torch.randn(2, 8, 8))
    assert extents(parts) == [[2, 8], [2, 8, 8], [2, 8, 7]]
    assert all(map(is_plain, parts))


def test_an_axis_that_a_view_divides_is_cut_into_its_whole_rows_and_a_part_of_one():
    """A relative shift: rows of 32 + 1 elements, seen as rows of 32."""

    def build(fd: FusionDefinition, x: Handle) -> Handle:
        turned = fd.ops.reshape(fd.ops.pad(x, [0, 1]), [2, 33, 32])
        return fd.ops.slice(turned, [0, 0, 0], [2, 20, 32]) * 2.0

    parts = cut(build, torch.randn(2, 32, 32))  # 20 * 32 elements are 19 rows of 33, and 13
    assert extents(parts) == [[2, 19, 32], [2, 19], [2, 13]]
    assert reads(parts) == [["T0"], [], ["T0"]]
    assert all(map(is_plain, parts))


def test_several_axes_are_cut_where_one_of_them_decides_but_for_one_element():
    # a pad of a flattened operand, seen as rows of 4: 6 elements of fill are one row and a half
    def build(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
        return fd.ops.reshape(fd.ops.pad(x, [6, 0]), [5, 4]) + y

    parts = cut(build, torch.randn(14), torch.randn(4, 5).t())
    assert sum(math.prod(sizes) for sizes in extents(parts)) == 20
    assert all(map(is_plain, parts))
    assert reads(parts) == [["T1"], ["T1"], ["T0", "T1"], ["T0", "T1"]]


def test_what_is_divided_is_cut_where_the_quotient_decides():
    """The gradient of a relative shift: rows of 5, of which the first 4 elements are a pad's."""

    def build(fd: FusionDefinition, x: Handle) -> Handle:
        turned = fd.ops.reshape(fd.ops.pad(x, [0, 0, 1, 0]), [2, 4, 5])
        return fd.ops.slice(turned, [0, 0, 1], [2, 4, 5]) * 2.0

    parts = cut(build, torch.randn(2, 4, 4))
    assert extents(parts) == [[2, 3], [2], [2, 3, 4]]
    assert reads(parts) == [[], ["T0"], ["T0"]]
    assert all(map(is_plain, parts))


def test_where_no_axis_decides_the_clamp_stays():
    def build(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
        return fd.ops.reshape(fd.ops.pad(x, [0, 1]), [7, 4]) * y  # [4, 7] seen as [7, 4]

    parts = cut(build, torch.randn(4, 6), torch.randn(4, 7).t())
    clamps = [t for p in parts for i in p.indices() for q in affine_parts(i) for t, _ in q.terms]
    assert any(isinstance(term, Clamped) for term in clamps)


def test_too_many_pieces_are_none():
    def build(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.cat([x] * 6, 0) + 1.0

    given = torch.randn(3, 5)
    assert len(cut(build, given, most=6)) == 6
    assert len(cut(build, given, most=5)) == 1


def test_a_comparison_that_a_definition_makes_is_no_cut():
    def build(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.where(fd.ops.lt(fd.ops.iota(8, 0, 1, DataType.Int), 3), x, 0.0)

    assert len(cut(build, torch.randn(8))) == 1


@pytest.mark.parametrize("factor", [1, -1, 3, -2])
@pytest.mark.parametrize("threshold", range(-9, 30, 2))
def test_cuts_decide(factor: int, threshold: int):
    axis, other = Axis((0,), 8), Axis((1,), 2)
    for index in (of_axis(axis) * factor + Index(4), of_axis(axis) * factor + of_axis(other)):
        points = [0, *deciding(index, threshold, axis), axis.extent]
        for start, end in itertools.pairwise(points):
            reached = {
                factor * at + rest >= threshold
                for at in range(start, end)
                for rest in ((4,) if index.constant else (0, 1))
            }
            assert len(reached) == 1 or end - start == 1
