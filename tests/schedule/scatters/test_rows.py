"""What is done for each row of a scatter whose rows have points of their own."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.passes.scatter_forms import choose_scatter_forms
from fuser.schedule import CpuRowParameters, CudaRowParameters
from fuser.schedule.indices.index import Index, Variable
from fuser.schedule.scatters.cpu import schedule_scatter_cpu
from fuser.schedule.scatters.cuda import schedule_scatter_cuda
from fuser.schedule.scatters.elements import held_type, scatter_of
from fuser.schedule.scatters.rows import ScatteredRows, trace_scattered_rows
from fuser.schedule.tree.bindings import Binding, Team
from fuser.schedule.tree.expressions import Ref
from fuser.schedule.tree.loop_tree import Loop, Meet, every_node
from fuser.schedule.tree.row_statements import Keep, KeepAt, Kept, RowArray
from fuser.schedule.tree.statements import CheckedIndex, Let, Load
from fuser.segmenter import Segment, segment
from tests.segmented import concrete, memory_of


def scattered(mode: str, *rows: int, length: int = 100, in_order: bool = True) -> Segment:
    """[*rows, length] with 30 points of each row, `added` or "written"."""
    x, source = (torch.empty(*rows, count, device="meta") for count in (length, 30))
    inputs = x, torch.empty(*rows, 30, dtype=torch.int64, device="meta"), source
    with FusionDefinition() as fd:
        ops = fd.ops.scatter_add if mode == "added" else fd.ops.scatter
        fd.add_output(ops(*map(fd.from_pytorch, inputs), len(rows)))
    fusion = choose_scatter_forms(concrete(fd.fusion, inputs), in_order=in_order, repeatable=False)
    (only,) = segment(fusion, memory_of(fusion, inputs)).segments
    return only


def body(mode: str, *rows: int) -> ScatteredRows:
    segment = scattered(mode, *rows)
    _, op = scatter_of(segment)
    return trace_scattered_rows(segment, held_type(op, segment.stores))


def test_a_row_begins_with_the_data_adds_its_points_and_is_stored() -> None:
    made = body("added", 64)
    assert [axis.extent for axis in made.rows] == [64]
    assert [[axis.extent for axis in s.axes] for s in (made.begun, made.added, made.last)] == [
        [100],
        [30],
        [100],
    ]
    assert [type(node) for node in made.begun.code] == [Load, Keep]
    assert [type(node) for node in made.added.code] == [Load, CheckedIndex, Load, Let, KeepAt]
    assert [type(node) for node in made.last.code] == [Kept, Let]
    source, at = Ref("T3_added", DataType.Double), Index(0, ((Variable("T3_index", 100), 1),))
    assert made.added.code[-1] == KeepAt("T3_sum", DataType.Double, at, source, "add")


def test_what_is_written_is_joined_to_nothing_and_as_wide_as_it_is() -> None:
    placed = body("written", 64).added.code[-1]
    assert isinstance(placed, KeepAt)
    assert placed.joins is None
    assert placed.dtype is DataType.Float


def test_rows_that_follow_each_other_are_one_axis() -> None:
    assert [axis.extent for axis in body("added", 4, 16).rows] == [64]


@pytest.mark.parametrize(("rows", "threaded"), [(8, False), (4096, True)])
def test_a_thread_has_a_row_and_its_points_in_turn(rows: int, threaded: bool) -> None:
    nest = schedule_scatter_cpu(scattered("added", rows), CpuRowParameters())
    loops = [node for node in every_node(nest.body) if isinstance(node, Loop)]
    bindings = [loop.binding for loop in loops]
    assert bindings == [Binding.PARALLEL, Binding.SIMD, Binding.SERIAL, Binding.SIMD]
    assert [type(node) for node in loops[0].body] == [RowArray, Loop, Loop, Loop]
    assert isinstance(loops[2].body[-1], KeepAt)
    assert nest.launch.threaded is threaded


@pytest.mark.parametrize(
    ("length", "team", "block"),
    [
        (100, Team.WARP, (32, 4, 1)),
        (1024, Team.WARP, (32, 4, 1)),
        (1025, Team.BLOCK, (128, 1, 1)),
        (1 << 14, Team.BLOCK, (512, 1, 1)),
    ],
)
def test_a_warp_or_a_block_of_a_gpu_has_a_row_in_shared_memory(
    length: int, team: Team, block: tuple[int, int, int]
) -> None:
    segment = scattered("added", 64, length=length, in_order=False)
    alignments = {lies.base: 64 for lies in segment.memory.values()}
    nest = schedule_scatter_cuda(segment, alignments, CudaRowParameters())
    assert (nest.team, nest.launch.block) == (team, block)
    (array,) = (node for node in every_node(nest.body) if isinstance(node, RowArray))
    assert length <= array.room < length + 4
    assert nest.launch.shared_bytes == 4 * array.room * block[1]
    (rows,) = (n for n in every_node(nest.body) if isinstance(n, Loop) and Meet() in n.body)
    assert [type(node) for node in rows.body] == [RowArray, Loop, Meet, Loop, Meet, Loop]
