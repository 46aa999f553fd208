"""fuser beside eager torch at shapes that are small, odd, tall or wide, on the processor.

    python benchmarks/shapes.py [--only TEXT] [--rounds 21] [--no-save]

`cpu.py` measures sizes that models have; this looks for what falls behind elsewhere. A cell is the
time of the best way eager torch offers over fuser's: the median over alternating rounds, on two
pinned threads, everybody allocating as called, with freed memory kept so that nobody page-faults.
Results are checked against float64. Below 1, eager is faster; the cells below are counted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pinned

if __name__ == "__main__":
    pinned.restart()

from buffers import keep_freed
from case import DTYPES, Case
from cases import KINDS
from checks import bound, check_ours, working
from float8_cases import BLOCKS
from harness import OURS, Call, alternate, at_least, machine, options, report
from movement_cases import SYMMETRIC

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
PARTICULAR = (SYMMETRIC, BLOCKS)
"""Kinds that do not have every shape: one is square, one of rows of whole blocks."""

MOST_BYTES = 1 << 30
"""A gradient of all words is too large where words are wide: such cells are left out."""

LEAST_SECONDS = 2e-4
"""Short calls are repeated for as long within a round."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__, rounds=21)
    parser.add_argument("--only", default="", help="kinds whose name contains this; not saved")
    given = parser.parse_args(arguments)
    keep_freed()
    rows: list[Sequence[str]] = []
    below = 0
    for kind, sizes in KINDS:
        is_of_rows = len(sizes[0].shape) == 2 and kind not in PARTICULAR
        if not is_of_rows or given.only not in kind.name:
            continue
        for dtype, name in DTYPES.items():
            cases = (Case(kind, shape, dtype, "cpu") for shape in SHAPES)
            small = (case if sum(case.least_bytes()) <= MOST_BYTES else None for case in cases)
            ratios = [measure(case, given.rounds) if case else None for case in small]
            below += sum(ratio is not None and ratio < 1 for ratio in ratios)
            cells = ("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
            rows.append([kind.name, name, *cells])
            print(*rows[-1], file=sys.stderr, flush=True)
    foot = f"\n{below} of {len(rows) * len(SHAPES)} are below 1\n"
    keep = not (given.no_save or given.only)
    report("shapes-cpu", machine(), HEAD, rows, foot=foot, keep=keep)


def measure(case: Case, rounds: int) -> float:
    """The best eager time over fuser's. Raises WrongResultError."""
    inputs, definition = case.inputs(), case.definition()
    exact = case.exact(inputs)
    if not case.kind.drawn:
        check_ours(case, definition.execute(inputs), exact)
    eager = {name: bound(peer, inputs) for name, peer in case.kind.eager.items()}
    kept, _, _ = working(eager, exact, drawn=case.kind.drawn)
    calls: dict[str, Call] = {OURS: bound(definition.execute, [inputs]), **kept}
    measured = alternate(at_least(LEAST_SECONDS, calls), rounds)
    return min(measured[name].ratio for name in kept)


if __name__ == "__main__":
    main()
