"""Lines that are interpolated, one dimension of an image after the other: what is traced of them.

    y[i] = sum of w(place(i) - j) x[j] over j      linear: w(d) = max(0, 1 - |d|)
    x'[j] = sum of w(place(i) - j) y'[i] over i    those that read j, which neighbour each other

As many readers are taken of all elements, and those that are too many have no weight. So nothing is
added in memory, as where every element of the result adds to what it has read, and both dimensions
of an image may be one kernel. That is done where lines become up to 8 times as long, or shorter by
no whole number: by one, they are slices.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import torch

from fuser.integrations.decompositions.line_readers import Readers, readers_of

_aten: Any = torch.ops.aten

_CUBIC_A = -0.75
"""The free coefficient of the cubic convolution, as torch has it."""
_NONE = 1e-9
"""Up to this, a weight is none."""
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}

_Numbers = TypeVar("_Numbers", float, torch.Tensor)


def resized(x: torch.Tensor, lines: Sequence[Line]) -> torch.Tensor:
    """`x` [batch, channels, ...] with other sizes; what has 16 bits is computed in float32.

    Channels that are last in memory are the last dimension of what is interpolated.
    """
    last = _LAST.get(x.dim(), torch.contiguous_format)
    is_last = x.is_contiguous(memory_format=last) and not x.is_contiguous()
    layout = last if is_last else torch.contiguous_format
    if not any(line.changes for line in lines):
        return x.clone(memory_format=layout)
    made = x.to(torch.promote_types(x.dtype, torch.float32))
    made = made.movedim(1, -1) if is_last else made
    for line in lines:
        if line.changes:
            own = replace(line, dim=line.dim - 1) if is_last else line
            readers = own.readers()
            made = own.read(made) if readers is None else _summed(made, own, readers)
    made = made.movedim(-1, 1) if is_last else made
    return made.to(x.dtype).contiguous(memory_format=layout)


def _summed(x: torch.Tensor, line: Line, readers: Readers) -> torch.Tensor:
    return cast("torch.Tensor", _Summed.apply(x, line, readers))  # pyright: ignore[reportUnknownMemberType]


class _Summed(torch.autograd.Function):
    """A line that is interpolated, with a gradient that sums what has read each element."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, line: Line, readers: Readers) -> torch.Tensor:
        ctx.line, ctx.readers = line, readers
        return line.read(x)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = grad_outputs
        line: Line = ctx.line
        readers: Readers = ctx.readers
        elements = torch.arange(line.size, device=gradient.device)
        first = readers.first(elements)
        total: torch.Tensor | None = None
        for number in range(readers.count):
            reader = first + number
            term = line.share(line.taken(gradient, reader), reader, elements, readers)
            total = term if total is None else total + term
        assert total is not None
        return total, None, None


