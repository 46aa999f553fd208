"""Pools of images as operations on elements, [..., height, width].

    values[y, x]    = the largest of padded[stride y + i, stride x + j], i and j below the kernel
    gradient[y, x]  = sum of grad[w] over the windows w that have [y, x], if its place is theirs

Elements of windows, and windows of elements, are slices (`image_windows.py`). So neither direction
reads an index, and both are fused with what is around. Means of large windows that lie side by side
are sums over a dimension of [..., windows, kernel], and an only window lies so; adaptive pools are
such where sizes divide. The largest element of a whole image is found as that of a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch._prims_common import suggest_memory_format
from torch.fx import Node

from fuser.integrations.fx_types import is_static, meta_of
from fuser.integrations.image_windows import (
    MOST_ELEMENTS,
    WindowAxis,
    few_elements,
    padded_image,
    pair,
    sum_over_windows,
    widened,
    window_axes,
    window_elements,
)

_aten: Any = torch.ops.aten


# -- averages ------------------------------------------------------------------------------------


def avg_pool2d(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> torch.Tensor:
    """Means of windows [..., height', width']."""
    axes = window_axes(x, kernel_size, stride, padding, ceil_mode)
    if axes is None or not _few_slid(axes) or not x.is_floating_point():
        return NotImplemented
    count = _elements(axes, x, divisor_override, count_include_pad)
    return (_sums(x, axes) / count).to(x.dtype)


def _few_slid(axes: Sequence[WindowAxis]) -> bool:
    return few_elements([axis for axis in axes if not axis.tiled])


def _sums(x: torch.Tensor, axes: Sequence[WindowAxis]) -> torch.Tensor:
    """Sums of windows, [..., height', width']."""
    padded = widened(padded_image(x, axes, 0))
    if not few_elements(axes):
        tiled = [axis for axis in axes if axis.tiled]
        for axis in reversed(tiled):
            padded = axis.tiles(padded)
        # A dimension comes one later for each before it that is two.
        padded = torch.sum(padded, [axis.dim + 1 + number for number, axis in enumerate(tiled)])
        axes = [axis.summed() if axis.tiled else axis for axis in axes]
    first, *others = (taken for _, taken in window_elements(padded, axes))
    return sum(others, first)


def avg_pool2d_backward(
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
    axes = window_axes(x, kernel_size, stride, padding, ceil_mode)
    if axes is None or not _few_slid(axes) or not x.is_floating_point():
        return NotImplemented
    share = widened(grad) / _elements(axes, x, divisor_override, count_include_pad)

    def term(backs: tuple[int, int]) -> torch.Tensor:
        value = share
        for axis, back in zip(axes, backs, strict=True):
            value = axis.of_elements(value, back, 0)
            inside = axis.in_window(back, x.device)
            if inside is not None:
                shape = [axis.size if dim == axis.dim else 1 for dim in range(x.dim())]
                value = torch.where(inside.view(shape), value, 0)
        return value

    return sum_over_windows(axes, term).to(x.dtype)


def _elements(
    axes: Sequence[WindowAxis], x: torch.Tensor, divisor: int | None, with_padding: bool
) -> int | torch.Tensor:
    """How many elements each window has, or what its sum is divided by instead."""
    if divisor is not None:
        return divisor
    if not any(axis.cut or (axis.padding and not with_padding) for axis in axes):
        return math.prod(axis.kernel for axis in axes)
    counts: list[torch.Tensor] = []
    for axis in axes:
        margin = axis.padding if with_padding else 0
        first = torch.arange(axis.windows, device=x.device) * axis.stride - axis.padding
        last = torch.clamp(first + axis.kernel, max=axis.size + margin)
        counts.append(last - torch.clamp(first, min=-margin))
    return counts[0].unsqueeze(1) * counts[1]


def adaptive_avg_pool2d(x: torch.Tensor, output_size: Sequence[int]) -> torch.Tensor:
    """Means of windows, so many of them, where they are of one size."""
    kernel = _share(x.shape[-2:], output_size)
    return NotImplemented if kernel is None else avg_pool2d(x, kernel)


def adaptive_avg_pool2d_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """What those windows share out to their elements."""
    kernel = _share(x.shape[-2:], grad.shape[-2:])
    if kernel is None:
        return NotImplemented
    return avg_pool2d_backward(grad, x, kernel, kernel, (0,), False, True, None)


def _share(sizes: Sequence[int], windows: Sequence[int]) -> list[int] | None:
    """Elements of each window along each dimension; None if some would have more than others."""
    if not all(type(number) is int and number > 0 for number in (*sizes, *windows)):
        return None
    parts = [divmod(size, count) for size, count in zip(sizes, windows, strict=True)]
    return None if any(rest for _, rest in parts) else [each for each, _ in parts]


# -- extremes ------------------------------------------------------------------------------------


def max_pool2d_with_indices(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest elements of windows [..., height', width'], and their places in the image."""
    axes = window_axes(x, kernel_size, stride, padding, ceil_mode)
    if (
        axes is None
        or not few_elements(axes)
        or pair(dilation) != (1, 1)
        or not x.is_floating_point()
    ):
        return NotImplemented
    _, columns = axes
    begins = [torch.arange(a.windows, device=x.device) * a.stride - a.padding for a in axes]
    first = _numbered(begins, columns.size)
    # A window chooses its first element in the image, until another one is larger.
    inside = [torch.clamp(begin, min=0) for begin in begins]
    chosen = (_numbered(inside, columns.size) - first).to(torch.int32)
    windows = window_elements(padded_image(x, axes, -torch.inf), axes)
    _, largest = next(windows)
    for (i, j), taken in windows:
        beats = torch.logical_or(taken > largest, torch.isnan(taken))
        place = torch.full((), i * columns.size + j, dtype=torch.int32, device=x.device)
        chosen = torch.where(beats, place, chosen)
        largest = torch.maximum(largest, taken)
    return largest, (first + chosen).expand(largest.shape)


