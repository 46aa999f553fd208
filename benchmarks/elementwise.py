"""Functions of one number beside eager torch, on the processor.

    python benchmarks/elementwise.py [--only TEXT] [--rounds 11] [--no-save]

A cell is eager's time over fuser's: the median over alternating rounds, on two pinned threads,
everybody allocating as called, with freed memory kept so that nobody page-faults. `long` has 4
million elements, `short` 50,000, which stay in the second cache. Results are checked against
eager's in float64. Below 1, eager is faster; the cells below are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pinned

if __name__ == "__main__":
    pinned.restart()

import torch
from checks import WrongResultError, error
from ratios import Cell, print_ratios, ratio

from fuser import DataType, FusionDefinition

_ANY = (
    *("abs", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "neg"),
    *("relu", "round", "sigmoid", "silu", "sin", "sinh", "tan", "tanh"),
)
_POSITIVE = ("lgamma", "log", "log10", "log1p", "log2", "rsqrt", "sqrt")
_OF_UNIT = ("acos", "asin", "atanh", "erfinv")
FUNCTIONS = sorted((*_ANY, *_POSITIVE, *_OF_UNIT))

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f64": torch.float64}
TOLERANCES = {torch.bfloat16: 2.0**-7, torch.float32: 1e-5, torch.float64: 1e-13}
SIZES = {"long": 4_000_000, "short": 50_000}
HEAD = ("function", *(f"{dtype} {size}" for dtype in DTYPES for size in SIZES))


def main(arguments: Sequence[str] | None = None) -> None:
    print_ratios(__doc__, "elementwise-cpu", HEAD, _lines(), arguments, rounds=11)


def _lines() -> Iterator[tuple[list[str], Sequence[Cell]]]:
    pairs = [(dtype, size) for dtype in DTYPES.values() for size in SIZES.values()]
    for name in FUNCTIONS:
        yield [name], [partial(measure, name, dtype, size) for dtype, size in pairs]


def measure(name: str, dtype: torch.dtype, size: int, rounds: int) -> float:
    """Eager's time over fuser's. Raises WrongResultError."""
    x = draw(name, size).to(dtype)
    eager = _eager(name)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        wide = fd.ops.cast(given, DataType.Float) if dtype is torch.bfloat16 else given
        fd.add_output(fd.ops.cast(getattr(fd.ops, name)(wide), given.dtype()))
    found = error(fd.execute([x]), [eager(x.double())])
    if not found <= TOLERANCES[dtype]:
        raise WrongResultError(f"{name}, {dtype}: error {found:.1e}")
    return ratio(lambda: fd.execute([x]), {"eager": lambda: eager(x)}, rounds)


def draw(name: str, size: int) -> torch.Tensor:
    """Numbers that a function is defined for."""
    if name in _OF_UNIT:
        return torch.rand(size) * 1.9 - 0.95
    return torch.rand(size) + 0.1 if name in _POSITIVE else torch.randn(size)


def _eager(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return getattr(torch, name, None) or getattr(torch.nn.functional, name)


if __name__ == "__main__":
    main()
