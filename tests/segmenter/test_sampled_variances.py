"""Variances that are summed in one sweep, about the mean of a part: what is read, and how exact.

[sum] | [sub mul sum] | [sub mul]    ->    [slice sum] | [sub sum, mul sum] | [sub mul]
"""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.passes.lower_reductions import lower_reductions
from fuser.segmenter import GPU, PROCESSOR, Machine, SegmentedFusion, segment
from fuser.segmenter.sampled_variances import PART
from tests.segmented import concrete, memory_of, run_segmented
from tests.segmenter.definition import kernels

IDLE = dataclasses.replace(GPU, launch_bytes=0, busy_rows=1 << 40, kept_row=0)
"""A machine that always has too few rows, so that tensors of any size are divided."""
EPSILON = torch.finfo(torch.float32).eps


def segment_for(fd: FusionDefinition, x: torch.Tensor, machine: Machine = GPU) -> SegmentedFusion:
    """A definition of one input, with its variances as sums, segmented."""
    fusion = lower_reductions(concrete(fd.fusion, [x] * len(fd.fusion.inputs)))
    return segment(fusion, memory_of(fusion, [x] * len(fusion.inputs)), machine)


def is_sampled(segmented: SegmentedFusion) -> bool:
    return any(line.startswith("sampled:") for line in segmented.log)


def moments(fd: FusionDefinition, x: Handle, dims: list[int]) -> list[Handle]:
    return list(fd.ops.var_mean(x, dims, 0, False))


def normalized(fd: FusionDefinition, x: Handle, dims: list[int]) -> list[Handle]:
    variance, mean = fd.ops.var_mean(x, dims, 0, True)
    return [(x - mean) * fd.ops.rsqrt(variance + 1e-5)]


def by_welford(fd: FusionDefinition, x: Handle, dims: list[int]) -> list[Handle]:
    return list(fd.ops.welford(x, dims))


def of_a_sum(fd: FusionDefinition, x: Handle, dims: list[int]) -> list[Handle]:
    total = x * 3.0 + 1.0
    return list(fd.ops.var_mean(total, dims, 1, True))


@pytest.mark.parametrize("make", [moments, normalized, by_welford, of_a_sum])
@pytest.mark.parametrize(
    ("sizes", "dims"),
    [
        ((64, 3, 50), [0, 2]),
        ((3, 700), [1]),
        ((700, 3), [0]),
        ((2, 3, 8, 5), [0, 2, 3]),  # none has so many that a sixteenth is one
        ((33, 40), [0, 1]),
    ],
)
def test_the_numbers_are_the_oracles(make, sizes: tuple[int, ...], dims: list[int]):
    x = torch.randn(sizes) * 4 + 3
    with FusionDefinition() as fd:
        for made in make(fd, fd.from_pytorch(x), dims):
            fd.add_output(made)
    segmented = segment_for(fd, x, IDLE)
    assert is_sampled(segmented)
    want = interpret(fd.fusion, [x])
    for got, expected in zip(run_segmented(segmented, [x]), want, strict=True):
        torch.testing.assert_close(got, expected)


ROWS = 4
COLUMNS = 4096


def worst_rows() -> dict[str, torch.Tensor]:
    """Rows whose first part says the least of the others."""
    first = COLUMNS // PART
    plain = torch.randn(ROWS, COLUMNS)
    far, padded, lone = plain + 1e4, plain + 1e4, plain.clone()
    padded[:, :first] = 0
    lone[:, :first] = 1e6
    return {"plain": plain, "far": far, "padded": padded, "lone": lone}


@pytest.mark.parametrize("kind", ["plain", "far", "padded", "lone"])
def test_little_cancels_whatever_the_part_is(kind: str):
    """At most 1 + n / m roundings of a sum, beside those of the numbers that are summed."""
    x = worst_rows()[kind]
    with FusionDefinition() as fd:
        for made in moments(fd, fd.from_pytorch(x), [1]):
            fd.add_output(made)
    segmented = segment_for(fd, x, IDLE)
    assert is_sampled(segmented)
    variance, mean = run_segmented(segmented, [x])
    exact = x.double()
    spread = exact.var(1, correction=0).sqrt()
    within = 8 * EPSILON * (1 + PART)
    assert ((variance.sqrt() - spread).abs() <= within * spread).all()
    assert ((mean - exact.mean(1)).abs() <= 8 * EPSILON * exact.abs().mean(1)).all()


@pytest.mark.parametrize("place", [0, COLUMNS - 1])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_gives_what_it_gives_in_torch(value: float, place: int):
    x = torch.randn(ROWS, COLUMNS)
    x[1, place] = value
    with FusionDefinition() as fd:
        for made in moments(fd, fd.from_pytorch(x), [1]):
            fd.add_output(made)
    variance, mean = run_segmented(segment_for(fd, x, IDLE), [x])
    torch.testing.assert_close(mean, x.mean(1), equal_nan=True)
    torch.testing.assert_close(variance, x.var(1, correction=0), equal_nan=True)


