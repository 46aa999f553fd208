"""Gathers of what a kernel computes. Pictures: [a b] is one kernel, `x | y` a boundary."""

import pytest
import torch

from fuser.frontend.handles import Handle
from fuser.segmenter import SegmentedFusion
from tests.segmenter.definition import Definition, refusals


def log_softmax(d: Definition, x: Handle, dim: int = 1) -> Handle:
    shifted = d.ops.sub(x, d.ops.max(x, [dim], keepdim=True))
    return d.ops.sub(shifted, d.ops.log(d.ops.sum(d.ops.exp(shifted), [dim], keepdim=True)))


def column(d: Definition, index: Handle) -> Handle:
    return d.ops.broadcast(index, [False, True])


def one_kernel(segmented: SegmentedFusion, written: int) -> None:
    (kernel,) = segmented.segments
    assert kernel.bytes_written == written


def test_log_softmax_and_gather_write_one_number_a_row():
    # [max sub exp sum log sub gather]: logits and targets are read, [N] numbers are written
    d = Definition((8, 100))
    target = d.index(100, 8)
    segmented = d.segment(d.ops.gather(log_softmax(d, d.handles[0]), column(d, target), 1))
    one_kernel(segmented, 8 * 4)
    assert segmented.segments[0].bytes_read == 8 * 100 * 4 + 8 * 8


def test_an_ignored_index_is_part_of_it():
    d = Definition((8, 100))
    target = d.index(100, 8)
    kept = d.ops.ne(target, 3)
    index = column(d, d.ops.where(kept, target, 0))
    picked = d.ops.squeeze(d.ops.gather(log_softmax(d, d.handles[0]), index, 1), [1])
    one_kernel(d.segment(d.ops.where(kept, d.ops.neg(picked), 0.0)), 8 * 4)


def test_log_probabilities_that_are_an_output_are_written_once():
    d = Definition((8, 100))
    target = d.index(100, 8)
    y = log_softmax(d, d.handles[0])
    segmented = d.segment(y, d.ops.gather(y, column(d, target), 1))
    one_kernel(segmented, 8 * 100 * 4 + 8 * 4)
    assert segmented.segments[0].bytes_read == 8 * 100 * 4 + 8 * 8


def test_a_gather_of_a_layernorm():
    d = Definition((8, 100))
    target = d.index(100, 8, 1)
    variance, mean = d.ops.var_mean(d.handles[0], [1], keepdim=True)
    y = d.ops.mul(d.ops.sub(d.handles[0], mean), d.ops.rsqrt(variance))
    one_kernel(d.segment(d.ops.gather(y, target, 1)), 8 * 4)


@pytest.mark.parametrize("mode", ["gather", "take_along_axis"])
def test_several_columns_a_row(mode: str):
    d = Definition((8, 100))
    target = d.index(100, 8, 5)
    y = log_softmax(d, d.handles[0])
    one_kernel(d.segment(getattr(d.ops, mode)(y, target, 1)), 8 * 5 * 4)


def test_the_same_columns_of_every_row():
    d = Definition((8, 100))
    target = d.index(100, 5)
    one_kernel(d.segment(d.ops.index_select(log_softmax(d, d.handles[0]), target, 1)), 8 * 5 * 4)


def test_two_gathers():
    d = Definition((8, 100))
    first, second = d.index(100, 8, 1), d.index(100, 8, 1)
    y = log_softmax(d, d.handles[0])
    both = d.ops.add(d.ops.gather(y, first, 1), d.ops.gather(y, second, 1))
    one_kernel(d.segment(both), 8 * 4)


def test_a_gather_followed_by_arithmetic_and_the_mean_loss():
    # ... gather -> neg -> sum over rows -> div: a number is written
    d = Definition((8, 100))
    target = d.index(100, 8)
    picked = d.ops.gather(log_softmax(d, d.handles[0]), column(d, target), 1)
    one_kernel(d.segment(d.ops.div(d.ops.sum(d.ops.neg(picked)), 8.0)), 4)


def test_a_gather_along_an_outer_dimension():
    d = Definition((100, 8))
    target = d.index(100, 1, 8)
    one_kernel(d.segment(d.ops.gather(log_softmax(d, d.handles[0], 0), target, 0)), 8 * 4)


def test_an_index_computed_in_the_same_kernel():
    # the index is the argmax of other logits
    d = Definition((8, 100), (8, 100))
    x, other = d.handles
    index = column(d, d.ops.argmax(other, [1]))
    segmented = d.segment(d.ops.gather(log_softmax(d, x), index, 1))
    one_kernel(segmented, 8 * 4)


def test_rows_are_not_gathered_from_each_other():
    # softmax along rows, then rows picked by index: another kernel reads them
    d = Definition((8, 6))
    index = d.index(8, 4)
    y = d.ops.index_select(log_softmax(d, d.handles[0]), index, 0)
    segmented = d.segment(y)
    assert len(segmented.segments) == 2
    assert "of other rows than its own" in refusals(segmented)


def test_a_gather_may_also_start_a_kernel():
    # embedding rows -> layernorm: only the picked rows are read
    d = Definition((1000, 16))
    index = d.index(1000, 8)
    rows = d.ops.index_select(d.handles[0], index, 0)
    variance, mean = d.ops.var_mean(rows, [1], keepdim=True)
    segmented = d.segment(d.ops.mul(d.ops.sub(rows, mean), d.ops.rsqrt(variance)))
    one_kernel(segmented, 8 * 16 * 4)
    assert segmented.segments[0].bytes_read == 8 * 16 * 4 + 8 * 8


def test_a_gather_of_costly_values_many_times_over_is_another_kernel():
    # lgamma of 1,000 numbers, picked 2^24 times
    d = Definition((1000,))
    costly = d.handles[0]
    for _ in range(4):
        costly = d.ops.lgamma(costly)
    d.inputs.append(torch.zeros(1 << 22, dtype=torch.int64))
    index = d.fd.from_pytorch(d.inputs[-1], static_sizes=True)
    segmented = d.segment(d.ops.index_select(costly, index, 0))
    assert len(segmented.segments) == 2
    assert "recomputation" in refusals(segmented)
