"""Domains of points are not cut into too many pieces."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion
from fuser.schedule import CpuParameters
from fuser.schedule.points.cpu import schedule_cpu
from fuser.schedule.tree.loop_printer import print_nest
from fuser.segmenter import GPU, PROCESSOR, SegmentedFusion, segment
from fuser.segmenter.cuts import joints
from fuser.segmenter.machine import Machine
from tests.segmented import concrete, memory_of, run_segmented
from tests.segmenter.definition import refusals

SIZE = 40
X = torch.randn(SIZE, SIZE)


def blurred(fd: FusionDefinition, x: Handle, dim: int, before: int, after: int) -> Handle:
    """The sum of neighbours along a dimension whose ends repeat: cut at `before + after` places."""
    total = x
    for step in range(-before, after + 1):
        low, high = max(step, 0), SIZE + min(step, 0)
        inside = part(fd, x, dim, low, high)
        first, last = part(fd, x, dim, 0, 1), part(fd, x, dim, SIZE - 1, SIZE)
        parts = [*[first] * -step, inside, *[last] * step]
        if step:
            total = total + fd.ops.cat(parts, dim)
    return total


def part(fd: FusionDefinition, x: Handle, dim: int, start: int, end: int) -> Handle:
    starts, ends = [0, 0], [SIZE, SIZE]
    starts[dim], ends[dim] = start, end
    return fd.ops.slice(x, starts, ends)


def blurred_twice(before: int, after: int, dims: tuple[int, int] = (0, 1)) -> Fusion:
    with FusionDefinition() as fd:
        y = fd.from_pytorch(X, static_sizes=True)
        for dim in dims:
            y = blurred(fd, y, dim, before, after)
        fd.add_output(y)
    return concrete(fd.fusion, [X])


FEW_PIECES = dataclasses.replace(PROCESSOR, most_pieces=32)


def on_processor(fusion: Fusion, machine: Machine = PROCESSOR) -> SegmentedFusion:
    """Segmented, and checked to give the oracle's numbers."""
    segmented = segment(fusion, memory_of(fusion, [X]), machine)
    torch.testing.assert_close(run_segmented(segmented, [X]), interpret(fusion, [X]))
    return segmented


def test_as_many_pieces_as_a_processor_cuts_are_one_kernel():
    fusion = blurred_twice(2, 2)
    assert len(on_processor(fusion).segments) == 1  # 5 x 5 pieces
    assert len(segment(fusion, memory_of(fusion, [X]), GPU).segments) == 1


def reordered(fd: FusionDefinition, x: Handle, dim: int, parts: int) -> Handle:
    """`x` in so many parts along a dimension, the last first."""
    size = SIZE // parts
    starts = reversed(range(0, SIZE, size))
    return fd.ops.cat([part(fd, x, dim, start, start + size) for start in starts], dim)


def test_more_pieces_are_two_kernels_on_a_processor():
    # [cat of 20] -> T | [cat of 8]
    with FusionDefinition() as fd:
        x = fd.from_pytorch(X, static_sizes=True)
        fd.add_output(reordered(fd, reordered(fd, x * 2.0, 0, 20), 1, 8) + 1.0)
    segmented = on_processor(concrete(fd.fusion, [X]), FEW_PIECES)
    assert len(segmented.segments) == 2
    assert "it would be cut into 160 pieces" in refusals(segmented)


def test_a_dimension_that_is_cut_twice_has_the_pieces_of_both():
    assert len(on_processor(blurred_twice(3, 2, (1, 1))).segments) == 1  # 1 + 10, not 36


def test_pads_of_pads_have_the_pieces_of_all():
    # Four pads of one dimension: 1 + 4 * 2 pieces, not 3 to the fourth.
    with FusionDefinition() as fd:
        y = fd.from_pytorch(X, static_sizes=True)
        for _ in range(4):
            y = fd.ops.pad(y * 2.0, [1, 1])
            y = y + 1.0
        fd.add_output(y)
    assert len(on_processor(concrete(fd.fusion, [X])).segments) == 1


def rolled(fd: FusionDefinition, x: Handle, by: int, dim: int) -> Handle:
    at = -by % SIZE
    return fd.ops.cat([part(fd, x, dim, at, SIZE), part(fd, x, dim, 0, at)], dim)


