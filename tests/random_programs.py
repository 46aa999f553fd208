"""Random programs of torch's functions, as text: for `torch.compile` beside eager.

    def program(a, b, c):
        t0 = a.transpose(0, 1)
        t1 = torch.where(t0 > b, t0, 0.5)
        t1[1:].mul_(2)
        return t0, t1

A program is drawn line by line from patterns. A line that eager refuses, or that makes what is too
large or not finite, is left out: so patterns need not know which operands fit.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from tests.program_patterns import STATEMENTS, VALUES

Inputs = Sequence[torch.Tensor]
Values = Mapping[str, torch.Tensor]

LINES = (3, 6, 10, 14, 20, 28)
TRIES = 12
"""How many lines are drawn for each that is wanted."""
STATEMENT = 0.2
"""How often a line changes a value, rather than making one."""
MOST_ELEMENTS = 1 << 15
MOST_DIMENSIONS = 6
LARGEST = 1e4
"""Of what is larger than this, or not finite, nothing more is computed."""

SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64, 130)
RANKS = (1, 2, 2, 3, 3, 4, 4)
FLOATS = (*[torch.float32] * 4, torch.float64, torch.bfloat16, torch.float16)
BYTES = (torch.uint8, torch.int8)
OTHERS = (torch.int64, torch.int64, torch.int32, torch.int16, *BYTES, torch.bool, torch.complex64)
NUMBERS = (0.5, -1.25, 2, 0.0, 1.5, -1, 3)

_REFUSED = (
    *(RuntimeError, IndexError, TypeError, ValueError, AttributeError, AssertionError),
    *(NotImplementedError, NameError),
)
"""What eager raises, also of a program of which lines were left out."""


@dataclass(frozen=True)
class Program:
    """A program's lines, the names of what they return, and what it is called with; `trained`:
    gradients of the floats among that are asked for."""

    lines: tuple[str, ...]
    returned: tuple[str, ...]
    inputs: tuple[torch.Tensor, ...]
    trained: bool

    @property
    def names(self) -> list[str]:
        """Those of the inputs."""
        return [chr(ord("a") + number) for number in range(len(self.inputs))]

    @property
    def text(self) -> str:
        """The function."""
        body = "".join(f"    {line}\n" for line in self.lines)
        returned = "".join(f"{name}, " for name in self.returned).rstrip()
        return f"def program({', '.join(self.names)}):\n{body}    return {returned}\n"

    def function(self) -> Callable[..., tuple[torch.Tensor, ...]]:
        """What the text defines."""
        space: dict[str, Any] = {"torch": torch, "F": F}
        exec(compile(self.text, "<program>", "exec"), space)
        return space["program"]

    def values(self) -> Values | None:
        """Every value after the last line; None if eager refuses one, or one is not tame."""
        given = fresh(self.inputs, trained=self.trained)
        space: dict[str, Any] = {"torch": torch, "F": F}
        space |= dict(zip(self.names, given, strict=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                for line in self.lines:
                    exec(line, space)
            except _REFUSED:
                return None
        found = {name: value for name, value in space.items() if isinstance(value, torch.Tensor)}
        return found if all(map(_is_tame, found.values())) else None


def _is_tame(value: torch.Tensor) -> bool:
    if not 0 < value.numel() <= MOST_ELEMENTS:
        return False
    floats = widest(value.detach())
    finite = bool(torch.isfinite(floats).all()) and float(floats.abs().max()) < LARGEST
    return finite and value.dim() <= MOST_DIMENSIONS


def widest(value: torch.Tensor) -> torch.Tensor:
    """In a type that holds the numbers of all others."""
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


def fresh(inputs: Inputs, *, trained: bool) -> list[torch.Tensor]:
    """The inputs again, laid as they are."""
    made: list[torch.Tensor] = []
    for given in inputs:
        copy = torch.empty_strided(given.shape, given.stride(), dtype=given.dtype).copy_(given)
        made.append(copy.requires_grad_(trained and given.is_floating_point()))
    return made


# -- drawing -------------------------------------------------------------------------------------


def program_of(seed: int) -> Program:
    """The random program of a seed."""
    choose = random.Random(seed)
    sizes = [choose.choice(SIZES) for _ in range(choose.choice(RANKS))]
    shapes = [sizes]
    for _ in range(choose.choice([0, 1, 2])):
        some = [choose.choice([n, n, n, 1]) for n in sizes[choose.randrange(len(sizes)) :]]
        shapes.append(choose.choice([sizes, sizes, some]))
    inputs = tuple(_input(choose, shape) for shape in shapes)
    drawing = _Drawing(choose, Program((), (), inputs, choose.random() < 0.6))
    wanted = choose.choice(LINES)
    for _ in range(TRIES * wanted):
        drawing.add()
        if len(drawing.program.lines) == wanted:
            break
    names = drawing.program.names
    made = [name for name in drawing.values if name not in names] or names
    others = choose.choices(made, k=choose.choice([0, 1, 2]))
    return replace(drawing.program, returned=tuple(dict.fromkeys([made[-1], *others])))


def _input(choose: random.Random, shape: Sequence[int]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(choose.randrange(1 << 30))
    dtype = choose.choice(FLOATS if choose.random() < 0.8 else OTHERS)
    order = list(range(len(shape)))
    if choose.random() < 0.25:
        choose.shuffle(order)
    laid = [shape[dim] for dim in order]
    if dtype.is_floating_point:
        made = torch.randn(laid, generator=generator)
    elif dtype.is_complex:  # 0 among them
        real, imaginary = torch.randint(-2, 3, [2, *laid], generator=generator) / 2
        made = torch.complex(real, imaginary)
    elif dtype == torch.bool:
        made = torch.randint(0, 2, laid, generator=generator)
    else:  # squares of bytes wrap around, and are tame
        low, high = (-60, 60) if dtype in BYTES else (-9, 10)
        low = 0 if dtype == torch.uint8 else low
        made = torch.randint(low, high, laid, generator=generator)
    return made.to(dtype).permute([order.index(dim) for dim in range(len(shape))])


@dataclass
class _Drawing:
    random: random.Random
    program: Program
    values: Values = field(default_factory=dict[str, torch.Tensor])

    def __post_init__(self) -> None:
        self.values = self.program.values() or {}

    def add(self) -> None:
        """Draw another line, unless eager does not compute it."""
        changes = self.random.random() < STATEMENT
        line = Line(self.random, self.values).drawn(
            self.random.choice(STATEMENTS if changes else VALUES)
        )
        if line is None:
            return
        number = len(self.program.lines)
        lines = (*self.program.lines, line if changes else f"t{number} = {line}")
        program = replace(self.program, lines=lines)
        values = program.values()
        if values is not None:
            self.program, self.values = program, values


_KINDS: Mapping[str, Callable[[torch.Tensor], bool]] = {
    "f": lambda x: x.is_floating_point(),
    "x": lambda _: True,
    "s": lambda _: True,
    "i": lambda x: x.dtype in OTHERS and x.dtype not in (torch.bool, torch.complex64),
    "b": lambda x: x.dtype == torch.bool,
    "w": lambda x: x.is_complex(),
}
_SLICES = (":", "::2", "1:", ":-1", "...", "None", "0", "1", "-1", "-2:", "-3:", "::3", "1::2")
_SLICES += ("0:3", "1:4", "2:6")


@dataclass
class Line:
    """What a pattern's letters stand for in one line."""

    random: random.Random
    values: Values
    first: str | None = None
    dim: int = 0
    places: str = ""

    def drawn(self, pattern: str) -> str | None:
        """The pattern with operands; None if there is none of a kind."""
        count = self.random.choice([1, 2, 3, 5, 8])
        self.places = repr([self.random.randrange(17) for _ in range(count)])
        try:
            return re.sub(r"\{(\w)\}", lambda match: self._operand(match[1]), pattern)
        except LookupError:
            return None

    def _operand(self, kind: str) -> str:
        choose = self.random.choice
        if kind in _KINDS:
            return self._tensor(kind)
        if kind in "zl":
            return self.first or "" if kind == "z" else self.places
        if kind in "cukt":
            numbers = {"c": NUMBERS, "u": (1, 2, 2, 3, 4), "k": (0, 0, 1, 1, -1, -2, 2, 3)}
            return repr(choose(numbers.get(kind, (torch.float32, torch.float64, *OTHERS))))
        return self._of_sizes(kind)

    def _tensor(self, kind: str) -> str:
        names = [name for name, value in self.values.items() if _KINDS[kind](value)]
        if kind == "s" and self.first and self.random.random() < 0.7:
            like = self.values[self.first].shape
            names = [name for name in names if self.values[name].shape == like] or names
        name = self.random.choice(names[-4:] if self.random.random() < 0.6 else names)
        self.first = self.first or name
        return name

    def _of_sizes(self, kind: str) -> str:
        """What depends on the sizes of the first tensor."""
        choose = self.random
        sizes = self.values[self.first].shape if self.first else torch.Size([3])
        dims = list(range(len(sizes)))
        if kind == "d":
            self.dim = choose.randrange(max(len(sizes), 1))
            return repr(self.dim - choose.choice([0, 0, max(len(sizes), 1)]))
        if kind == "n":
            return repr(sizes[self.dim])
        if kind == "v":
            return repr(self._view(sizes.numel()))
        if kind == "e":
            wide = [choose.choice([1, 2, 3]) if n == 1 else choose.choice([n, -1]) for n in sizes]
            return repr(tuple([2] * choose.choice([0, 0, 1]) + wide))
        if kind == "m":
            count = choose.randrange(1, 1 + max(1, min(len(sizes), 3)))
            return ", ".join(choose.choice(_SLICES) for _ in range(count))
        choose.shuffle(dims)
        return repr(tuple(dims if kind == "p" else dims[: choose.randrange(1, 4)]))

    def _view(self, count: int) -> tuple[int, ...]:
        """Sizes of so many elements."""
        sizes: list[int] = []
        while count > 1 and self.random.random() < 0.7:
            fitting = [n for n in range(2, count + 1) if count % n == 0]
            sizes.append(self.random.choice(fitting[:6]))
            count //= sizes[-1]
        sizes.append(self.random.choice([count, -1]))
        self.random.shuffle(sizes)
        return tuple(sizes)
