"""Means of windows of images, as sums of slices.

    values[y, x]    = sum of padded[stride y + i, stride x + j] / count, i and j below the kernel
    gradient[y, x]  = sum of grad[w] / count[w] over the windows w that have [y, x]

Means of large windows that lie side by side are sums over a dimension of [..., windows, kernel],
and an only window lies so; adaptive pools are such where sizes divide.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import torch

from fuser.integrations.decompositions.image_windows import (
    MOST_ELEMENTS,
    WindowAxis,
    are_few,
    elements,
    padded_image,
    shares,
    widened,
    window_axes,
)


def avg_pool(
    rank: int,
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> torch.Tensor:
    """Means of windows [..., height', width']."""
    axes = window_axes(rank, x, kernel_size, stride, padding, ceil_mode)
    if axes is None or not _few_slid(axes) or not x.is_floating_point():
        return NotImplemented
    count = _counts(axes, x, divisor_override, count_include_pad)
    return (_sums(x, axes) / count).to(x.dtype)


def _few_slid(axes: Sequence[WindowAxis]) -> bool:
    return are_few([axis for axis in axes if not axis.tiled])


def _sums(x: torch.Tensor, axes: Sequence[WindowAxis]) -> torch.Tensor:
    """Sums of windows, [..., height', width']."""
    padded = widened(padded_image(x, axes, 0))
    tiled = [axis for axis in axes if axis.tiled]
    if tiled and elements(axes) > MOST_ELEMENTS:
        for axis in reversed(tiled):
            padded = axis.tiles(padded)
        # A dimension comes one later for each before it that is two.
        padded = torch.sum(padded, [axis.dim + 1 + number for number, axis in enumerate(tiled)])
        axes = [axis.summed() if axis.tiled else axis for axis in axes]
    for axis in reversed(axes):
        padded = functools.reduce(torch.add, axis.elements(padded))
    return padded


def avg_pool_backward(
    rank: int,
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> torch.Tensor:
    """What windows share out to their elements."""
    axes = window_axes(rank, x, kernel_size, stride, padding, ceil_mode)
    if axes is None or not _few_slid(axes) or not x.is_floating_point():
        return NotImplemented
    share = widened(grad) / _counts(axes, x, divisor_override, count_include_pad)
    for axis in axes:
        share = functools.reduce(torch.add, _shares_along(axis, share))
    return share.to(x.dtype)


def _shares_along(axis: WindowAxis, share: torch.Tensor) -> Iterator[torch.Tensor]:
    """What each of the windows along a dimension has for each element."""
    for back, given in enumerate(axis.of_elements(share, 0)):
        inside = axis.in_window(back, share.device)
        if inside is None:
            yield given
        else:
            yield torch.where(axis.along(inside, share.dim()), given, 0)


def _counts(
    axes: Sequence[WindowAxis], x: torch.Tensor, divisor: int | None, with_padding: bool
) -> int | torch.Tensor:
    """How many elements each window has, or what its sum is divided by instead."""
    if divisor is not None:
        return divisor
    if not any(axis.cut or (axis.padding and not with_padding) for axis in axes):
        return elements(axes)
    counts: list[torch.Tensor] = []
    for axis in axes:
        margin = axis.padding if with_padding else 0
        first = torch.arange(axis.windows, device=x.device) * axis.stride - axis.padding
        last = torch.clamp(first + axis.kernel, max=axis.size + margin)
        counts.append(last - torch.clamp(first, min=-margin))
    return functools.reduce(lambda some, more: some.unsqueeze(-1) * more, counts)


def adaptive_avg_pool(rank: int, x: torch.Tensor, output_size: Sequence[int]) -> torch.Tensor:
    """Means of windows, so many of them, where they are of one size."""
    kernel = shares(x.shape[-rank:], output_size)
    return NotImplemented if kernel is None else avg_pool(rank, x, kernel)


def adaptive_avg_pool_backward(rank: int, grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """What those windows share out to their elements."""
    kernel = shares(x.shape[-rank:], grad.shape[-rank:])
    if kernel is None:
        return NotImplemented
    return avg_pool_backward(rank, grad, x, kernel, kernel, (0,), False, True, None)
