"""What a random definition is drawn with: facts about numbers, the writer, input tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle

T = TypeVar("T")
Step = Callable[[FusionDefinition, list[Handle]], Handle]
FLOATS = (DataType.Float, DataType.Double, DataType.Half, DataType.BFloat16)
INTEGERS = (DataType.Int, DataType.Int32)
DTYPES = (*FLOATS, *INTEGERS, DataType.Bool)

MAX_RANK = 4
MAX_INEXACT = 64.0
MAX_SCALED = 2.0**23
"""No exact number, taken in units of its last fraction bit, is larger: it fits float32."""


@dataclass(frozen=True)
class Scale:
    """How large tensors are: the sizes of dimensions, the most elements of a tensor and of an
    index, and how many elements an index has that is as long as one likes."""

    sizes: tuple[int, ...]
    max_elements: int
    max_count: int
    counts: tuple[int, ...]


SMALL = Scale((0, 1, 1, 2, 3, 4, 6, 8), 4096, 64, (1, 2, 3, 4, 5, 6))
LARGE = Scale(
    (
        *(1, 2, 3, 4, 7, 8, 12, 16, 31, 32, 64, 65, 96, 100, 127, 128, 256, 384, 511, 768),
        *(1000, 1023, 1024, 2048, 3072, 4096, 4099, 8192, 20_000, 30_522, 65_536, 100_003),
    ),
    *(1 << 18, 1 << 14, (1, 2, 3, 6, 33, 128, 1000)),
)


@dataclass(frozen=True)
class Known:
    """What is known of a value's numbers: |x| <= bound; multiples of 2**-bits, or inexact (None).

    A leaf is rounded from inexact numbers to 16 bits: two implementations may differ in the last
    bit, so nothing is computed from it.
    """

    bound: float
    bits: int | None
    leaf: bool = False

    @property
    def exact(self) -> bool:
        return self.bits is not None


def known(bound: float, bits: int | None) -> Known | None:
    """The facts of a result, or None where it grows too large to be compared."""
    if bits is not None and bound * 2.0**bits <= MAX_SCALED:
        return Known(bound, bits)
    return Known(bound, None) if bound <= MAX_INEXACT else None


class Writer:
    """A definition as it is drawn, with static sizes, so that every shape is known."""

    def __init__(
        self,
        draw: st.DrawFn,
        fd: FusionDefinition,
        dtypes: Sequence[DataType],
        inputs: list[torch.Tensor | float],
        scale: Scale = SMALL,
    ) -> None:
        self.draw = draw
        self.fd = fd
        self.dtypes = tuple(dtypes)
        self.scale = scale
        self.inputs = inputs
        """What the definition is executed with; a step that declares an input adds to it."""
        self.steps: list[Step] = []
        self.handles: list[Handle] = []
        self.facts: list[Known] = []

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(list(options)))

    def add(self, step: Step, facts: Known | None) -> None:
        """Append a step unless its numbers grow too large."""
        if facts is None:
            return
        self.handles.append(step(self.fd, self.handles))
        self.facts.append(facts)
        self.steps.append(step)

    def operand(self, accepts: Callable[[Handle, Known], bool]) -> int | None:
        """The position of a value that may be computed with and that `accepts` likes."""
        positions = [
            position
            for position, (handle, facts) in enumerate(zip(self.handles, self.facts, strict=True))
            if not facts.leaf and accepts(handle, facts)
        ]
        if not positions or self.draw(st.booleans()):
            return positions[-1] if positions else None
        return self.draw(st.sampled_from(positions))

    def shape(self, position: int) -> tuple[int, ...]:
        return self.handles[position].value.shape

    def dtype(self, position: int) -> DataType:
        return self.handles[position].dtype()


@st.composite
def shapes(draw: st.DrawFn, scale: Scale = SMALL) -> list[int]:
    """Up to MAX_RANK sizes of a scale."""
    shape: list[int] = []
    room = scale.max_elements
    for _ in range(draw(st.integers(0, MAX_RANK))):
        shape.append(draw(st.sampled_from([size for size in scale.sizes if size <= room])))
        room //= max(shape[-1], 1)
    return draw(st.permutations(shape))


@st.composite
def broadcast_with(draw: st.DrawFn, shape: Sequence[int]) -> list[int]:
    """Sizes that broadcast with `shape`: some of its first are left out, some others are 1."""
    kept = shape[draw(st.integers(0, len(shape))) :] if draw(st.booleans()) else shape
    one = draw(st.sampled_from([None, *range(len(kept))]))
    return [1 if dim == one else size for dim, size in enumerate(kept)]


@st.composite
def tensors(
    draw: st.DrawFn,
    dtypes: Sequence[DataType] = DTYPES,
    sizes: st.SearchStrategy[list[int]] | None = None,
) -> torch.Tensor:
    """A tensor of small exact numbers: contiguous, permuted, strided, expanded, or part of a larger
    one, which begins between vectors."""
    dtype = draw(st.sampled_from(list(dtypes)))
    shape = list(draw(shapes() if sizes is None else sizes))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    layout = draw(st.sampled_from(["contiguous", "permuted", "strided", "expanded", "part"]))
    if layout == "strided" and shape:
        shape[-1] *= 2
    if layout == "part" and shape:
        shape[-1] += 1
    numbers = torch.randint(-8, 9, shape, generator=generator)
    tensor = (numbers if dtype.is_integral else numbers / 4).to(dtype.torch)
    if layout == "strided" and shape:
        return tensor[..., ::2]
    if layout == "part" and shape:
        return tensor[..., 1:]
    if layout == "permuted":
        return tensor.permute(draw(st.permutations(range(tensor.dim()))))
    if layout == "expanded" and 1 in shape:
        return tensor.expand([3 if size == 1 else size for size in shape])
    return tensor


def facts_of(dtype: DataType) -> Known:
    if dtype is DataType.Bool:
        return Known(1, 0)
    return Known(8, 0) if dtype.is_integral else Known(2, 2)
