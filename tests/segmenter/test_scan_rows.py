"""Kernels with scans. Pictures: [a b] is one kernel, `x | y` a boundary."""

import torch

from fuser.segmenter import SegmentedFusion
from tests.segmenter.definition import Definition, kernels, refusals


def test_a_scan_shares_the_sweep_of_what_it_reads_and_of_what_reads_it():
    # [exp cumsum mul sum]
    d = Definition((6, 8), (6, 8))
    x, y = d.handles
    segmented = d.segment(d.ops.sum(d.ops.mul(d.ops.cumsum(d.ops.exp(x), 1), y), [1]))
    assert kernels(segmented) == ["exp cumsum mul sum"]
    assert segmented.segments[0].bytes_written == 6 * 4


def test_scans_along_two_dimensions_are_two_kernels():
    # [cumsum over 0] | [cumsum over 1]
    d = Definition((6, 8))
    segmented = d.segment(d.ops.cumsum(d.ops.cumsum(d.handles[0], 0), 1))
    assert kernels(segmented) == ["cumsum", "cumsum"]
    assert "T2 is scanned along 8, in 6 rows, while others have 8 rows" in refusals(segmented)


def test_rows_that_are_as_many_are_said_to_be_others():
    # [sum over 0] | [cumsum over 1]
    d = Definition((6, 8), (6, 4))
    x, y = d.handles
    reason = refusals(d.segment(d.ops.sum(x, [0]), d.ops.cumsum(y, 1)))
    assert (
        "T3 is scanned along 4, in 6 rows, while others have 6 rows of other dimensions" in reason
    )


def test_a_scan_and_a_reduction_of_other_rows_are_two_kernels():
    # [max over 0] | [sub cumsum over 1]
    d = Definition((6, 8))
    (x,) = d.handles
    low = d.ops.sub(x, d.ops.max(x, [0], keepdim=True))
    assert kernels(d.segment(d.ops.cumsum(low, 1))) == ["max", "sub cumsum"]


def test_a_fold_over_the_rows_of_a_scan_is_in_its_kernel():
    # [cumsum over 1, sum over 0]
    d = Definition((6, 8))
    assert kernels(d.segment(d.ops.sum(d.ops.cumsum(d.handles[0], 1), [0]))) == ["cumsum sum"]


def reads_elsewhere(segmented: SegmentedFusion) -> bool:
    return "at other places than it is scanned" in refusals(segmented)


def test_what_reads_a_scan_elsewhere_is_another_kernel():
    # [cumsum] | [flip add], [cumsum] | [index_select]
    d = Definition((6, 8), (6, 8))
    x, y = d.handles
    assert reads_elsewhere(d.segment(d.ops.add(d.ops.flip(d.ops.cumsum(x, 1), [1]), y)))
    d = Definition((6, 8))
    sums = d.ops.cumsum(d.handles[0], 1)
    assert reads_elsewhere(d.segment(d.ops.exp(d.ops.index_select(sums, d.index(8, 3), 1))))


def test_a_scan_is_not_made_again_for_every_row():
    # [cumsum] | [mul]
    d = Definition((8,), (6, 8))
    v, x = d.handles
    segmented = d.segment(d.ops.mul(d.ops.cumsum(v, 0), x))
    assert kernels(segmented) == ["cumsum", "mul"]
    assert "a scan, several times" in refusals(segmented)


def test_nor_for_every_element_that_is_folded_of_it():
    # [cumsum] | [broadcast expand sum]
    d = Definition((6, 8))
    wide = d.ops.broadcast_in_dim(d.ops.cumsum(d.handles[0], 1), [6, 3, 8], [0, 2])
    segmented = d.segment(d.ops.sum(wide, [0, 1, 2]))
    assert kernels(segmented) == ["cumsum", "broadcast expand sum"]
    assert "a scan, several times" in refusals(segmented)


def test_a_slice_of_a_scan_needs_the_elements_before():
    d = Definition((6, 8))
    part = d.ops.slice(d.ops.cumsum(d.handles[0], 1), [0, 6], [6, 8])
    segmented = d.segment(d.ops.exp(part))
    assert segmented.segments[0].bytes_read == 6 * 8 * torch.float32.itemsize


def test_a_sum_over_rows_that_keeps_a_part_of_the_scanned_dimension_is_another_kernel():
    # [exp cumsum over (1, 2)] | [exp sum over (0, 2)]: threads share 2, and slots lie along 1
    d = Definition((5, 6, 4))
    y = d.ops.exp(d.handles[0])
    sums = d.ops.cumsum(d.ops.reshape(y, [5, 24]), 1)
    segmented = d.segment(sums, d.ops.sum(y, [0, 2]))
    assert len(segmented.segments) == 2
    assert "keeps a part of the dimension along which others scan" in refusals(segmented)
