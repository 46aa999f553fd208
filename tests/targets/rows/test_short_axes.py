"""Rows whose innermost axis is short: its elements beside each other, lanes along the next axis.

So are the gradients of a norm whose result went through a pool: the pixels of a window are next to
each other in memory, and share what the window has.
"""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import defined, one_kernel, only_kernel

SIDES = (2, 3, 4)


def in_windows(fd: FusionDefinition, x: Handle, side: int) -> Handle:
    """[N, C, 6 side, 9 side] as windows, [N, C, 6, side, 9, side]."""
    batch, channels, *_ = fd.ops.shape(x)
    return fd.ops.reshape(x, [batch, channels, 6, side, 9, side])


def each_pixel(fd: FusionDefinition, of_window: Handle) -> Handle:
    """Numbers of windows, for each of their pixels."""
    return fd.ops.broadcast(of_window, [False, False, False, True, False, True])


def normalized(dims: list[int], side: int):
    """What the gradient of a norm over some dimensions is made of, from numbers of windows."""

    def define(fd: FusionDefinition, x: Handle, window: Handle) -> list[Handle]:
        pixels = in_windows(fd, x, side)
        made = pixels * each_pixel(fd, window)
        total = fd.ops.sum(made, dims, keepdim=True)
        largest = fd.ops.max(pixels, dims, keepdim=True)
        return [total, made - total * 0.01 - largest]

    return define


def given(side: int, dtype: torch.dtype = torch.float32, channels: int = 12) -> list[torch.Tensor]:
    torch.manual_seed(side)
    pixels, windows = (5, channels, 6 * side, 9 * side), (5, channels, 6, 9)
    return [torch.randn(sizes).to(dtype) for sizes in (pixels, windows)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("channels", [3, 12])
def test_neighbours_are_done_one_after_the_other(
    channels: int, side: int, dtype: torch.dtype
) -> None:
    """Of few rows too, which threads share out."""
    inputs = given(side, dtype, channels)
    fd = one_kernel("cpu", normalized([0, 2, 3, 4, 5], side), *inputs)
    code = only_kernel(fd, inputs).code
    last = f"_at_{side - 1}"
    assert last in code
    assert f"_at_{side}" not in code


def test_long_axes_have_lanes_of_their_own() -> None:
    inputs = given(8)
    fd = one_kernel("cpu", normalized([0, 2, 3, 4, 5], 8), *inputs)
    assert "_at_1" not in only_kernel(fd, inputs).code


@pytest.mark.parametrize("side", SIDES)
def test_each_neighbour_is_added_to_a_place_of_its_own(side: int) -> None:
    """Over the rows, as for the weight of a layer norm."""

    def define(fd: FusionDefinition, x: Handle, window: Handle) -> list[Handle]:
        made = in_windows(fd, x, side) * each_pixel(fd, window)
        total = fd.ops.sum(made, [1, 2, 3, 4, 5], keepdim=True)
        return [fd.ops.sum(made * total, [0]), made - total]

    pixels, windows = (40, 3, 6 * side, 9 * side), (40, 3, 6, 9)
    inputs = [torch.randn(sizes) for sizes in (pixels, windows)]
    fd = one_kernel("cpu", define, *inputs)
    assert f"_at_{side - 1}" in only_kernel(fd, inputs).code


def test_a_fold_of_integers_is_exact() -> None:
    def define(fd: FusionDefinition, x: Handle, window: Handle) -> list[Handle]:
        made = in_windows(fd, x, 2) * each_pixel(fd, window)
        return [fd.ops.sum(made, [0, 2, 3, 4, 5]), fd.ops.min(made, [0, 2, 3, 4, 5])]

    inputs = [torch.randint(-9, 9, sizes) for sizes in ((5, 12, 12, 18), (5, 12, 6, 9))]
    fd = defined(define, *inputs)
    fd.validate(inputs, target="cpu")


def test_nan_is_kept_of_any_neighbour() -> None:
    def define(fd: FusionDefinition, x: Handle, window: Handle) -> list[Handle]:
        made = in_windows(fd, x, 2) * each_pixel(fd, window)
        return [fd.ops.max(made, [0, 2, 3, 4, 5])]

    x, window = given(2)
    x[0, :6, 3, ::5] = torch.nan
    (got,) = defined(define, x, window).execute([x, window], target="cpu")
    assert got.isnan().tolist() == [True] * 6 + [False] * 6