def test_equal_numbers_have_no_variance_to_speak_of():
    x = torch.tensor([0.1, 3.3, -1e6, 0.0])[:, None].expand(ROWS, COLUMNS).contiguous()
    with FusionDefinition() as fd:
        for made in moments(fd, fd.from_pytorch(x), [1]):
            fd.add_output(made)
    variance, mean = run_segmented(segment_for(fd, x, IDLE), [x])
    torch.testing.assert_close(mean, x[:, 0])
    assert (variance >= 0).all()
    assert (variance <= (8 * EPSILON * x[:, 0]) ** 2).all()


def planned(sizes: tuple[int, ...], dims: list[int], machine: Machine = GPU) -> SegmentedFusion:
    x = torch.empty(sizes, device="meta")
    with FusionDefinition() as fd:
        (made,) = normalized(fd, fd.from_pytorch(x), dims)
        fd.add_output(made)
    return segment_for(fd, x, machine)


@pytest.mark.parametrize(
    ("sizes", "dims", "count"),
    [
        ((128, 64, 3136), [0, 2], 3),  # few rows
        ((401408, 256), [0], 3),  # few columns
        ((128, 256, 3136), [0, 2], 1),  # rows enough, but more than a cache holds of them
    ],
)
def test_what_a_gpu_cannot_keep_is_read_once_for_both_sums(
    sizes: tuple[int, ...], dims: list[int], count: int
):
    segmented = planned(sizes, dims)
    assert is_sampled(segmented)
    assert len(segmented.segments) == count
    moved = sum(s.bytes_read + s.bytes_written + s.bytes_read_again for s in segmented.segments)
    assert moved <= (3 + 2 / PART) * math.prod(sizes) * 4


@pytest.mark.parametrize(
    ("sizes", "dims"), [((8192, 4096), [1]), ((32, 512, 784), [0, 2]), ((64, 1024), [0])]
)
def test_what_is_kept_or_found_in_a_cache_is_not_sampled(sizes: tuple[int, ...], dims: list[int]):
    segmented = planned(sizes, dims)
    assert len(segmented.segments) == 1
    assert not is_sampled(segmented)


@pytest.mark.parametrize(
    ("sizes", "dims", "sampled"),
    [
        ((16, 64, 1568), [0, 2], False),  # rows of 98 KB
        ((128, 64, 3136), [0, 2], True),  # of 1.6 MB
        ((8, 128, 3136), [1], False),  # columns, of which a strip is 128 KB
        ((8, 768, 3136), [1], True),  # and 768 KB
    ],
)
def test_a_processor_samples_what_its_cache_does_not_hold(
    sizes: tuple[int, ...], dims: list[int], sampled: bool
):
    segmented = planned(sizes, dims, PROCESSOR)
    assert len(segmented.segments) == 1
    assert is_sampled(segmented) == sampled


@pytest.mark.parametrize(
    ("channels", "sampled"),
    [
        (320, True),  # groups of 10 alternate in memory: strips of 256 are 1 MB
        (2048, False),  # groups of 64 are swept one by one: 256 KB
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_processor_sweeps_groups_of_channels_in_strips(
    channels: int, sampled: bool, dtype: torch.dtype
):
    x = torch.randn(2, channels, 32, 32).to(dtype)
    x = x.contiguous(memory_format=torch.channels_last)
    with FusionDefinition() as fd:
        given = fd.ops.cast(fd.from_pytorch(x), DataType.Float)
        groups = fd.ops.reshape(given, [2, 32, channels // 32, 32, 32])
        (made,) = normalized(fd, groups, [2, 3, 4])
        fd.add_output(made)
    segmented = segment_for(fd, x, PROCESSOR)
    assert len(segmented.segments) == 1
    assert is_sampled(segmented) == sampled
    fd.validate([x], target="cpu")


def test_one_element_is_no_part():
    x = torch.randn(8, 17)
    with FusionDefinition() as fd:
        for made in moments(fd, fd.from_pytorch(x), [1]):
            fd.add_output(made)
    assert not is_sampled(segment_for(fd, x, IDLE))


def test_a_mean_alone_is_no_variance():
    x = torch.empty(4, 1 << 20, device="meta")
    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(x) - fd.ops.mean(fd.from_pytorch(x), [1], True))
    assert not is_sampled(segment_for(fd, x))


def test_sums_about_another_mean_are_left():
    x = torch.empty(4, 1 << 20, device="meta")
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(x)
        away = a - fd.ops.mean(b, [1], True)
        fd.add_output(fd.ops.sum(away * away, [1]))
    segmented = segment_for(fd, x)
    assert len(kernels(segmented)) > 1
    assert not is_sampled(segmented)


@pytest.mark.parametrize("divisor", [COLUMNS, COLUMNS - 1, 7.5])
def test_a_sum_divided_by_another_number_is_no_mean(divisor: float):
    x = torch.randn(ROWS, COLUMNS)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        about = fd.ops.sum(given, [1], True) / divisor
        away = given - about
        fd.add_output(fd.ops.sum(away * away, [1]))
        fd.add_output(about)
    segmented = segment_for(fd, x, IDLE)
    assert is_sampled(segmented) == (divisor == COLUMNS)
    for got, want in zip(run_segmented(segmented, [x]), interpret(fd.fusion, [x]), strict=True):
        torch.testing.assert_close(got, want)
