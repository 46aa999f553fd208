"""Rows of several sweeps along the lines of one tensor, and across those of another: tiles that
have rows as a whole on the processor."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CpuRowParameters
from tests.definitions import only_kernel
from tests.row_functions import softmax

FLOAT = DataType.Float
Define = Callable[[FusionDefinition, Handle, Handle], list[Handle]]
LAST, FIRST = [2, 1, 0], [2, 0, 1]
"""Orders of [images, pixels, channels], as `stride_order` has them."""


def norm(fd: FusionDefinition, x: Handle) -> tuple[Handle, Handle]:
    variance, mean = fd.ops.var_mean(x, [2], correction=0, keepdim=True)
    return (x - mean) * fd.ops.rsqrt(variance + 1e-5), mean


def norm_to_channels_last(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
    """And the mean of each pixel, beside a number of each channel."""
    normed, mean = norm(fd, x)
    return [fd.ops.stride_order(normed * fd.ops.exp(y), LAST), mean]


def softmax_to_channels_first(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
    return [fd.ops.stride_order(softmax(fd, y), FIRST), fd.ops.gt(y, 0.0)]


def both_ways(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
    """Several of each, and one that is turned in a later sweep only."""
    normed, _ = norm(fd, y)
    joined = softmax(fd, normed + x)
    return [fd.ops.stride_order(joined, FIRST), fd.ops.stride_order(joined * y, LAST), normed]


def drawn(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
    """A mask is drawn in the order of the result."""
    mask = fd.ops.rand_like(y, rng_seed=3, rng_offset=1) > 0.2
    return [mask, fd.ops.stride_order(softmax(fd, x * mask), LAST)]


def truths(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
    """Turned truth values, and folds of them."""
    larger = fd.ops.gt(x, y)
    some = fd.ops.any(larger, [2], keepdim=True)
    return [fd.ops.stride_order(larger, FIRST), fd.ops.where(some, y, fd.ops.neg(x))]


def gradients(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
    """Of a norm over channels, and of its scale and shift, which are sums over all pixels; and the
    largest of each pixel of any channel."""
    along = fd.ops.mean(x * y, [2], keepdim=True)
    grad = y - fd.ops.mean(y, [2], keepdim=True) - x * along
    sums = [fd.ops.sum(y * x, [0, 1]), fd.ops.sum(y, [0, 1]), fd.ops.max(fd.ops.abs(x), [0, 1])]
    return [fd.ops.stride_order(grad, FIRST), *sums]


CASES: list[Define] = [
    *(norm_to_channels_last, softmax_to_channels_first, both_ways),
    *(drawn, truths, gradients),
]


def images(
    pixels: int, channels: int, dtype: torch.dtype, gap: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """[3, pixels, channels] with channels first in memory, and with channels last."""
    generator = torch.Generator().manual_seed(pixels + channels)
    first = torch.randn(3, channels, pixels + gap, generator=generator).to(dtype)
    last = torch.randn(3, pixels, channels + gap, generator=generator).to(dtype)
    first[1, 2, 3], last[2, 3, 1] = torch.nan, torch.inf
    return first[..., gap:].permute(0, 2, 1), last[..., gap:]


def defined(make: Define, given: tuple[torch.Tensor, torch.Tensor]) -> FusionDefinition:
    with FusionDefinition() as fd:
        x, y = (fd.ops.cast(fd.from_pytorch(each), FLOAT) for each in given)
        for out in make(fd, x, y):
            fd.add_output(out)
    return fd


@pytest.mark.parametrize("make", CASES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_results_are_what_the_oracle_gives(make: Define, dtype: torch.dtype) -> None:
    for pixels in (16, 49, 66):
        for channels in (17, 100, 520):
            given = images(pixels, channels, dtype)
            defined(make, given).validate(list(given))


@pytest.mark.parametrize("make", CASES, ids=lambda f: f.__name__)
def test_gaps_between_rows_and_memory_that_is_not_aligned(make: Define) -> None:
    for channels in (33, 640):
        given = images(48, channels, torch.float32, gap=3)
        defined(make, given).validate(list(given))


def is_tiled(make: Define, pixels: int, channels: int) -> bool:
    given = images(pixels, channels, torch.float32)
    return "_tile[" in only_kernel(defined(make, given), list(given)).code


def test_which_rows_are_in_tiles() -> None:
    def across(fd: FusionDefinition, x: Handle, _: Handle) -> list[Handle]:
        return [fd.ops.stride_order(softmax(fd, x), FIRST)]

    def along(fd: FusionDefinition, _: Handle, y: Handle) -> list[Handle]:
        return [fd.ops.stride_order(softmax(fd, y), LAST)]

    assert is_tiled(norm_to_channels_last, 64, 96)
    assert is_tiled(norm_to_channels_last, 49, 2048)  # 7 rows at a time, in blocks of 4
    assert not is_tiled(norm_to_channels_last, 64, 2049)
    assert not is_tiled(norm_to_channels_last, 53, 96)
    assert not is_tiled(across, 64, 96)
    assert not is_tiled(along, 64, 96)
    assert is_tiled(gradients, 64, 96)


def test_lengths_up_to_a_power_of_two_have_one_text() -> None:
    def text(channels: int) -> str:
        given = images(64, channels, torch.float32)
        return only_kernel(defined(norm_to_channels_last, given), list(given)).code

    assert text(70) == text(100)
    assert text(100) != text(200)


def test_what_overwrites_its_input_is_done_once() -> None:
    x, y = images(64, 96, torch.float32)
    x, y = x.nan_to_num().contiguous().mT.contiguous().mT, y.nan_to_num(posinf=1.0)
    with FusionDefinition() as fd:
        given, old = fd.from_pytorch(x), fd.from_pytorch(y)
        fd.add_output(softmax(fd, given + old), alias_input=old)
    expected = torch.softmax(x + y, 2)
    fd.execute([x, y])
    torch.testing.assert_close(y, expected)


def test_tiles_of_all_sweeps_have_room_on_a_stack() -> None:
    """The first sweep reads narrow elements, in many tiles; the second one wide ones as well."""
    narrow = [torch.randn(2, 2048, 32).bfloat16().mT for _ in range(8)]
    wide = [torch.randn(2, 2048, 32, dtype=torch.float64).mT for _ in range(12)]
    parts = [narrow, wide, [torch.randn(2, 32, 2048)]]
    given = [x for each in parts for x in each]
    with FusionDefinition() as fd:
        first, second, (along,) = ([fd.from_pytorch(x) for x in each] for each in parts)
        total = functools.reduce(fd.ops.add, first)
        some = fd.ops.any(fd.ops.gt(total, 9.0), [2], keepdim=True)
        fd.add_output(functools.reduce(fd.ops.add, second, fd.ops.where(some, along, 1.0)) * total)
    code = only_kernel(fd, given).code
    sizes = {"bfloat16": 2, "double": 8}
    tiles = re.findall(r"alignas\(64\) (\w+) \w+_tile\[(\d+)\]\[(\d+)\];", code)
    assert tiles
    taken = sum(sizes[kind] * int(rows) * int(elements) for kind, rows, elements in tiles)
    assert taken <= CpuRowParameters().kept_bytes
    fd.validate(given)
