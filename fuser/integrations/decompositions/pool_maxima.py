"""The largest elements of windows of images, and their places.

    values[y, x]    = the largest of padded[stride y + i, stride x + j], i and j below the kernel
    gradient[y, x]  = sum of grad[w] over the windows w that have [y, x], if its place is theirs
    gradient[place of w] += grad[w], where windows are many

The largest element of a whole image is found as that of a row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence

import torch
from torch._prims_common import suggest_memory_format

from fuser.integrations.decompositions.image_windows import (
    WindowAxis,
    are_few,
    elements,
    padded_image,
    shares,
    widened,
    window_axes,
)
from fuser.integrations.fx.nodes import is_static

MOST_OF_16_BITS = 25
"""With strides, larger windows of volumes of 16-bit numbers are torch's: half of their time is
rounding."""

MOST_WINDOWS = 4
"""Where an element is in more of them on average, it is sooner added at the places there are."""

MOST_STRIDE = 2
"""Of such windows; of fewer, and of images whose channels are innermost, torch adds them sooner."""


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
    largest = padded_image(x, axes, -torch.inf)
    place = torch.zeros((), dtype=torch.int32, device=x.device).expand(largest.shape)
    step = 1
    for axis, begin in zip(reversed(axes), reversed(begins), strict=True):
        largest, place = _largest_along(axis, largest, place, begin, step)
        step *= axis.size
    return largest, _numbered(axes, begins) + place


def _largest_along(
    axis: WindowAxis, values: torch.Tensor, places: torch.Tensor, begin: torch.Tensor, step: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest values of windows that have one element along the dimensions behind, and how far
    behind the window's beginning they are: `step` from one element of this dimension to the next.
    """
    (largest, place), *others = zip(axis.elements(values), axis.elements(places), strict=True)
    step *= axis.dilation
    # A window chooses its first element in the image, until another one is larger.
    before = -begin if axis.dilation == 1 else -(begin // axis.dilation)
    inside = (torch.clamp(before, min=0) * step).to(torch.int32)
    place = place + axis.along(inside, values.dim())
    for number, (value, other) in enumerate(others, 1):
        beats = torch.logical_or(value > largest, torch.isnan(value))
        place = torch.where(beats, other + number * step, place)
        largest = torch.maximum(largest, value)
    return largest, place


def _axes(
    rank: int,
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> list[WindowAxis] | None:
    """The dimensions, where windows are small enough to be code."""
    axes = window_axes(rank, x, kernel, stride, padding, ceil_mode, dilation)
    return axes if axes is not None and x.is_floating_point() and _are_code(x, axes) else None


def _are_code(x: torch.Tensor, axes: Sequence[WindowAxis]) -> bool:
    """Whether windows are small enough to be code."""
    is_slow = x.dtype.itemsize == 2 and len(axes) == 3 and any(axis.stride > 1 for axis in axes)
    return are_few(axes) and not (is_slow and elements(axes) > MOST_OF_16_BITS)


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
    axes = window_axes(rank, x, kernel_size, stride, padding, ceil_mode, dilation)
    if axes is None or not x.is_floating_point():
        return NotImplemented
    are_many = elements(axes) > MOST_WINDOWS * math.prod(axis.stride for axis in axes)
    have_gaps = any(axis.dilation != 1 for axis in axes)
    if _are_code(x, axes) and not (are_many or have_gaps):
        own = _numbered(axes, [axis.place(x.device) for axis in axes])
        windows = _windows_of_elements(axes, indices, widened(grad))
        terms = (torch.where(chosen == own, value, 0) for chosen, value in windows)
        return functools.reduce(torch.add, terms).to(x.dtype)
    are_near = all(axis.stride <= MOST_STRIDE for axis in axes)
    if are_many and are_near and suggest_memory_format(x) == torch.contiguous_format:
        return _added_at_places(rank, widened(grad), x.shape, indices).to(x.dtype)
    return NotImplemented


def _added_at_places(
    rank: int, grad: torch.Tensor, shape: Sequence[int], places: torch.Tensor
) -> torch.Tensor:
    """An image of zeros, to which every window adds at the place that it chose."""
    image = grad.new_zeros([*shape[:-rank], math.prod(shape[-rank:])])
    return image.scatter_add(-1, places.flatten(-rank), grad.flatten(-rank)).view(shape)


def _windows_of_elements(
    axes: Sequence[WindowAxis], places: torch.Tensor, values: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """For all elements, what each of the windows that have them chose, and its number."""
    if not axes:
        yield places, values
        return
    axis, *others = axes
    pairs = zip(axis.of_elements(places, -1), axis.of_elements(values, 0), strict=True)
    for chosen, value in pairs:
        yield from _windows_of_elements(others, chosen, value)


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
