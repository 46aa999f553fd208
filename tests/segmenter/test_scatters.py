"""What shares a kernel with a scatter, whose memory it changes, and the bytes of that."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.nodes import Statement
from fuser.ir.printer import operation_name
from fuser.passes.scatter_forms import choose_scatter_forms
from fuser.segmenter import Segment, SegmentedFusion, segment
from tests.segmented import concrete, memory_of

ROWS, COLUMNS, POINTS = 50, 32, 70
FEW = 8
"""Columns that are too few for lists."""


class Scattered:
    """A definition over data [50, columns], an index [70] and a source [70, columns]."""

    def __init__(self, columns: int = COLUMNS) -> None:
        self.inputs = [
            torch.randn(ROWS, columns),
            torch.randint(0, ROWS, (POINTS,)),
            torch.randn(POINTS, columns),
        ]
        self.fd = FusionDefinition()
        self.fd.__enter__()
        self.data, self.index, self.source = map(self.fd.from_pytorch, self.inputs)

    def added(self, data: Handle, source: Handle) -> Handle:
        return self.fd.ops.index_add(data, self.index, source, 0)

    def segmented(self, *outputs: Handle, in_order: bool = True) -> SegmentedFusion:
        for output in outputs:
            self.fd.add_output(output)
        self.fd.__exit__(None, None, None)
        fusion = concrete(self.fd.fusion, self.inputs)
        fusion = choose_scatter_forms(fusion, in_order=in_order, repeatable=False)
        return segment(fusion, memory_of(fusion, self.inputs))


def kernels(segmented: SegmentedFusion) -> list[list[str]]:
    return [[operation_name(s.op) for s in _tensors(step)] for step in segmented.segments]


def _tensors(step: Segment) -> list[Statement]:
    return [s for s in step.fusion.statements if s.outs[0].is_tensor]


@pytest.mark.parametrize("in_order", [True, False])
def test_with_lists_all_that_surrounds_a_scatter_is_one_kernel(in_order: bool) -> None:
    # [relu mul index_add neg]     reads data, index and source once, and writes the result once
    d = Scattered()
    out = d.fd.ops.neg(d.added(d.fd.ops.relu(d.data), d.source * 2.0))
    made = d.segmented(out, in_order=in_order)
    assert kernels(made) == [["relu", "mul", "index_add", "neg"]]
    (step,) = made.segments
    assert step.bytes_read == 4 * (ROWS + POINTS) * COLUMNS + 8 * POINTS
    assert step.bytes_written == 4 * ROWS * COLUMNS


def test_in_place_the_data_is_made_first_and_the_result_read_later() -> None:
    # [relu] | [mul index_add] | [neg]     relu and index_add in one memory
    d = Scattered(FEW)
    total = d.added(d.fd.ops.relu(d.data), d.source * 2.0)
    made = d.segmented(d.fd.ops.neg(total), in_order=False)
    assert kernels(made) == [["relu"], ["mul", "index_add"], ["neg"]]
    first, second, third = made.segments
    (before,), (after,) = first.stores, second.stores
    assert made.memory[before].base is after
    assert made.memory[before].strides == made.memory[after].strides
    assert first.bytes_written == 4 * ROWS * FEW
    touched = 4 * min(ROWS, POINTS) * FEW
    assert second.bytes_read == 4 * POINTS * FEW + 8 * POINTS + touched
    assert second.bytes_written == touched
    assert third.bytes_read == 4 * ROWS * FEW
    reasons = [boundary.reason for boundary in made.boundaries]
    assert any("has to be there before" in reason for reason in reasons)
    assert any("is there when all points are" in reason for reason in reasons)


def test_overwriting_reads_nothing_of_the_data() -> None:
    d = Scattered()
    wide = d.fd.ops.expand(d.fd.ops.broadcast(d.index, [False, True]), [POINTS, COLUMNS])
    made = d.segmented(d.fd.ops.scatter(d.data, wide, d.source, 0), in_order=False)
    assert kernels(made) == [["set"], ["scatter"]]
    assert made.segments[1].bytes_read == 4 * POINTS * COLUMNS + 8 * POINTS


def test_scatters_in_a_row_share_one_memory_and_the_views_of_its_end() -> None:
    d = Scattered(FEW)
    once = d.added(d.data, d.source)
    twice = d.added(once, d.source)
    turned = d.fd.ops.permute(twice, [1, 0])
    made = d.segmented(turned, in_order=False)
    assert kernels(made) == [["set"], ["index_add"], ["index_add"]]
    stored = [step.stores[0] for step in made.segments]
    assert len({made.memory[value].base for value in stored}) == 1
    (output,) = made.fusion.output_values
    assert made.memory[output].base is stored[-1]


@pytest.mark.parametrize("columns", [COLUMNS, FEW])
def test_a_reduction_is_not_a_scatters_business(columns: int) -> None:
    d = Scattered(columns)
    scaled = d.source / d.fd.ops.sum(d.source, [1], keepdim=True)
    made = d.segmented(d.added(d.fd.ops.full([ROWS, columns], 0.0, DataType.Float), scaled))
    fused = [["sum"], ["truediv", "full", "index_add"]]
    in_place = [["sum"], ["full"], ["truediv", "index_add"]]
    assert kernels(made) == (fused if columns == COLUMNS else in_place)
    assert any("scattered over points" in boundary.reason for boundary in made.boundaries)


def test_a_result_of_which_other_rows_are_needed_is_stored() -> None:
    d = Scattered()
    total = d.added(d.data, d.source)
    made = d.segmented(total + d.fd.ops.flip(total, [0]))
    assert kernels(made)[0] == ["index_add"]
    assert any("of other rows than its own" in b.reason for b in made.boundaries)


def test_what_the_source_leaves_besides_is_another_kernels() -> None:
    d = Scattered()
    doubled = d.source * 2.0
    made = d.segmented(d.added(d.data, doubled), doubled)
    assert len(made.segments) == 2
    assert any("another domain" in boundary.reason for boundary in made.boundaries)
