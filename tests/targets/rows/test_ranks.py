"""Extremes of floats of 16 bits, which are found among integers, in every way rows are mapped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CpuRowParameters
from tests.definitions import agrees
from tests.mapped_by import THREADED, mapped_by
from tests.row_functions import log_softmax

Define = Callable[[FusionDefinition, Handle, int], Sequence[Handle]]


def extremes(fd: FusionDefinition, x: Handle, dim: int) -> Sequence[Handle]:
    return [fd.ops.max(x, [dim]), fd.ops.min(x, [dim])]


def of_widened(fd: FusionDefinition, x: Handle, dim: int) -> Sequence[Handle]:
    """In float32, with the smallest read beside the largest."""
    wide = fd.ops.cast(x, DataType.Float)
    largest, smallest = (fold(wide, [dim], keepdim=True) for fold in (fd.ops.max, fd.ops.min))
    return [(wide - smallest) / (largest - smallest + 1.0), largest]


def logs(fd: FusionDefinition, x: Handle, dim: int) -> Sequence[Handle]:
    return [log_softmax(fd, x, dim)]


def of_rounded(fd: FusionDefinition, x: Handle, dim: int) -> Sequence[Handle]:
    """Of what is rounded to 16 bits on the way, and over the rows as well."""
    rounded = fd.ops.cast(fd.ops.sin(x), DataType.BFloat16)
    return [fd.ops.max(rounded, [dim]), fd.ops.max(rounded), fd.ops.sum(rounded, [dim])]


SHAPES = [
    *[((45, 300), 1), ((300, 45), 0), ((7, 40, 30), 1), ((500, 6), 1), ((3, 5000), 1)],
    *[((2000, 1), 1), ((1, 70), 0), ((64, 33), 1)],
]
"""Rows along memory and across it, short ones, few long ones, and of one element."""

ONLINE = CpuRowParameters(online_bytes=0, online_block=128, block=64, kept_bytes=0)


def rows(shape: Sequence[int], dim: int, dtype: torch.dtype) -> torch.Tensor:
    """Numbers with infinities, and zeros and NaN of both signs; some rows are all of one kind."""
    x = (20 * torch.randn(shape, generator=torch.Generator().manual_seed(3))).to(dtype)
    moved = x.movedim(dim, -1).reshape(-1, shape[dim])
    for number, value in enumerate((-math.inf, math.inf, math.nan, 0.0)):
        moved[number::11, number % shape[dim]] = value
    moved[4::11] = -math.inf
    moved[5::11] = moved[5::11].abs() * 0 * torch.tensor([1.0, -1.0])[torch.arange(shape[dim]) % 2]
    moved[6::11, -1] = torch.tensor(0xFFC0 - 0x10000, dtype=torch.int16).view(torch.bfloat16)
    swapped = [size for place, size in enumerate(shape) if place != dim % len(shape)]
    return moved.reshape(*swapped, shape[dim]).movedim(-1, dim).contiguous().to(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("define", [extremes, of_widened, logs, of_rounded])
def test_extremes_are_the_oracles(
    define: Define, shape: tuple[int, ...], dim: int, dtype: torch.dtype
):
    x = rows(shape, dim, dtype)
    for given in (CpuRowParameters(), CpuRowParameters(THREADED), ONLINE):
        with mapped_by(given), FusionDefinition() as fd:
            for out in define(fd, fd.from_pytorch(x), dim):
                fd.add_output(out)
        with mapped_by(given):
            agrees(fd, [x], "cpu")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_nan_of_either_sign_wins_over_infinities(dtype: torch.dtype):
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    nan = bits.view(dtype)[bits.view(dtype).isnan()]
    x = torch.full((len(nan), 67), math.inf, dtype=dtype)
    x[:, 40:] = -math.inf
    x[:, 17] = nan
    with FusionDefinition() as fd:
        for out in extremes(fd, fd.from_pytorch(x), 1):
            fd.add_output(out)
    for out in fd.execute([x]):
        assert out.isnan().all()
    assert "int16 T" in fd.plan([x], target="cpu").kernels[0].kernel_source.text


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("fold", "from_"), [("max", -math.inf), ("min", math.inf)])
def test_every_number_is_found_among_infinities(fold: str, from_: float, dtype: torch.dtype):
    numbers = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype)
    x = torch.full((1 << 16, 33), from_, dtype=dtype)
    x[:, 5] = numbers
    with FusionDefinition() as fd:
        fd.add_output(getattr(fd.ops, fold)(fd.from_pytorch(x), [1]))
    (out,) = agrees(fd, [x], "cpu")
    assert torch.equal(out.float().nan_to_num(7), numbers.float().nan_to_num(7))
