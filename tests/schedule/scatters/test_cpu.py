"""What a scatter by lists asks memory for, and how points are shared out without lists."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.passes.scatter_forms import choose_scatter_forms
from fuser.schedule import CpuRowParameters, LoopNest
from fuser.schedule.scatters.cpu import schedule_scatter_cpu
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import Loop, every_node
from fuser.schedule.tree.row_statements import Keep, Kept, RowArray
from fuser.schedule.tree.scatter_nodes import IfListed, ListLoop, UnlistedRows, WhichPoints
from fuser.schedule.tree.statements import Prefetch, Store
from fuser.segmenter import segment
from tests.definitions import defined
from tests.segmented import concrete, memory_of

Define = Callable[[FusionDefinition, Handle, Handle, Handle], Handle]


def added(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
    return fd.ops.index_add(x, index, source, 0)


def replaced(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
    at = fd.ops.broadcast_in_dim(index, [300, source.size(1)], [0])
    return fd.ops.scatter(x, at, source, 0)


def nest(columns: int, define: Define = added, points: int = 300) -> LoopNest:
    x, source = (torch.empty(size, columns, device="meta") for size in (100, points))
    inputs = x, torch.empty(points, dtype=torch.int64, device="meta"), source
    fusion = defined(define, *inputs).fusion
    fusion = choose_scatter_forms(concrete(fusion, inputs), in_order=True, repeatable=False)
    *_, last = segment(fusion, memory_of(fusion, inputs)).segments
    return schedule_scatter_cpu(last, CpuRowParameters())


@pytest.mark.parametrize(("columns", "lanes"), [(16, 16), (24, 16), (100, 64), (768, 64)])
def test_a_part_of_a_later_point_is_asked_for_with_each_part_of_this_one(columns: int, lanes: int):
    asking = [
        node
        for node in every_node(nest(columns).body)
        if isinstance(node, Loop) and any(isinstance(inside, Prefetch) for inside in node.body)
    ]
    assert len(asking) == 3  # of the first of several, of the others, of the only one
    for loop in asking:
        (asked,) = [node for node in loop.body if isinstance(node, Prefetch)]
        assert loop.step == asked.lanes == lanes
        assert asked.at.coefficient(loop.axis) == 1
        assert "later" in str(asked.at)
    only = Binding.CHUNKS if columns == 768 else Binding.SWEEP
    assert [loop.binding for loop in asking] == [Binding.SWEEP, Binding.SWEEP, only]


@pytest.mark.parametrize(("columns", "points"), [(16, 128), (768, 3), (8192, 1)])
def test_it_is_some_kilobytes_ahead_or_one_point(columns: int, points: int):
    loops = [node for node in every_node(nest(columns).body) if isinstance(node, ListLoop)]
    assert {loop.ahead for loop in loops} == {points}


def test_only_sums_of_several_points_are_kept():
    (row,) = [node for node in every_node(nest(768).body) if isinstance(node, IfListed)]
    assert any(isinstance(node, RowArray) for node in row.body)
    for without in (row.otherwise, row.one):
        assert not any(isinstance(node, Keep | Kept) for node in every_node(without))
        assert sum(isinstance(node, Store) for node in every_node(without)) == 1
    assert isinstance(row.otherwise[0], Loop)
    assert [node.which for node in row.one if isinstance(node, ListLoop)] == [WhichPoints.FIRST]


@pytest.mark.parametrize("columns", [16, 49, 100, 511])
def test_short_rows_without_points_are_one_loop(columns: int):
    made = nest(columns)
    (together,) = [node for node in every_node(made.body) if isinstance(node, UnlistedRows)]
    (loop,) = together.body
    assert isinstance(loop, Loop)
    assert loop.axis == together.axis
    assert (loop.axis.extent, together.columns) == (100 * columns, columns)
    assert loop.axis in made.axes
    over = [n for n in every_node(made.body) if isinstance(n, Loop) and n.axis == together.row]
    assert [loop.binding for loop in over] == [Binding.BLOCKS, Binding.SERIAL]


def scaled_by_row(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
    scale = fd.ops.broadcast_in_dim(fd.ops.sum(x, [1]), [100, source.size(1)], [0])
    return fd.ops.index_add(x * scale, index, source, 0)


def of_columns(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
    x, source = (fd.ops.permute(each, [1, 0]) for each in (x, source))
    return fd.ops.index_add(x, index, source, 1)


@pytest.mark.parametrize(
    ("columns", "define"), [(768, added), (64, scaled_by_row), (64, of_columns)]
)
def test_rows_are_done_one_by_one_if_long_or_not_walked_as_one(columns: int, define: Define):
    nodes = list(every_node(nest(columns, define).body))
    assert not any(isinstance(node, UnlistedRows) for node in nodes)


def rounded(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
    return fd.ops.cast(added(fd, x, index, source), DataType.BFloat16)


@pytest.mark.parametrize(
    ("define", "points", "held"),
    [
        (added, 300, DataType.Double),
        (rounded, 1 << 16, DataType.Float),
        (rounded, (1 << 16) + 1, DataType.Double),
    ],
)
def test_sums_are_held_in_float64_unless_rounding_the_result_costs_more(
    define: Define, points: int, held: DataType
):
    nodes = every_node(nest(768, define, points).body)
    assert {node.dtype for node in nodes if isinstance(node, RowArray)} == {held}


def test_the_last_point_is_stored_where_points_replace_what_was_there():
    made = nest(768, replaced)
    (row,) = [node for node in every_node(made.body) if isinstance(node, IfListed)]
    assert [node.which for node in row.body if isinstance(node, ListLoop)] == [WhichPoints.LAST]
    assert not row.one
    assert not any(isinstance(node, RowArray | Keep | Kept) for node in every_node(made.body))


@pytest.mark.parametrize(
    ("columns", "bindings"),
    [
        (8, [Binding.SERIAL, Binding.SERIAL]),
        (1 << 15, [Binding.BLOCKS, Binding.SERIAL, Binding.SIMD]),
    ],
)
def test_threads_do_not_meet_for_each_point(columns: int, bindings: list[Binding]):
    made = nest(columns)
    loops = [node for node in every_node(made.body) if isinstance(node, Loop)]
    assert [loop.binding for loop in loops][-len(bindings) :] == bindings
    assert made.launch.threaded is (columns > 8)
