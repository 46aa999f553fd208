"""Lines that are interpolated, one dimension of an image after the other: what is traced of them.

    y[i] = sum of hat(place(i) - j) x[j] over j      hat(d) = max(0, 1 - |d|)
    x'[j] = sum of hat(place(i) - j) y'[i] over i    those that read j, which neighbour each other

As many readers are taken of all elements, those that are too many with a weight of 0. So nothing is
added in memory, as where every element of the result adds to what it has read, and both dimensions
of an image may be one kernel. That is done where lines become up to 8 times as long, or shorter by
no whole number: by one, they are slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch.nn import functional

from fuser.integrations.line_readers import Readers, Resize, readers_of

_aten: Any = torch.ops.aten

_CUBIC_A = -0.75
"""The free coefficient of the cubic convolution, as torch has it."""


def resized(x: torch.Tensor, mode: str, resizes: Sequence[Resize]) -> torch.Tensor:
    """`x` [batch, channels, ...] with other sizes; what has 16 bits is computed in float32.

    Channels that are last in memory are the last dimension of what is interpolated.
    """
    along = _cubic if mode == "bicubic" else _linear_or_summed
    is_last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    is_last &= not x.is_contiguous()
    made = x.to(torch.promote_types(x.dtype, torch.float32))
    made = made.permute(0, 2, 3, 1) if is_last else made
    for resize in resizes:
        if resize.changes:
            made = along(made, replace(resize, dim=resize.dim - 1) if is_last else resize)
    made = made.permute(0, 3, 1, 2) if is_last else made
    layout = torch.channels_last if is_last else torch.contiguous_format
    return made.to(x.dtype).contiguous(memory_format=layout)


def nearest_line(*operands: Any, **options: Any) -> torch.Tensor:
    return functional.interpolate(*operands, **options).contiguous()


def _linear_or_summed(x: torch.Tensor, resize: Resize) -> torch.Tensor:
    readers = readers_of(resize)
    if readers is None:
        return _linear(x, resize)
    return cast("torch.Tensor", _Linear.apply(x, resize, readers))  # pyright: ignore[reportUnknownMemberType]


class _Linear(torch.autograd.Function):
    """A line that is interpolated, with a gradient that sums what has read each element."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, resize: Resize, readers: Readers) -> torch.Tensor:
        ctx.resize, ctx.readers = resize, readers
        return _linear(x, resize)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = grad_outputs
        return _summed(gradient, ctx.resize, ctx.readers), None, None


def _summed(gradient: torch.Tensor, resize: Resize, readers: Readers) -> torch.Tensor:
    """The gradient of a line of that of what it became: along `resize.dim`, `size` for `resized`
    elements."""
    elements = torch.arange(resize.size, device=gradient.device)
    first = readers.first(elements, resize.resized)
    total: torch.Tensor | None = None
    for number in range(readers.count):
        reader = first + number
        at = resize.place(reader.to(gradient.dtype)).clamp(0.0, resize.size - 1.0)
        weight = (1.0 - (at - elements).abs()).clamp(min=0.0)
        read = _aten._unsafe_index(gradient, [*[None] * resize.dim, reader])
        term = read * resize.along(weight, gradient.dim())
        total = term if total is None else total + term
    assert total is not None
    return total


def _linear(x: torch.Tensor, resize: Resize) -> torch.Tensor:
    at = _places(x, resize).clamp(min=0.0)
    lower = at.to(torch.int64)
    one, other = (_taken(x, resize, lower + step) for step in (0, 1))
    return one + (other - one) * _past(at, lower, x, resize)


def _cubic(x: torch.Tensor, resize: Resize) -> torch.Tensor:
    """By the convolution of Keys (1981) with four neighbours."""
    at = _places(x, resize)
    lower = at.floor().to(torch.int64)
    past = _past(at, lower, x, resize)
    weights = _far(past + 1), _near(past), _near(1 - past), _far(2 - past)
    first, *others = (
        _taken(x, resize, lower + step) * weight
        for step, weight in zip((-1, 0, 1, 2), weights, strict=True)
    )
    for other in others:
        first = first + other
    return first


def _places(x: torch.Tensor, resize: Resize) -> torch.Tensor:
    """[resized]: where each element of the result lies in `x`."""
    return resize.place(torch.arange(resize.resized, device=x.device).to(x.dtype))


def _past(at: torch.Tensor, lower: torch.Tensor, x: torch.Tensor, resize: Resize) -> torch.Tensor:
    """How far elements lie past their lower neighbours in `x`."""
    return resize.along((at - lower).clamp(0.0, 1.0), x.dim())


def _near(x: torch.Tensor) -> torch.Tensor:
    """The weight of a neighbour at a distance of up to 1."""
    return ((_CUBIC_A + 2) * x - (_CUBIC_A + 3)) * x * x + 1


def _far(x: torch.Tensor) -> torch.Tensor:
    """The weight of a neighbour at a distance from 1 to 2."""
    return ((_CUBIC_A * x - 5 * _CUBIC_A) * x + 8 * _CUBIC_A) * x - 4 * _CUBIC_A


def _taken(x: torch.Tensor, resize: Resize, places: torch.Tensor) -> torch.Tensor:
    """The elements at `places` along a dimension, the nearest where these are out of range."""
    places = places.clamp(0, resize.size - 1)
    return _aten._unsafe_index(x, [*[None] * resize.dim, places])
