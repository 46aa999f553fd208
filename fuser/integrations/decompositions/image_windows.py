"""Windows of images, [..., height, width] or [..., depth, height, width]: their elements, and the
windows of each element.

A window's elements along one dimension are slices of the padded image with steps, and what is made
of them is an image of fewer elements, for the next dimension: of 7 by 7 elements 14, not 49. An
element has few windows, and those that are the m-th before the last one to have it, for all
elements, are the results repeated and moved by m strides. The last window of a dimension may be cut
(`ceil_mode`): what it has of the image and its padding counts, and no more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuser.integrations.fx.nodes import is_static

_aten: Any = torch.ops.aten

MOST_ELEMENTS = 27
"""Windows of more are torch's where they overlap by strides of three or more: each element is code
of its own, and what dimensions have in common is little."""

MOST_ALONG = 32
"""Windows of more along all dimensions together are torch's where they overlap."""


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """One of the dimensions of an image, as windows go along it.

    Where tracing left `size` open, `windows` is so too, and nothing is asked that would decide it.
    """

    dim: int
    size: int
    kernel: int
    stride: int
    padding: int
    windows: int
    ceil_mode: bool
    dilation: int

    @property
    def is_open(self) -> bool:
        """Whether the size is known at the call only."""
        return not is_static(self.size)

    @property
    def behind(self) -> int:
        """Elements behind the last window's; below 0 where that reaches into the padding."""
        return self.size + self.padding - (self.windows - 1) * self.stride - self.span

    @property
    def span(self) -> int:
        """From a window's first element to its last."""
        return (self.kernel - 1) * self.dilation + 1

    def elements(self, padded: torch.Tensor) -> Iterator[torch.Tensor]:
        """The first, the second, ... element of every window, along this dimension."""
        reach = (self.windows - 1) * self.stride + 1
        for number in range(self.kernel):
            first = number * self.dilation
            yield _aten.slice.Tensor(padded, self.dim, first, first + reach, self.stride)

    def of_elements(self, results: torch.Tensor, fill: float) -> Iterator[torch.Tensor]:
        """For each element, the results of the windows that begin 0, 1, ... windows before the last
        one that begins at it or before; `fill` where there is none."""
        shape = list(results.shape)
        repeated = [*shape[: self.dim + 1], self.stride, *shape[self.dim + 1 :]]
        wide = results.unsqueeze(self.dim + 1).expand(repeated)
        shape[self.dim] *= self.stride
        wide = wide.clone(memory_format=torch.contiguous_format).view(shape)
        others = [0, 0] * (results.dim() - 1 - self.dim)
        for back in range(self.most_windows):
            before = back * self.stride - self.padding
            behind = self.size - before - shape[self.dim]
            if is_static(behind) and before == behind == 0:
                yield wide
            else:
                yield _aten.constant_pad_nd(wide, [*others, before, behind], fill)

    def along(self, numbers: torch.Tensor, rank: int) -> torch.Tensor:
        """One number for each place of this dimension, beside tensors of so many dimensions."""
        return numbers.view([-1 if dim == self.dim else 1 for dim in range(rank)])

    def place(self, device: torch.device) -> torch.Tensor:
        """The number of each element."""
        return torch.arange(self.size, device=device)

    def in_window(self, back: int, device: torch.device) -> torch.Tensor | None:
        """Whether that window has the element; None if it always does."""
        if self.kernel >= (back + 1) * self.stride:
            return None
        within = torch.remainder(self.place(device) + self.padding, self.stride)
        return within + back * self.stride < self.kernel

    @property
    def margin(self) -> int:
        """How far windows go behind the image, or the most they can, where it has any size."""
        if self.is_open:
            return self.padding + (self.stride - 1 if self.ceil_mode else 0)
        return max(-self.behind, 0)

    @property
    def cut(self) -> bool:
        """Whether the last window ends behind the padding; where the size is open, it may."""
        return self.ceil_mode and (self.is_open or self.behind < -self.padding)

    @property
    def tiled(self) -> bool:
        """Whether windows lie side by side."""
        return self.stride == self.kernel

    def tiles(self, padded: torch.Tensor) -> torch.Tensor:
        """The dimension as two: windows, and the elements of each."""
        used = _aten.slice.Tensor(padded, self.dim, 0, self.windows * self.kernel)
        return used.unflatten(self.dim, (self.windows, self.kernel))

    def summed(self) -> WindowAxis:
        """What is left of the dimension when windows were summed."""
        return replace(self, size=self.windows, kernel=1, stride=1, padding=0)

    @property
    def most_windows(self) -> int:
        """The most windows that have one element."""
        return -(-self.kernel // self.stride)


def window_axes(
    rank: int,
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    dilation: Sequence[int] = (1,),
) -> list[WindowAxis] | None:
    """The last `rank` dimensions; None where there are no windows."""
    dims = range(x.dim() - rank, x.dim())
    numbers = (of_each(rank, given) for given in (kernel, stride or kernel, padding, dilation))
    given = zip(dims, x.shape[-rank:], *numbers, strict=True)
    axes = [_axis(*each, ceil_mode=ceil_mode) for each in given]
    return axes if all(axis.windows > 0 for axis in axes) else None


def _axis(
    dim: int, size: int, kernel: int, stride: int, padding: int, dilation: int, *, ceil_mode: bool
) -> WindowAxis:
    """An only window has no more elements than there are, and is the last of its stride; what is
    the only one of some calls is as the others are."""
    strides = size + 2 * padding - (kernel - 1) * dilation - 1
    windows = (strides + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (windows - 1) * stride >= size + padding:
        windows -= 1  # it would begin in the padding behind
    if is_static(windows) and windows == 1 and dilation == 1:
        stride = kernel = min(kernel, size + 2 * padding)
    return WindowAxis(dim, size, kernel, stride, padding, windows, ceil_mode, dilation)


def shares(sizes: Sequence[int], windows: Sequence[int]) -> list[int] | None:
    """Elements of each window along each dimension; None if some would have more than others."""
    if not all(type(number) is int and number > 0 for number in (*sizes, *windows)):
        return None
    parts = [divmod(size, count) for size, count in zip(sizes, windows, strict=True)]
    return None if any(rest for _, rest in parts) else [each for each, _ in parts]


def elements(axes: Sequence[WindowAxis]) -> int:
    """How many a window has, along these dimensions."""
    return math.prod(axis.kernel for axis in axes)


def are_few(axes: Sequence[WindowAxis]) -> bool:
    """Whether the elements of a window are few enough to be code."""
    if any(axis.stride > 2 for axis in axes):
        return elements(axes) <= MOST_ELEMENTS
    return sum(axis.kernel for axis in axes) <= MOST_ALONG


def of_each(rank: int, given: int | Sequence[int]) -> tuple[int, ...]:
    """A number for each dimension, where one may be given for all."""
    numbers = (given,) if isinstance(given, int) else tuple(given)
    return numbers if len(numbers) == rank else numbers * rank


def padded_image(x: torch.Tensor, axes: Sequence[WindowAxis], fill: float) -> torch.Tensor:
    """An image as far as its windows go."""
    widths = [width for axis in reversed(axes) for width in (axis.padding, axis.margin)]
    return _aten.constant_pad_nd(x, widths, fill) if any(widths) else x


def widened(x: torch.Tensor) -> torch.Tensor:
    """What sums of 16-bit numbers are of."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
