"""What a scatter by lists asks memory for, and how points are shared out without lists."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.passes.scatter_forms import choose_scatter_forms
from fuser.schedule import CpuRowParameters, LoopNest
from fuser.schedule.bindings import Binding
from fuser.schedule.loop_tree import IfListed, ListLoop, Loop, every_node
from fuser.schedule.row_statements import Keep, Kept, RowArray
from fuser.schedule.scatter_cpu import schedule_scatter_cpu
from fuser.schedule.statements import Prefetch
from fuser.segmenter import segment
from tests.segmented import concrete, memory_of


def added(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
    return fd.ops.index_add(x, index, source, 0)


def nest(columns: int) -> LoopNest:
    x, source = (torch.empty(size, columns, device="meta") for size in (100, 300))
    inputs = x, torch.empty(300, dtype=torch.int64, device="meta"), source
    with FusionDefinition() as fd:
        fd.add_output(added(fd, *map(fd.from_pytorch, inputs)))
    fusion = choose_scatter_forms(concrete(fd.fusion, inputs), lists=True, ordered=False)
    *_, last = segment(fusion, memory_of(fusion, inputs)).segments
    return schedule_scatter_cpu(last, CpuRowParameters())


@pytest.mark.parametrize(("columns", "lanes"), [(16, 16), (24, 16), (100, 64), (768, 64)])
def test_a_part_of_a_later_point_is_asked_for_with_each_part_of_this_one(columns: int, lanes: int):
    (loop,) = [
        node
        for node in every_node(nest(columns).body)
        if isinstance(node, Loop) and any(isinstance(inside, Prefetch) for inside in node.body)
    ]
    (asked,) = [node for node in loop.body if isinstance(node, Prefetch)]
    assert loop.binding is Binding.SWEEP
    assert loop.step == asked.lanes == lanes
    assert asked.at.coefficient(loop.axis) == 1
    assert "later" in str(asked.at)


@pytest.mark.parametrize(("columns", "points"), [(16, 128), (768, 3), (8192, 1)])
def test_it_is_some_kilobytes_ahead_or_one_point(columns: int, points: int):
    (each,) = [node for node in every_node(nest(columns).body) if isinstance(node, ListLoop)]
    assert each.ahead == points


def test_a_row_without_points_is_swept_once():
    (row,) = [node for node in every_node(nest(768).body) if isinstance(node, IfListed)]
    kept = [node for node in row.body if isinstance(node, RowArray)]
    (only,) = row.otherwise
    assert kept
    assert isinstance(only, Loop)
    assert not any(isinstance(node, Keep | Kept) for node in every_node(row.otherwise))


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