def test_steps_that_read_neighbours_on_a_ring_are_not_all_in_one_kernel():
    # [5 places] -> [25 places] | [5 places] -> [25 places] | [5 places] -> [25 places]
    with FusionDefinition() as fd:
        y = fd.from_pytorch(X, static_sizes=True)
        for _ in range(6):
            beside = [rolled(fd, y, by, dim) for by in (-1, 1) for dim in (0, 1)]
            y = y * 0.5 + (beside[0] + beside[1] + beside[2] + beside[3]) * 0.125
        fd.add_output(y)
    segmented = on_processor(concrete(fd.fusion, [X]))
    assert len(segmented.segments) == 3
    for each in segmented.segments:
        assert "Clamped" not in print_nest(schedule_cpu(each, CpuParameters()))


@pytest.mark.parametrize(("before", "after"), [(2, 2), (3, 2)])
def test_no_kernel_of_a_processor_reads_at_clamped_indices(before: int, after: int):
    for each in on_processor(blurred_twice(before, after)).segments:
        assert "Clamped" not in print_nest(schedule_cpu(each, CpuParameters()))


def test_joints_are_where_what_is_read_changes():
    with FusionDefinition() as fd:
        x = fd.from_pytorch(X, static_sizes=True)
        fd.add_output(fd.ops.cat([x, x, x], 0))
        fd.add_output(fd.ops.pad(x, [1, 2]))
        fd.add_output(fd.ops.pad(x, [0, 0, -1, 3]))
        fd.add_output(x * 2.0)
    values = concrete(fd.fusion, [X]).statements
    found = [joints(statement) for statement in values if statement.outs[0].is_tensor]
    assert found == [{0: (40, 80)}, {1: (1, 41)}, {0: (39,)}, {}]


def test_what_has_too_many_pieces_by_itself_is_fused_all_the_same():
    with FusionDefinition() as fd:
        x = fd.from_pytorch(X, static_sizes=True)
        fd.add_output(fd.ops.cat([x, x * 2.0] * 20, 1) + 1.0)
    assert len(on_processor(concrete(fd.fusion, [X]), FEW_PIECES).segments) == 1


def test_pieces_of_all_parts_of_a_stack_are_counted() -> None:
    # One place of `both` stands for two, each of which is cut.
    with FusionDefinition() as fd:
        x = fd.from_pytorch(X, static_sizes=True)
        both = fd.ops.cat([fd.ops.exp(x), fd.ops.neg(x)], 0) * 2.0
        fd.add_output(fd.ops.cat([fd.ops.sin(both), fd.ops.cos(both)], 0))
    fusion = concrete(fd.fusion, [X])
    assert len(on_processor(fusion).segments) == 1
    few = on_processor(fusion, dataclasses.replace(PROCESSOR, most_pieces=3))
    assert len(few.segments) == 2
    assert "it would be cut into 4 pieces" in refusals(few)


def steps(count: int) -> Fusion:
    """Each from the last, and a row of what is given; all of them are stacked."""
    with FusionDefinition() as fd:
        x = fd.from_pytorch(X, static_sizes=True)
        found = [part(fd, x, 0, 0, 1)]
        for row in range(1, count):
            found.append(fd.ops.sin(found[-1]) + part(fd, x, 0, row, row + 1))
        fd.add_output(fd.ops.cat(found, 0))
    return concrete(fd.fusion, [X])


def test_steps_that_are_all_kept_are_one_kernel_of_a_processor() -> None:
    # What each step reads of the one before is made once, whatever is stacked after it.
    fusion = steps(SIZE)
    assert len(on_processor(fusion).segments) == 1
    assert len(on_processor(fusion, GPU).segments) > 1


def test_steps_that_are_kept_flat_and_read_as_rows_are_one_kernel() -> None:
    """As where a recurrence is differentiated: each step's gradient, and what all of them make."""
    x = torch.randn(8, 4096)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        rows = [
            fd.ops.reshape(fd.ops.slice(given, [n, 0], [n + 1, 4096]), [4096]) for n in range(8)
        ]
        found = rows[:1]
        for row in rows[1:]:
            found.append(row + found[-1] * 0.95)
        flat = fd.ops.cat(found, 0)
        steps = fd.ops.reshape(flat, [8, 4096])
        before = fd.ops.pad(fd.ops.slice(steps * 0.99, [0, 0], [7, 4096]), [0, 0, 1, 0])
        fd.add_output(flat)
        fd.add_output(fd.ops.neg(steps) + before)
    fd.validate([x], target="cpu")
    assert len(fd.plan([x], target="cpu").kernels) == 1


def test_a_kernel_has_no_more_functions_in_its_pieces_than_compilers_take() -> None:
    few = dataclasses.replace(PROCESSOR, most_costly_in_pieces=200)
    segmented = on_processor(steps(SIZE), few)
    assert len(segmented.segments) > 1
    assert "functions of" in refusals(segmented)
