"""Quotients and rests beside eager torch and torch.compile, on the processor.

    python benchmarks/divisions.py [--only TEXT] [--rounds 11] [--no-save]

A cell is the better peer's time over that of the same function compiled by fuser: the median over
alternating rounds, on two pinned threads, of 4 million elements, with freed memory kept so that
nobody page-faults. Results are checked against eager's. Below 1, a peer is faster; the cells below
are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pinned

if __name__ == "__main__":
    pinned.restart()

import torch
from checks import WrongResultError
from harness import OURS
from model_cases import compiled_by
from ratios import Cell, print_ratios, ratio

ELEMENTS = 4_000_000
DTYPES = {
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "f32": torch.float32,
    "f64": torch.float64,
}
FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "x // 2": lambda x, y: x // 2,
    "x // 3": lambda x, y: x // 3,
    "x // y": lambda x, y: x // y,
    "x % 3": lambda x, y: x % 3,
    "x % y": lambda x, y: x % y,
    "fmod(x, 3)": lambda x, y: x.fmod(3),
    "fmod(x, y)": torch.fmod,
}


def main(arguments: Sequence[str] | None = None) -> None:
    print_ratios(__doc__, "divisions-cpu", ("function", *DTYPES), _lines(), arguments, rounds=11)


def _lines() -> Iterator[tuple[list[str], Sequence[Cell]]]:
    for name in FUNCTIONS:
        yield [name], [partial(measure, name, dtype) for dtype in DTYPES.values()]


def measure(name: str, dtype: torch.dtype, rounds: int) -> float:
    """The better peer's time over fuser's. Raises WrongResultError."""
    function = FUNCTIONS[name]
    numbers = torch.randn(2, ELEMENTS, generator=torch.Generator().manual_seed(0)) * 5000
    x, y = numbers.to(dtype)
    y = y.abs() + 1
    torch.compiler.reset()
    compiled, peer = (compiled_by(backend, function) for backend in (OURS, "inductor"))
    found, expected = compiled(x, y), function(x, y)
    if not torch.equal(found, expected):
        raise WrongResultError(f"{name}, {dtype}: {int((found != expected).sum())} differ")
    peers = {"eager": lambda: function(x, y), "torch.compile": lambda: peer(x, y)}
    return ratio(lambda: compiled(x, y), peers, rounds)


if __name__ == "__main__":
    main()
