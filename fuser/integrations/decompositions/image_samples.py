"""Images sampled at the places that a grid says, [batch, height, width, 2], as by `grid_sample`.

bilinear    x[y, x] (1 - down) (1 - right) + ..., the sum over the four neighbours of a place
nearest     x[round(y), round(x)]

A place is one for all channels of an image, and so are its neighbours and their weights. What a
place reads outside of the image is 0, or where the place is moved into it first.

Gradients are torch's: each place adds to its neighbours, of which scatters make four sums, one
after the other. With both gradients they took 1.1 to 1.8 times as long as torch's loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_aten: Any = torch.ops.aten

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2
"""ATen's numbers."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """One of the two dimensions of an image, and where places lie along it, [batch, places]."""

    size: int
    place: torch.Tensor

    @classmethod
    def of(cls, numbers: torch.Tensor, size: int, padding: int, *, align_corners: bool) -> _Axis:
        """-1 and 1 are the middles of the first and the last element, or their outer edges."""
        place = (numbers + 1) * ((size - 1) / 2 if align_corners else size / 2)
        place = place if align_corners else place - 0.5
        if padding == _REFLECTION:
            place = _reflected(place, size, align_corners=align_corners)
        if padding != _ZEROS:
            # What is no number is at the first element.
            place = torch.clamp(torch.where(place > 0, place, 0), max=size - 1)
        return cls(size, place)

    def element(self, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The elements at whole places, and whether there are such."""
        inside = torch.logical_and(at >= 0, at < self.size)
        return torch.clamp(at.to(torch.int64), 0, self.size - 1), inside


def _reflected(place: torch.Tensor, size: int, *, align_corners: bool) -> torch.Tensor:
    """Places that come back from the first and last elements, or their outer edges."""
    edge, span = (0.0, size - 1) if align_corners else (0.5, size)
    if span == 0:
        return torch.zeros_like(place)
    there_and_back = 2 * span
    far = torch.abs(place + edge)
    rest = far - torch.trunc(far / there_and_back) * there_and_back
    return torch.minimum(rest, there_and_back - rest) - edge


def grid_sampler_2d(
    x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool
) -> torch.Tensor:
    """[batch, channels, height', width'] of an image [batch, channels, height, width]."""
    known = mode in (_BILINEAR, _NEAREST) and padding in (_ZEROS, _BORDER, _REFLECTION)
    if not known or x.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    numbers, sizes = grid.flatten(1, 2).unbind(-1), (x.shape[3], x.shape[2])
    columns, rows = (
        _Axis.of(each, size, padding, align_corners=align_corners)
        for each, size in zip(numbers, sizes, strict=True)
    )
    image, axes = x.flatten(2), (rows, columns)
    if mode == _NEAREST:
        sampled = _read(image, axes, [axis.place.round() for axis in axes])
    else:
        first, *others = _weighted_neighbours(image, axes)
        sampled = sum(others, first)
    return sampled.view([*x.shape[:2], *grid.shape[1:3]])


def _weighted_neighbours(image: torch.Tensor, axes: Sequence[_Axis]) -> Iterator[torch.Tensor]:
    """What places [batch, channels, places] are the sums of."""
    lower = [axis.place.floor() for axis in axes]
    past = [axis.place - low for axis, low in zip(axes, lower, strict=True)]
    for steps in itertools.product((0, 1), repeat=2):
        down, right = (part if step else 1 - part for part, step in zip(past, steps, strict=True))
        at = [low + step for low, step in zip(lower, steps, strict=True)]
        yield _read(image, axes, at) * (down * right).unsqueeze(1)


def _read(
    image: torch.Tensor, axes: Sequence[_Axis], places: Sequence[torch.Tensor]
) -> torch.Tensor:
    """[batch, channels, places] of an image [batch, channels, elements], at whole places."""
    (row, below), (column, beside) = (
        axis.element(at) for axis, at in zip(axes, places, strict=True)
    )
    number = (row * axes[1].size + column).unsqueeze(1)
    read = torch.gather(image, 2, number.expand(-1, image.shape[1], -1))
    return torch.where(torch.logical_and(below, beside).unsqueeze(1), read, 0)