@dataclass(frozen=True, slots=True)
class Line:
    """One dimension of an image: `size` becomes `resized`, whose neighbours lie `step` elements of
    the image apart."""

    dim: int
    size: int
    resized: int
    step: float

    @property
    def changes(self) -> bool:
        return self.size != self.resized or self.step != 1

    def read(self, x: torch.Tensor) -> torch.Tensor:
        """What is read of `x`, `resized` elements along the dimension."""
        raise NotImplementedError

    def readers(self) -> Readers | None:
        """Who reads each element, if its gradient is to be their sum."""
        return None

    def share(
        self, read: torch.Tensor, reader: torch.Tensor, elements: torch.Tensor, readers: Readers
    ) -> torch.Tensor:
        """What `elements` have of the gradients that were `read`, of one `reader` each."""
        raise NotImplementedError

    def taken(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """The elements of `x` at `places` along the dimension."""
        return _aten._unsafe_index(x, [*[None] * self.dim, places])

    def along(self, factors: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Numbers along the dimension, as a factor of `x`."""
        return factors.reshape(-1, *[1] * (x.dim() - 1 - self.dim))

    def numbers(self, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """The numbers of the elements of the result."""
        return torch.arange(self.resized, device=x.device).to(dtype)


@dataclass(frozen=True, slots=True)
class Nearest(Line):
    """Each element is the nearest one, rounded down from where it begins, or from its `middle`.
    As in torch, that is computed in float32."""

    middle: bool

    def read(self, x: torch.Tensor) -> torch.Tensor:
        return self.taken(x, self._places(self.numbers(x, torch.float32)))

    def readers(self) -> Readers | None:
        if self.step == int(self.step):
            return None
        step, last = _rounded(self.step), self.size - 1
        at = [min(int(_rounded((i + self._past) * step)), last) for i in range(self.resized)]
        spans = [(bisect_left(at, j), bisect_right(at, j)) for j in range(self.size)]
        # Those of an element begin where rounding up does.
        return readers_of(spans, self.resized, self.step, 0.0, 1 - self._past - 2**-24)

    def share(
        self, read: torch.Tensor, reader: torch.Tensor, elements: torch.Tensor, readers: Readers
    ) -> torch.Tensor:
        if readers.are_all:
            return read
        is_read = self._places(reader.to(torch.float32)) == elements
        return torch.where(self.along(is_read, read), read, 0)

    @property
    def _past(self) -> float:
        return 0.5 if self.middle else 0.0

    def _places(self, numbers: torch.Tensor) -> torch.Tensor:
        shifted = numbers + self._past if self.middle else numbers
        return (shifted * _rounded(self.step)).to(torch.int64).clamp(max=self.size - 1)


def _rounded(number: float) -> float:
    """The nearest float32."""
    return struct.unpack("f", struct.pack("f", number))[0]


@dataclass(frozen=True, slots=True)
class _Between(Line):
    """Elements lie between others; with `align_corners` the first and the last ones of both lines
    coincide."""

    align_corners: bool

    def place(self, number: _Numbers) -> _Numbers:
        """Where an element of the result lies in the image, by its number, or each of several."""
        return self.step * number if self.align_corners else self.step * (number + 0.5) - 0.5

    def near(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """The elements at `places`, the nearest where these are out of range."""
        return self.taken(x, places.clamp(0, self.size - 1))

    def past(self, at: torch.Tensor, lower: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """How far elements lie past their lower neighbours in `x`."""
        return self.along((at - lower).clamp(0.0, 1.0), x)


@dataclass(frozen=True, slots=True)
class Linear(_Between):
    def read(self, x: torch.Tensor) -> torch.Tensor:
        at = self.place(self.numbers(x, x.dtype)).clamp(min=0.0)
        lower = at.to(torch.int64)
        one, other = (self.near(x, lower + step) for step in (0, 1))
        return one + (other - one) * self.past(at, lower, x)

    def readers(self) -> Readers | None:
        if self.step == int(self.step):
            return None
        last = self.size - 1.0
        at = [min(max(self.place(number), 0.0), last) for number in range(self.resized)]
        spans = [
            (bisect_right(at, element - 1 + _NONE), bisect_left(at, element + 1 - _NONE))
            for element in range(self.size)
        ]
        lead = 1.0 if self.align_corners else 0.5
        return readers_of(spans, self.resized, self.step, lead, lead)

    def share(
        self, read: torch.Tensor, reader: torch.Tensor, elements: torch.Tensor, readers: Readers
    ) -> torch.Tensor:
        del readers
        at = self.place(reader.to(read.dtype)).clamp(0.0, self.size - 1.0)
        weight = self.along(1.0 - (at - elements).abs(), read)
        return torch.where(weight > 0.0, read * weight, 0.0)


@dataclass(frozen=True, slots=True)
class Cubic(_Between):
    """By the convolution of Keys (1981) with four neighbours."""

    def read(self, x: torch.Tensor) -> torch.Tensor:
        at = self.place(self.numbers(x, x.dtype))
        lower = at.floor().to(torch.int64)
        past = self.past(at, lower, x)
        weights = _far(past + 1), _near(past), _near(1 - past), _far(2 - past)
        first, *others = (
            self.near(x, lower + step) * weight
            for step, weight in zip((-1, 0, 1, 2), weights, strict=True)
        )
        for other in others:
            first = first + other
        return first


def _near(x: torch.Tensor) -> torch.Tensor:
    """The weight of a neighbour at a distance of up to 1."""
    return ((_CUBIC_A + 2) * x - (_CUBIC_A + 3)) * x * x + 1


def _far(x: torch.Tensor) -> torch.Tensor:
    """The weight of a neighbour at a distance from 1 to 2."""
    return ((_CUBIC_A * x - 5 * _CUBIC_A) * x + 8 * _CUBIC_A) * x - 4 * _CUBIC_A
