"""The largest elements of windows of images, and their places.

    values[y, x]    = the largest of padded[stride y + i, stride x + j], i and j below the kernel
    gradient[y, x]  = sum of grad[w] over the windows w that have [y, x], if its place is theirs

The largest element of a whole image is found as that of a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch._prims_common import suggest_memory_format

from fuser.integrations.decompositions.image_windows import (
    MOST_ELEMENTS,
    WindowAxis,
    elements,
    padded_image,
    shares,
    sum_over_windows,
    widened,
    window_axes,
    window_elements,
)
from fuser.integrations.fx.nodes import is_static

MOST_OF_16_BITS = 25
"""With strides, larger windows of 16-bit numbers are torch's: half of their time is rounding."""

MOST_WINDOWS = 4
"""Where an element is in more of them on average, torch is faster to add at the places it has."""


def max_pool_with_indices(
    rank: int,
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest elements of windows [..., height', width'], and their places in the image."""
    axes = _axes(rank, x, kernel_size, stride, padding, dilation, ceil_mode)
    if axes is None:
        return NotImplemented
    begins = [torch.arange(a.windows, device=x.device) * a.stride - a.padding for a in axes]
    first = _numbered(axes, begins)
    # A window chooses its first element in the image, until another one is larger.
    inside = [torch.clamp(begin, min=0) for begin in begins]
    chosen = (_numbered(axes, inside) - first).to(torch.int32)
    steps = [math.prod(axis.size for axis in axes[number + 1 :]) for number in range(rank)]
    windows = window_elements(padded_image(x, axes, -torch.inf), axes)
    _, largest = next(windows)
    for numbers, taken in windows:
        beats = torch.logical_or(taken > largest, torch.isnan(taken))
        behind = sum(number * step for number, step in zip(numbers, steps, strict=True))
        place = torch.full((), behind, dtype=torch.int32, device=x.device)
        chosen = torch.where(beats, place, chosen)
        largest = torch.maximum(largest, taken)
    return largest, (first + chosen).expand(largest.shape)


def _axes(
    rank: int,
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> list[WindowAxis] | None:
    """The dimensions, where windows have no gaps and are small enough to be code."""
    axes = window_axes(rank, x, kernel, stride, padding, ceil_mode)
    if axes is None or math.prod(dilation) != 1 or not x.is_floating_point():
        return None
    strides = any(axis.stride > 1 for axis in axes)
    most = MOST_OF_16_BITS if strides and x.dtype.itemsize == 2 else MOST_ELEMENTS
    return axes if elements(axes) <= most else None


def _numbered(axes: Sequence[WindowAxis], places: Sequence[torch.Tensor]) -> torch.Tensor:
    """The numbers in the image of all rows and columns, or whatever its dimensions have."""
    number, *others = places
    for axis, place in zip(axes[1:], others, strict=True):
        number = (number * axis.size).unsqueeze(-1) + place
    return number


def max_pool_with_indices_backward(
    rank: int,
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: torch.Tensor,
) -> torch.Tensor:
    """What each element gets of the windows that chose it."""
    axes = _axes(rank, x, kernel_size, stride, padding, dilation, ceil_mode)
    if axes is None or elements(axes) > MOST_WINDOWS * math.prod(axis.stride for axis in axes):
        return NotImplemented
    own = _numbered(axes, [axis.place(x.device) for axis in axes])
    wide = widened(grad)

    def term(backs: tuple[int, ...]) -> torch.Tensor:
        chosen, value = indices, wide
        for axis, back in zip(axes, backs, strict=True):
            chosen = axis.of_elements(chosen, back, -1)
            value = axis.of_elements(value, back, 0)
        return torch.where(chosen == own, value, 0)

    return sum_over_windows(axes, term).to(x.dtype)


MOST_SHARED = 9
"""Of adaptive maxima's windows with 16 elements, training takes a tenth longer than torch's."""


def adaptive_max_pool(
    rank: int, x: torch.Tensor, output_size: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest elements of so many windows, where they are of one size and small, or one."""
    if not x.is_floating_point():
        return NotImplemented
    kernel = _few_elements(x.shape[-rank:], output_size)
    if kernel is not None:
        return max_pool_with_indices(rank, x, kernel)
    if not _is_whole(x.shape[-rank:], output_size):
        return NotImplemented
    image = x.flatten(-rank)
    largest = torch.amax(image, -1, keepdim=True)
    # Of several that are no number, the last one.
    numbers = torch.arange(image.shape[-1], device=x.device)
    last = torch.amax(torch.where(torch.isnan(image), numbers, -1), -1, keepdim=True)
    place = torch.where(last >= 0, last, torch.argmax(image, -1, keepdim=True))
    # Of one element each, they may seem to lie in any order; torch's lie as the image.
    shape = [*x.shape[:-rank], *output_size]
    order = suggest_memory_format(x) if rank == 2 else torch.contiguous_format
    largest, place = (made.view(shape).clone(memory_format=order) for made in (largest, place))
    return largest, place


def adaptive_max_pool_backward(
    rank: int, grad: torch.Tensor, x: torch.Tensor, indices: torch.Tensor
) -> torch.Tensor:
    """What the element that each of those windows chose gets."""
    sizes = x.shape[-rank:]
    kernel = _few_elements(sizes, grad.shape[-rank:])
    if kernel is not None:
        how = kernel, kernel, (0,), (1,), False
        return max_pool_with_indices_backward(rank, grad, x, *how, indices)
    if not _is_whole(sizes, grad.shape[-rank:]):
        return NotImplemented
    numbers = torch.arange(math.prod(sizes), device=x.device).view(sizes)
    return torch.where(numbers == indices, grad, 0)


def _few_elements(sizes: Sequence[int], windows: Sequence[int]) -> list[int] | None:
    """Elements of each window along each dimension, where they are of one size and small."""
    kernel = shares(sizes, windows)
    return None if kernel is None or math.prod(kernel) > MOST_SHARED else kernel


def _is_whole(sizes: Sequence[int], windows: Sequence[int]) -> bool:
    """Whether there is one window, the image. Of an image of an open size, it has elements."""
    return all(is_static(count) and count == 1 for count in windows) and not any(
        is_static(size) and size == 0 for size in sizes
    )
