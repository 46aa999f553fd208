"""The axes of a row: in the order of memory, merged, and which of them lanes go along."""

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.axes import replace_axes
from fuser.schedule.indices.index import ZERO, Axis, Index, of_axis
from fuser.schedule.rows.axes import arrange_rows, lanes_across_rows, merge_axes
from fuser.schedule.tree.expressions import IndexValue
from fuser.schedule.tree.statements import Let
from tests.definitions import Define
from tests.row_functions import layernorm, softmax
from tests.schedule.row_bodies import body_of, drawn


def empty(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta")


def sizes(define: Define, *inputs: torch.Tensor) -> list[str]:
    """The rows and the sweeps, by their extents."""
    lines = drawn(arrange_rows(body_of(define, *inputs)))
    return [line.partition(":")[0] for line in lines]


OUTER, MIDDLE, INNER = Axis((0,), 4), Axis((1,), 5), Axis((2,), 6)


def at(*strides: int) -> Index:
    pairs = zip((OUTER, MIDDLE, INNER), strides, strict=True)
    return Index(0, tuple((axis, stride) for axis, stride in pairs if stride))


def test_axes_that_all_indices_walk_as_one_are_merged():
    merged, replaced = merge_axes((OUTER, MIDDLE, INNER), [at(30, 6, 1), at(60, 12, 2)])
    (axis,) = merged
    assert axis.extent == 120
    assert [replaced[a] for a in (OUTER, MIDDLE, INNER)] == [ZERO, ZERO, of_axis(axis)]


def test_axes_are_merged_only_where_every_index_allows():
    merged, _ = merge_axes((OUTER, MIDDLE, INNER), [at(30, 6, 1), at(0, 6, 1)])
    assert [axis.extent for axis in merged] == [4, 30]
    merged, _ = merge_axes((OUTER, MIDDLE, INNER), [at(30, 6, 1), at(5, 1, 0)])
    assert [axis.extent for axis in merged] == [20, 6]
    merged, replaced = merge_axes((OUTER, MIDDLE, INNER), [at(30, 6, -1)])
    assert [axis.extent for axis in merged] == [20, 6]
    assert INNER not in replaced


def test_axes_of_one_element_are_left_out():
    assert merge_axes((Axis((0,), 1), INNER, Axis((3,), 1)), [of_axis(INNER)]) == ((INNER,), {})


def test_what_is_replaced_is_replaced_everywhere():
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        counted = fd.ops.broadcast(fd.ops.iota(6), [True, False])
        y = x + counted
        return [y, fd.ops.sum(y, [0]), fd.ops.max(y, [1])]

    body = body_of(define, empty(8, 6))
    sweep = body.stages[0]
    (old,), new = sweep.axes, Axis((9,), 6)
    moved = replace_axes(sweep, {old: of_axis(new)})
    assert any(isinstance(n, Let) and isinstance(n.expression, IndexValue) for n in moved.code)
    assert all(index.coefficient(old) == 0 for index in moved.indices())
    assert [i.coefficient(new) for i in moved.indices()] == [
        i.coefficient(old) for i in sweep.indices()
    ]


def test_contiguous_dimensions_become_one_axis():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.max(x, [2, 3])

    assert sizes(define, empty(2, 3, 4, 5)) == ["rows 6", "sweep 20", "once"]


def test_a_bias_keeps_its_axis_apart():
    def define(fd: FusionDefinition, x: Handle, bias: Handle) -> Handle:
        return fd.ops.max(x + bias, [1, 2])

    assert sizes(define, empty(3, 4, 5), empty(5)) == ["rows 3", "sweep 4 x 5", "once"]


def test_rows_of_a_batch_are_merged_unless_something_tells_them_apart():
    assert sizes(softmax, empty(2, 4, 6)) == ["rows 8", *["sweep 6"] * 3]
    inputs = empty(2, 4, 6), empty(4, 1)
    assert sizes(lambda fd, x, y: softmax(fd, x + y), *inputs)[0] == "rows 2 x 4"


def test_sweeps_go_in_the_order_of_memory():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.max(x, [0, 1, 2])

    assert sizes(define, empty(4, 5, 6).permute(2, 0, 1)) == ["rows one", "sweep 120", "once"]
    assert sizes(define, empty(4, 5, 7)[..., :6].permute(2, 0, 1))[1] == "sweep 20 x 6"


def test_a_flipped_row_is_walked_as_it_lies():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return softmax(fd, x + fd.ops.flip(x, [1]))

    assert sizes(define, empty(8, 6)) == ["rows 8", *["sweep 6"] * 3]


@pytest.mark.parametrize(
    ("define", "given", "across"),
    [
        (softmax, empty(8, 6), False),
        (lambda fd, x: softmax(fd, x, 0), empty(8, 6), True),
        (lambda fd, x: softmax(fd, x, 1), empty(8, 6, 4), True),
        (lambda fd, x: softmax(fd, x, 0), empty(6, 8).T, False),
        (layernorm, empty(6, 8).T, True),
        (lambda fd, x: fd.ops.sum(x), empty(8, 6), False),
        (lambda fd, x: [fd.ops.sum(x, [0]), fd.ops.sum(x, [1])], empty(8, 6), False),
    ],
)
def test_lanes_go_where_memory_is_consecutive(define: Define, given: torch.Tensor, across: bool):
    assert lanes_across_rows(arrange_rows(body_of(define, given))) is across
