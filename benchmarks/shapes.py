"""fuser beside eager torch at shapes that are small, odd, tall or wide, on the processor.

    python benchmarks/shapes.py [--only TEXT] [--rounds 21] [--no-save]

`cpu.py` measures sizes that models have; this looks for what falls behind elsewhere. A cell is the
time of the best way eager torch offers over fuser's: the median over alternating rounds, on two
pinned threads, everybody allocating as called, with freed memory kept so that nobody page-faults.
Results are checked against float64. Below 1, eager is faster; the cells below are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pinned

if __name__ == "__main__":
    pinned.restart()

from case import DTYPES, Case
from cases import KINDS
from checks import bound, check_ours, working
from float8_cases import BLOCKS, NVFP4
from movement_cases import SYMMETRIC
from ratios import Cell, print_ratios, ratio

SHAPES = (
    (64, 100),
    (512, 64),
    (300_000, 8),
    (20_000, 49),
    (4096, 197),
    (1000, 2001),
    (32, 4096),
    (8, 100_003),
)
HEAD = ("case", "dtype", *(f"{rows}x{columns}" for rows, columns in SHAPES))
PARTICULAR = (SYMMETRIC, BLOCKS, NVFP4)
"""Kinds that do not have every shape: one is square, one of rows of whole blocks."""

MOST_BYTES = 1 << 30
"""A gradient of all words is too large where words are wide: such cells are left out."""


def main(arguments: Sequence[str] | None = None) -> None:
    print_ratios(__doc__, "shapes-cpu", HEAD, _lines(), arguments, rounds=21)


def _lines() -> Iterator[tuple[list[str], Sequence[Cell]]]:
    for kind, sizes in KINDS:
        if len(sizes[0].shape) == 2 and kind not in PARTICULAR:
            for dtype, name in DTYPES.items():
                cases = [Case(kind, shape, dtype, "cpu") for shape in SHAPES]
                small = (case if sum(case.least_bytes()) <= MOST_BYTES else None for case in cases)
                yield [kind.name, name], [case and partial(measure, case) for case in small]


def measure(case: Case, rounds: int) -> float:
    """The best eager time over fuser's. Raises WrongResultError."""
    inputs, definition = case.inputs(), case.definition()
    exact = case.exact(inputs)
    if not case.kind.drawn:
        check_ours(case, definition.execute(inputs), exact)
    eager = {name: bound(peer, inputs) for name, peer in case.kind.eager.items()}
    kept, _, _ = working(eager, exact, drawn=case.kind.drawn)
    return ratio(bound(definition.execute, [inputs]), kept, rounds)


if __name__ == "__main__":
    main()
