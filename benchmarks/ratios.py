"""Tables of the best eager way's time over fuser's, by scripts that look for what falls behind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from buffers import keep_freed
from harness import OURS, Call, alternate, at_least, machine, options, report

LEAST_SECONDS = 2e-4
"""Short calls are repeated for as long within a round."""

Cell = Callable[[int], float] | None
"""Measures a ratio in so many rounds; None where there is nothing to measure."""


def ratio(ours: Call, eager: Mapping[str, Call], rounds: int) -> float:
    """The best eager time over ours."""
    measured = alternate(at_least(LEAST_SECONDS, {OURS: ours, **eager}), rounds)
    return min(measured[name].ratio for name in eager)


def print_ratios(
    document: str | None,
    stem: str,
    head: Sequence[str],
    lines: Iterable[tuple[Sequence[str], Iterable[Cell]]],
    arguments: Sequence[str] | None,
    rounds: int,
) -> None:
    """Measure and print `lines`, each with its first columns and its cells, as the command line
    asks for. `document` is the script's; `rounds` if nothing else is asked for."""
    parser = options(document, rounds)
    parser.add_argument("--only", default="", help="lines whose name has this text; not saved")
    given = parser.parse_args(arguments)
    keep_freed()
    rows: list[Sequence[str]] = []
    ratios: list[float] = []
    for first, cells in lines:
        if given.only in first[0]:
            found = [cell and cell(given.rounds) for cell in cells]
            rows.append([*first, *("-" if each is None else f"{each:.2f}" for each in found)])
            ratios += [each for each in found if each is not None]
            print(*rows[-1], file=sys.stderr, flush=True)
    foot = f"\n{sum(each < 1 for each in ratios)} of {len(ratios)} are below 1\n"
    keep = not (given.no_save or given.only)
    report(stem, machine(), head, rows, foot=foot, keep=keep)
