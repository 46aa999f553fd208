"""How long the passes and the segmenter take, and how that grows with the definition.

    python benchmarks/segmentation.py [--operations 500 1000 2000 5000 10000] [--rounds 5]
                                      [--profile 10000] [--results benchmarks/results] [--no-save]

The definitions are transformer blocks (`transformer.py`) of a real model's sizes; nothing is
computed, so sizes cost nothing. All lengths are measured in one process, each round one after the
other; figures are medians. The growth exponent is the slope of time over operations, both as
logarithms: 1 is linear, 2 is quadratic. `--profile` shows instead where the time of one length
goes, by function.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import itertools
import math
import pstats
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import RESULTS, Goal, description, goal_table, machine, save, table
from transformer import count_operations, transformer

from fuser.ir.concretize import concretize
from fuser.ir.strided import row_major
from fuser.passes import PASSES
from fuser.segmenter import AliasStep, ExternStep, Segment, SegmentedFusion, segment

LENGTHS = (500, 1000, 2000, 5000, 10_000)


@dataclass(frozen=True, slots=True)
class Timed:
    """One run: seconds of each pass, in order, and of the segmenter."""

    passes: tuple[float, ...]
    segmenter: float

    @property
    def total(self) -> float:
        return sum(self.passes) + self.segmenter


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians of one length, in seconds, and what the segmenter made of it."""

    operations: int
    passes: float
    segmenter: float
    total: float
    kernels: int
    externs: int
    aliases: int

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.operations / self.total


class Definition:
    """A definition as the pipeline has it before the passes."""

    def __init__(self, operations: int) -> None:
        defined = transformer(operations)
        self.operations = count_operations(defined)
        self.fusion = concretize(defined, {value: value.shape for value in defined.inputs}, {})
        self.memory = {value: row_major(value) for value in self.fusion.inputs}

    def run(self) -> tuple[Timed, SegmentedFusion]:
        """The passes and the segmenter, timed."""
        fusion = self.fusion
        gc.collect()
        marks = [time.perf_counter()]
        for rewrite in PASSES:
            fusion = rewrite(fusion)
            marks.append(time.perf_counter())
        segmented = segment(fusion, self.memory)
        marks.append(time.perf_counter())
        *passes, segmenter = (end - start for start, end in itertools.pairwise(marks))
        return Timed(tuple(passes), segmenter), segmented


def measure(definitions: Sequence[Definition], rounds: int) -> tuple[list[Measured], list[float]]:
    """The figures of each length, and the seconds of each pass at the last one."""
    times: dict[int, list[Timed]] = {definition.operations: [] for definition in definitions}
    made: dict[int, SegmentedFusion] = {}
    for _ in range(rounds):
        for definition in definitions:
            timed, made[definition.operations] = definition.run()
            times[definition.operations].append(timed)
    found = [_medians(operations, times[operations], made[operations]) for operations in times]
    columns = zip(*(timed.passes for timed in times[found[-1].operations]), strict=True)
    return found, [statistics.median(column) for column in columns]


def _medians(operations: int, runs: list[Timed], segmented: SegmentedFusion) -> Measured:
    kinds = [type(step) for step in segmented.steps]
    return Measured(
        operations=operations,
        passes=statistics.median(sum(run.passes) for run in runs),
        segmenter=statistics.median(run.segmenter for run in runs),
        total=statistics.median(run.total for run in runs),
        kernels=kinds.count(Segment),
        externs=kinds.count(ExternStep),
        aliases=kinds.count(AliasStep),
    )


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the line that fits the logarithms of (operations, seconds) best."""
    if len(points) < 2:
        return math.nan
    operations, seconds = ([math.log(x) for x in part] for part in zip(*points, strict=True))
    return statistics.linear_regression(operations, seconds).slope


def report(found: Sequence[Measured]) -> str:
    """A row a length; its exponent is the growth from the row before."""
    head = ["operations", "passes, ms", "segmenter, ms", "both, ms", "operations/s", "exponent"]
    points = [(m.operations, m.total) for m in found]
    steps = ["-", *(f"{exponent(pair):.2f}" for pair in itertools.pairwise(points))]
    rows = [
        [
            f"{m.operations:,}",
            *(f"{seconds * 1e3:.1f}" for seconds in (m.passes, m.segmenter, m.total)),
            f"{m.rate:,.0f}",
            step,
            *map(str, (m.kernels, m.externs, m.aliases)),
        ]
        for m, step in zip(found, steps, strict=True)
    ]
    return table([*head, "kernels", "torch calls", "aliases"], rows)


def growth(found: Sequence[Measured]) -> dict[str, float]:
    """The exponent over all lengths, of each part."""
    return {
        part: exponent([(m.operations, getattr(m, part)) for m in found])
        for part in ("passes", "segmenter", "total")
    }


def profile(definition: Definition, lines: int = 25) -> None:
    """Print the functions of the package that one run spends its time in."""
    profiler = cProfile.Profile()
    profiler.runcall(definition.run)
    stats = pstats.Stats(profiler).strip_dirs()
    stats.sort_stats("tottime").print_stats(lines)
    stats.sort_stats("cumulative").print_stats(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="the passes' and the segmenter's time")
    parser.add_argument("--operations", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", type=int, help="profile this length and measure nothing")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--no-save", action="store_true", help="print only")
    given = parser.parse_args()
    if given.profile is not None:
        profile(Definition(given.profile))
        return
    facts = machine()
    print(description(facts) + "\n", flush=True)
    found, passes = measure([Definition(n) for n in sorted(given.operations)], given.rounds)
    exponents = growth(found)
    longest = found[-1]
    names = [rewrite.__name__ for rewrite in PASSES]
    rows = [[name, f"{taken * 1e3:.1f}"] for name, taken in zip(names, passes, strict=True)]
    goals = [_limit("growth exponent of both", exponents["total"], 1.2)]
    parts = [
        description(facts),
        f"passes and segmenter, medians of {given.rounds}",
        report(found),
        "growth exponent: " + ", ".join(f"{part} {e:.2f}" for part, e in exponents.items()),
        table([f"passes at {longest.operations:,} operations", "ms"], rows),
        goal_table(goals),
    ]
    print("\n\n".join(parts[1:]))
    if not given.no_save:
        record = {"machine": facts, "lengths": found, "exponents": exponents, "goals": goals}
        save(given.results, f"segmentation-{facts['date']}", "\n\n".join(parts) + "\n", record)


def _limit(words: str, measured: float, most: float) -> Goal:
    return Goal(words, f"< {most:g}", f"{measured:.2f}", measured < most)


if __name__ == "__main__":
    main()
