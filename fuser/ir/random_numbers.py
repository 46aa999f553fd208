"""What random numbers are: a pure function of a seed, an offset and an element's number.

    uniform     float32, 16 bits    24 bits of word i % 4 of block i / 4, times 2^-24
                float64             53 bits of words 2 (i % 2) and the next of block i / 2
    normal      float32, 16 bits    by Box and Muller from words 0 and 1, or 2 and 3, of block i / 4
                float64             the same from all words of block i / 2

A block is Philox's four words (`philox.py`). Numbers of [0, 1) and of the standard normal
distribution are scaled in float64, where a product of two float32 numbers is exact: so it does not
matter whether a compiler contracts it with the sum. Uniform numbers that rounding takes to the end
of their range are the largest number of their type below it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from fuser.errors import GeneratorError
from fuser.ir.dtypes import DataType
from fuser.ir.operations import Random
from fuser.ir.philox import Words, blocks
from fuser.locks import forkable_lock

COST = {"uniform": 20, "normal": 45}
"""Instructions for a number of a block that is used up."""

State = tuple[int, int]
"""A seed and an offset."""

_GENERATOR = forkable_lock()

_RECORD: ContextVar[list[State] | None] = ContextVar("_RECORD", default=None)


@contextmanager
def recorded_states() -> Generator[list[State]]:
    """What `draw_state` gives to this thread in the block, in order."""
    states: list[State] = []
    token = _RECORD.set(states)
    try:
        yield states
    finally:
        _RECORD.reset(token)


def draw_state(device: torch.device) -> State:
    """A seed and an offset from torch's default generator of a device, which is advanced.

    On CUDA, the offset counts blocks of four words that torch's own kernels do not use then.
    Raises GeneratorError while a CUDA graph is captured.
    """
    state, record = _drawn(device), _RECORD.get()
    if record is not None:
        record.append(state)
    return state


@functools.cache
def _seed() -> torch.Tensor:
    """Where torch draws one into: a new tensor takes longer than the number."""
    with torch.inference_mode(False):
        return torch.empty((), dtype=torch.int64, device="cpu")


def _drawn(device: torch.device) -> State:
    if device.type != "cuda":
        with _GENERATOR:
            return int(_seed().random_().item()), 0
    generator = torch.cuda.default_generators[device.index or 0]
    with _GENERATOR:
        if torch.cuda.is_current_stream_capturing():
            raise GeneratorError
        offset = generator.get_offset()
        generator.set_offset(offset + 4)
    seed = generator.initial_seed()
    return seed - (seed >> 63 << 64), offset // 4


def random_numbers(
    op: Random,
    shape: Sequence[int],
    parameters: tuple[float, float],
    state: State,
    device: torch.device,
) -> torch.Tensor:
    """The numbers of `op`."""
    unit = _units(op, math.prod(shape), state, device).reshape(list(shape))
    compute, (first, second) = op.dtype.compute.torch, parameters
    factor = second - first if op.distribution == "uniform" else second
    scaled = (
        first
        + unit.double() * torch.tensor(factor, dtype=torch.float64, device="cpu").to(compute).item()
    )
    result = scaled.to(compute).to(op.dtype.torch)
    if op.distribution == "normal":
        return result
    ends = torch.tensor(parameters, dtype=torch.float64, device=device)
    low, high = ends.to(compute).to(op.dtype.torch)
    largest = torch.nextafter(high, high.new_full((), -math.inf))
    return torch.maximum(torch.minimum(result, largest), low)


def _units(op: Random, elements: int, state: State, device: torch.device) -> torch.Tensor:
    """Numbers of [0, 1), or standard normal ones, as float32 or float64."""
    make, together = _MAKERS[op.distribution, op.dtype is DataType.Double]
    words = blocks(*state, -(-elements // together), device)
    return torch.stack(make(words), dim=1).flatten()[:elements]


def _uniform_float(words: Words) -> list[torch.Tensor]:
    return [(word >> 8).float() * 2.0**-24 for word in words]


def _uniform_double(words: Words) -> list[torch.Tensor]:
    x, y, z, w = words
    return [_53_bits(x, y).double() * 2.0**-53, _53_bits(z, w).double() * 2.0**-53]


def _normal_float(words: Words) -> list[torch.Tensor]:
    """Computed in float64, but for what decides on the angle and on the radius."""
    numbers: list[torch.Tensor] = []
    for first, second in (words[:2], words[2:]):
        unit = (first >> 1).float() * 2.0**-31 + 2.0**-32
        rest = second & 0x3FFFFFFF
        nearest = rest >> 29
        turned = (((rest << 2) - (nearest << 32)).float() * 2.0**-32).double()
        numbers += _box_muller(unit.double(), turned, (second >> 30) + nearest)
    return [number.float() for number in numbers]


def _normal_double(words: Words) -> list[torch.Tensor]:
    x, y, z, w = words
    unit = (_53_bits(x, y) + 1).double() * 2.0**-53
    rest = ((z << 32) | w) << 2  # in two's complement: the nearest quarter turn is subtracted
    return _box_muller(unit, rest.double() * 2.0**-64, (z >> 30) + (rest < 0).long())


def _53_bits(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    return (high << 21) | (low >> 11)


def _box_muller(
    unit: torch.Tensor, turned: torch.Tensor, quarters: torch.Tensor
) -> list[torch.Tensor]:
    """Two normal numbers by a number of (0, 1] and an angle: `quarters` and, of one more,
    the part `turned`, from -1/2 to 1/2."""
    radius, angle = (-2 * unit.log()).sqrt(), turned * (math.pi / 2)
    return [radius * _cosine(angle, quarters), radius * _cosine(angle, quarters + 3)]


def _cosine(angle: torch.Tensor, quarters: torch.Tensor) -> torch.Tensor:
    """The cosine of an angle and some quarter turns."""
    value = torch.where((quarters & 1) == 1, angle.sin(), angle.cos())
    return torch.where(((quarters + 1) & 2) == 2, -value, value)


_MAKERS = {
    ("uniform", False): (_uniform_float, 4),
    ("uniform", True): (_uniform_double, 2),
    ("normal", False): (_normal_float, 4),
    ("normal", True): (_normal_double, 2),
}
