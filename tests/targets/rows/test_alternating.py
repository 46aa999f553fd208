"""Rows that alternate in memory, a short piece of each after the other: groups of channels that are
last."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.rows.cpu.mapping import schedule_rows_cpu
from tests.schedule.row_bodies import segment_of

Define = Callable[[FusionDefinition, Handle, Handle], list[Handle]]


def grouped(fd: FusionDefinition, x: Handle, groups: int) -> Handle:
    batch, pixels, _ = x.shape()
    return fd.ops.reshape(x, [batch, pixels, groups, -1])


def group_norm(fd: FusionDefinition, x: Handle, groups: int) -> list[Handle]:
    y = grouped(fd, x, groups)
    var, mean = fd.ops.var_mean(y, [1, 3], correction=0, keepdim=True)
    return [(y - mean) * fd.ops.rsqrt(var + 1e-5), fd.ops.squeeze(mean, [1, 3])]


def channel_sums(fd: FusionDefinition, x: Handle, groups: int) -> list[Handle]:
    """What is added over images, for every channel and for every group, beside what images have."""
    y = grouped(fd, x, groups)
    most = fd.ops.max(y, [1, 3], keepdim=True)
    scaled = y / (1.0 + fd.ops.abs(most))
    own = fd.ops.sum(scaled, [1])
    return [most, own, fd.ops.sum(own, [0]), fd.ops.sum(own, [2]), fd.ops.sum(scaled, [0, 1, 3])]


def softmax(fd: FusionDefinition, x: Handle, groups: int) -> list[Handle]:
    y = grouped(fd, x, groups)
    e = fd.ops.exp(y - fd.ops.max(y, [1, 3], keepdim=True))
    return [e / fd.ops.sum(e, [1, 3], keepdim=True), fd.ops.any(y > 3.0, [1, 3])]


def own_sums(fd: FusionDefinition, x: Handle, groups: int) -> list[Handle]:
    """Sums of channels, and what groups know, in one."""
    y = grouped(fd, x, groups)
    known = fd.ops.broadcast(
        fd.ops.sum(fd.ops.slice(y, [0, 0, 0, 0], [99, 1, 99, 1]), [1, 3]),
        [False, True, False, True],
    )
    products = fd.ops.sum(y * known, [1])
    return [products, fd.ops.sum(products, [2]), fd.ops.sum(products, [0])]


CASES = {
    "group norm": group_norm,
    "channel sums": channel_sums,
    "softmax": softmax,
    "own sums": own_sums,
}
SIZES = [(3, 50, 32, 4), (1, 300, 8, 10), (2, 33, 4, 40), (5, 17, 2, 63), (2, 70, 65, 2)]


def defined(name: str, x: torch.Tensor, groups: int) -> FusionDefinition:
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        if x.dtype is torch.bfloat16:
            given = fd.ops.cast(given, DataType.Float)
        for out in CASES[name](fd, given, groups):
            fd.add_output(out)
    return fd


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_results_are_float64_s(
    name: str, size: tuple[int, int, int, int], dtype: torch.dtype
) -> None:
    batch, pixels, groups, channels = size
    x = torch.randn(batch, pixels, groups * channels, generator=torch.Generator().manual_seed(5))
    x = (x * 2 + 1).to(dtype)
    made = defined(name, x, groups).execute([x])
    wide = defined(name, x.double(), groups).execute([x.double()])
    for got, exact in zip(made, wide, strict=True):
        scale = max(exact.abs().max().item(), 1) if exact.is_floating_point() else 0
        torch.testing.assert_close(got.to(exact.dtype), exact, rtol=2e-5, atol=2e-5 * scale)
    y = x.double().view(batch, pixels, groups, channels)
    if name == "group norm":
        deviation = y - y.mean((1, 3), keepdim=True)
        var = deviation.square().mean((1, 3), keepdim=True)
        torch.testing.assert_close(wide[0], deviation * (var + 1e-5).rsqrt())
    if name == "channel sums":
        scaled = y / (1 + y.amax((1, 3), keepdim=True).abs())
        torch.testing.assert_close(wide[3], scaled.sum((1, 3)))
        torch.testing.assert_close(wide[4], scaled.sum((0, 1, 3)))


@pytest.mark.parametrize("name", ["group norm", "softmax"])
def test_they_are_columns(name: str) -> None:
    x = torch.empty(8, 400, 128, device="meta")
    segment = segment_of(lambda fd, given: tuple(CASES[name](fd, given, 32)), x)
    for strip in (2048, 20):
        nest = schedule_rows_cpu(segment, CpuRowParameters(strip=strip))
        assert "columns of rows that alternate" in nest.mapping
    few = schedule_rows_cpu(segment, CpuRowParameters(strip=8))  # no strip is of whole vectors
    assert "alternate" not in few.mapping