def _numbered(places: Sequence[torch.Tensor], columns: int) -> torch.Tensor:
    """The numbers in the image of all pairs of a row and a column."""
    row, column = places
    return (row * columns).unsqueeze(1) + column


def max_pool2d_with_indices_backward(
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
    axes = window_axes(x, kernel_size, stride, padding, ceil_mode)
    if axes is None or not few_elements(axes) or pair(dilation) != (1, 1):
        return NotImplemented
    own = _numbered([axis.place(x.device) for axis in axes], axes[1].size)
    wide = widened(grad)

    def term(backs: tuple[int, int]) -> torch.Tensor:
        chosen, value = indices, wide
        for axis, back in zip(axes, backs, strict=True):
            chosen = axis.of_elements(chosen, back, -1)
            value = axis.of_elements(value, back, 0)
        return torch.where(chosen == own, value, 0)

    return sum_over_windows(axes, term).to(x.dtype)


_MOST_SHARED = 9
"""Of adaptive maxima's windows with 16 elements, training takes a tenth longer than torch's."""


def adaptive_max_pool2d(
    x: torch.Tensor, output_size: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest elements of so many windows, where they are of one size and small, or one."""
    kernel = _share(x.shape[-2:], output_size)
    if kernel is None or not x.is_floating_point():
        return NotImplemented
    if math.prod(kernel) <= _MOST_SHARED:
        return max_pool2d_with_indices(x, kernel)
    if tuple(output_size) != (1, 1):
        return NotImplemented
    image = x.flatten(-2)
    largest = torch.amax(image, -1, keepdim=True)
    # Of several that are no number, the last one.
    numbers = torch.arange(image.shape[-1], device=x.device)
    last = torch.amax(torch.where(torch.isnan(image), numbers, -1), -1, keepdim=True)
    place = torch.where(last >= 0, last, torch.argmax(image, -1, keepdim=True))
    # Of one element each, they may seem to lie in any order; torch's lie as the image.
    order = suggest_memory_format(x)
    largest, place = (made.unsqueeze(-1).clone(memory_format=order) for made in (largest, place))
    return largest, place


def adaptive_max_pool2d_backward(
    grad: torch.Tensor, x: torch.Tensor, indices: torch.Tensor
) -> torch.Tensor:
    """What the element that each of those windows chose gets."""
    kernel = _share(x.shape[-2:], grad.shape[-2:])
    if kernel is None:
        return NotImplemented
    if math.prod(kernel) <= _MOST_SHARED:
        how = kernel, kernel, (0,), (1,), False
        return max_pool2d_with_indices_backward(grad, x, *how, indices)
    if tuple(grad.shape[-2:]) != (1, 1):
        return NotImplemented
    numbers = torch.arange(math.prod(kernel), device=x.device).view(kernel)
    return torch.where(numbers == indices, grad, 0)


POOLS: dict[Any, Callable[..., Any]] = {
    _aten.avg_pool2d.default: avg_pool2d,
    _aten.avg_pool2d_backward.default: avg_pool2d_backward,
    _aten._adaptive_avg_pool2d.default: adaptive_avg_pool2d,
    _aten._adaptive_avg_pool2d_backward.default: adaptive_avg_pool2d_backward,
    _aten.adaptive_max_pool2d.default: adaptive_max_pool2d,
    _aten.adaptive_max_pool2d_backward.default: adaptive_max_pool2d_backward,
    _aten.max_pool2d_with_indices.default: max_pool2d_with_indices,
    _aten.max_pool2d_with_indices_backward.default: max_pool2d_with_indices_backward,
}
"""The decompositions."""

_OVERLAPPING = f"its windows overlap and have more than {MOST_ELEMENTS} elements"
_LARGE = f"its windows have gaps, or more than {MOST_ELEMENTS} elements"
_UNEQUAL = "its windows are not of one size, or there are none"
_NOT_FEW = f"its windows are not of one size, or are several of more than {_MOST_SHARED} elements"

_LEFT: dict[Any, tuple[int, str]] = {
    _aten.avg_pool2d.default: (0, _OVERLAPPING),
    _aten.avg_pool2d_backward.default: (1, _OVERLAPPING),
    _aten._adaptive_avg_pool2d.default: (0, _UNEQUAL),
    _aten._adaptive_avg_pool2d_backward.default: (1, _UNEQUAL),
    _aten.adaptive_max_pool2d.default: (0, _NOT_FEW),
    _aten.adaptive_max_pool2d_backward.default: (1, _NOT_FEW),
    _aten.max_pool2d_with_indices.default: (0, _LARGE),
    _aten.max_pool2d_with_indices_backward.default: (1, _LARGE),
}
"""Which argument is the image, and what windows are that tracing leaves."""


def refusal(node: Node) -> str | None:
    """Why tracing left a pool; None of other nodes."""
    if node.target not in _LEFT:
        return None
    position, windows = _LEFT[node.target]
    image = cast(torch.Tensor, meta_of(cast(Node, node.args[position])))
    if windows in (_UNEQUAL, _NOT_FEW) and not all(map(is_static, image.shape[-2:])):
        return "its image's size is not known before the call, nor that of its windows"
    return windows if image.is_floating_point() else "its image is of integers"
