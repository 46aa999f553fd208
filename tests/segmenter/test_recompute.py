"""Values made again instead of stored. Pictures: [a b] is one kernel, `x | y` a boundary."""

import torch

from fuser import DataType, FusionDefinition
from fuser.segmenter import PROCESSOR, SegmentedFusion, segment
from tests.segmented import concrete, memory_of, segment_for
from tests.segmenter.definition import Definition, kernels


def made_again(segmented: SegmentedFusion) -> list[str]:
    return [line for line in segmented.log if line.startswith("made again")]


def test_a_cast_is_made_again_by_each_of_two_kernels():
    # cast -> sums over either dimension, each needed at every element
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], dtype=DataType.BFloat16)
        y = fd.ops.cast(x, DataType.Float)
        rows = fd.ops.sub(y, fd.ops.max(y, [1], keepdim=True))
        columns = fd.ops.sub(y, fd.ops.max(y, [0], keepdim=True))
        fd.add_output(rows)
        fd.add_output(columns)
    segmented = segment_for(fd.fusion, [torch.empty(1024, 1024, device="meta").bfloat16()])
    assert kernels(segmented) == ["cast max sub", "cast max sub"]
    assert all(s.bytes_read == 2 * 1024 * 1024 for s in segmented.segments)


def test_what_is_an_output_is_stored_and_read():
    d = Definition((64, 32))
    y = d.ops.neg(d.handles[0])
    segmented = d.segment(y, d.ops.abs(d.ops.segment_set(y)))
    assert kernels(segmented) == ["neg segment_set", "abs"]


def test_a_reduction_is_not_made_again():
    d = Definition((64, 32))
    total = d.ops.sum(d.handles[0], [1])
    segmented = d.segment(d.ops.sub(total, d.ops.sum(total, [0])), d.ops.exp(total))
    assert not made_again(segmented)


def test_a_factory_is_made_where_it_is_used():
    # [iota add segment_set] | [iota mul]
    d = Definition((64, 64))
    numbers = d.ops.iota(64, 0, 1, DataType.Int)
    y = d.ops.segment_set(d.ops.add(d.handles[0], numbers))
    assert kernels(d.segment(d.ops.mul(y, numbers))) == ["iota add segment_set", "iota mul"]


def test_a_number_is_made_where_it_is_used_by_however_many_tensors():
    """To make it again is to read one tensor less."""
    lengths = (512, 640)
    with FusionDefinition() as fd:
        one = fd.ops.full([], 1.0, DataType.Float)
        inputs = [fd.define_tensor([-1]) for _ in range(60 * len(lengths))]
        for x in inputs:
            fd.add_output(x * one)
    given = [torch.empty(length, device="meta") for length in lengths] * 60
    fusion = concrete(fd.fusion, given)
    segmented = segment(fusion, memory_of(fusion, given), PROCESSOR)
    assert len(segmented.segments) > 1
    assert all(value.shape for each in segmented.segments for value in each.loads)


def test_costly_values_are_stored_and_read():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        y = x
        for _ in range(4):
            y = fd.ops.lgamma(y)
        fd.add_output(fd.ops.sub(y, fd.ops.max(y, [1], keepdim=True)))
        fd.add_output(fd.ops.sub(y, fd.ops.max(y, [0], keepdim=True)))
    segmented = segment_for(fd.fusion, [torch.empty(4096, 4096, device="meta")])
    assert not made_again(segmented)


def test_a_row_is_not_made_again_for_every_element():
    # row [1, 4096] -> lgamma x 4 -> add [16384, 4096]
    with FusionDefinition() as fd:
        row = fd.define_tensor([1, 4096])
        matrix = fd.define_tensor([16384, 4096])
        for _ in range(4):
            row = fd.ops.lgamma(row)
        fd.add_output(fd.ops.add(row, matrix))
    inputs = [torch.empty(1, 4096, device="meta"), torch.empty(16384, 4096, device="meta")]
    assert not made_again(segment_for(fd.fusion, inputs))


def test_a_processor_makes_a_function_again_where_that_is_not_more_often():
    # Of each element once, while memory is waited for, it takes no longer than to read it.
    x = torch.randn(1024, 1024)
    with FusionDefinition() as fd:
        y = fd.ops.sigmoid(fd.from_pytorch(x))
        for dim in (1, 0):
            fd.add_output(y - fd.ops.max(y, [dim], keepdim=True))
    plan = fd.plan([x], target="cpu")
    assert [kernel.operations for kernel in plan.kernels] == [("sigmoid", "max", "sub")] * 2


def test_a_function_is_stored_that_columns_would_make_in_each_of_three_sweeps():
    """Rows keep what they have made for their next sweep; of columns, nothing is kept."""
    x = torch.randn(768, 512)
    found: list[list[tuple[str, ...]]] = []
    for dim in (0, 1):
        with FusionDefinition() as fd:
            y = fd.ops.log1p(fd.ops.exp(fd.from_pytorch(x)))
            y = fd.ops.exp(y - fd.ops.max(y, [dim], keepdim=True))
            fd.add_output(y / fd.ops.sum(y, [dim], keepdim=True))
        found.append([kernel.operations for kernel in fd.plan([x], target="cpu").kernels])
    normalized = ("max", "sub", "exp", "sum", "truediv")
    assert found == [[("exp", "log1p"), normalized], [("exp", "log1p", *normalized)]]
