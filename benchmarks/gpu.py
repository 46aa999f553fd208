"""fuser beside eager torch, torch.compile, Liger and a copy, on the GPU, with a cold cache.

    python benchmarks/gpu.py [--only TEXT] [--budget 300] [--rounds 15] [--no-save]

A row is a case of `cases.py`. `gpu_steps.py` says in which order they are measured: fuser and a
copy of all cases first, then the peers, those of long rows first, until the budget of seconds is
used up. What there was no time for is listed. All of it is done by a process that this one starts,
and starts anew where a kernel breaks the device, or never ends (`restarts.py`). After each case the
files of results are written anew. Columns are those of `cpu.py`, with one regime: torch's allocator
keeps what is freed, so that nobody pays for memory. The read beside cases that write little is
torch's sum of a float tensor. Liger's cross entropy asks the GPU for a number before it launches,
so what the host takes after that is in its time.

Every call takes the next of several copies of the inputs, and its results are kept until that copy
comes round again, so that a call finds nothing of its own in the cache: together they are at least
240 MB, and an H200's second-level cache holds 60. A round queues one call for each copy behind a
kernel that waits, so that the host's work is done before the first of them runs (`Waits`), and
takes the time between an event before the first and one after the last. Rounds alternate; medians.
What the host takes is the time until a round is queued.

`--dry-run` needs no GPU: every case at a small size through the emulator, timed by the wall clock.
Its times mean nothing; it shows that cases, checks and table hold together.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from case import Case
from cases import by_importance, cases, small
from gpu_log import Log
from gpu_steps import DRY, GPU, Found, Place, carry_out, steps
from harness import RESULTS, Goal, Measured, description, machine, save, write
from host_time import Execute
from liger import HAS_LIGER
from picture import draw
from report import (
    GPU_COLUMNS,
    Row,
    goal_lines,
    note_lines,
    row_table,
    short_table,
)
from restarts import supervised

from fuser.runtime.cuda.driver import device_arch

COMPILERS = 8
"""Kernels that are compiled at a time."""


@dataclass(frozen=True, slots=True)
class Options:
    rounds: int
    budget: float
    results: Path
    stem: str
    only: str
    dry_run: bool
    no_save: bool
    progress: Path | None = None

    @property
    def is_kept(self) -> bool:
        return not (self.no_save or self.only or self.dry_run)


def options() -> Options:
    parser = argparse.ArgumentParser(description="fuser beside its peers, on the GPU")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float, default=300, help="seconds for all cases")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--stem", default=f"gpu-{time.strftime('%Y-%m-%d')}", help="of file names")
    parser.add_argument("--only", default="", help="cases whose name contains this; not saved")
    parser.add_argument("--dry-run", action="store_true", help="small sizes, without a GPU")
    parser.add_argument("--no-save", action="store_true", help="print only")
    parser.add_argument("--progress", type=Path, help=argparse.SUPPRESS)  # of the process at work
    return Options(**vars(parser.parse_args()))


def wanted(given: Options) -> list[Case]:
    """Cases in the table's order; in a dry run, which has one size, each kind once."""
    found = [case for case in cases("cuda") if given.only in str(case)]
    if not given.dry_run:
        return found
    return list({str(each): each for each in (small(case, DRY.device) for case in found)}.values())


# -- the report ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found until now: `missing` are the cases that each step had no time for, and
    `unfinished` says what is being done, if anything is."""

    place: Place
    facts: Mapping[str, str]
    execute: Execute | None
    rows: Sequence[Row]
    details: Mapping[str, Mapping[str, Measured]]
    missing: Mapping[str, Sequence[str]]
    unfinished: str = ""

    def text(self) -> str:
        host = "" if self.execute is None else _execute_line(self.execute)
        parts = [description(self.facts), row_table(self.rows, GPU_COLUMNS), host]
        parts.append(note_lines(self.rows))
        parts.append(self._left_out())
        parts.append("" if HAS_LIGER else "Liger is not installed")
        parts.append("" if self.place.is_dry else goal_lines(self.goals))
        return "\n\n".join(filter(None, parts)) + "\n"

    def short(self) -> str:
        """The table alone, with few columns."""
        counts = [f"{step}: {len(names)} cases" for step, names in self.missing.items() if names]
        parts = [short_table(self.rows), self._cut_off()]
        parts.append("" if self.place.is_dry else goal_lines(self.goals).partition("\n")[0])
        parts.append(f"no time for {'; '.join(counts)}" if counts else "")
        return "\n\n".join(filter(None, parts)) + "\n"

    def record(self) -> dict[str, object]:
        return {
            "machine": self.facts,
            "execute": self.execute,
            "rows": self.rows,
            "details": self.details,
            "goals": self.goals,
            "not measured": self.missing,
            "unfinished": self.unfinished,
        }

    @property
    def goals(self) -> list[Goal]:
        host = [] if self.execute is None else self.execute.goals()
        return [*(goal for row in self.rows for goal in row.goals), *host]

    def _left_out(self) -> str:
        missed = [(step, names) for step, names in self.missing.items() if names]
        lines = [f"no time for {step}: {', '.join(names)}" for step, names in missed]
        return "\n".join(filter(None, [self._cut_off(), *lines]))

    def _cut_off(self) -> str:
        return f"cut off at: {self.unfinished}" if self.unfinished else ""


def _execute_line(execute: Execute) -> str:
    return (
        f"execute, warm: {execute.call * 1e6:.2f} us with 3 inputs and 1 output, "
        f"{execute.segment * 1e6:.2f} us for each further segment"
    )


def facts_of(place: Place) -> dict[str, str]:
    if place.is_dry:
        return machine() | {"dry run": "small sizes, emulated: these times mean nothing"}
    return machine() | {"gpu": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}


def compile_ahead(found: Sequence[Case], arch: str, log: Log) -> None:
    """Compile the kernels of all cases, many at a time; what fails is said when it is needed."""

    def compile_case(case: Case) -> None:
        with contextlib.suppress(Exception):
            for kernel in case.definition().plan(case.meta_inputs(), target=f"cuda:{arch}").kernels:
                kernel.compile()

    with ThreadPoolExecutor(COMPILERS) as pool:
        for case, _ in zip(found, pool.map(compile_case, found), strict=True):
            log.begin("compiled ahead", str(case))


def measure_all(given: Options, place: Place, keep: Callable[[Report], None]) -> Report:
    """Every step for every case, as far as there is time; `keep` is handed what was found so far,
    after each case."""
    end = time.monotonic() + given.budget
    facts, log = facts_of(place), Log.of(given.progress)
    if not place.is_dry:
        compile_ahead(wanted(given), device_arch(0), log)
    execute = None if place.is_dry else log.execute(given.rounds)
    found = {str(case): log.known(Found(case)) for case in wanted(given)}
    order = [str(case) for case in by_importance([each.case for each in found.values()])]
    missing: dict[str, list[str]] = {}
    rows = {name: each.row(place) for name, each in found.items() if each.done}

    def left() -> float:
        return end - time.monotonic()

    def so_far(unfinished: str = "") -> Report:
        ordered = [rows[name] for name in found if name in rows]
        details = {name: each.measured for name, each in found.items()}
        return Report(place, facts, execute, ordered, details, missing, unfinished)

    for step in steps(place, given.rounds):

        def note(each: Found, step: str = step.name) -> None:
            row = rows[str(each.case)] = each.row(place)
            print(f"{given.budget - left():.0f} s, {step}: {line(row)}", flush=True)
            keep(so_far(f"{step}, after {each.case}"))
            log.done(each)

        missing[step.name] = carry_out(log.begun(step), found, order, left, note)
    return so_far()


def line(row: Row) -> str:
    """A row as it is measured."""
    figures = [f"{row.seconds * 1e6:.1f} us", f"{row.of_copy:.2f} of copy"]
    figures += [f"{ratio:.2f} x {peer}" for peer, ratio in row.ratios.items()]
    return f"{row.case} {row.dtype}: {row.failure or ', '.join(figures)}"


def keep_files(given: Options, report: Report) -> None:
    """Write what was found until now, if it is to be kept."""
    if given.is_kept:
        save(given.results, given.stem, report.text(), report.record(), quiet=True)
        write(given.results / f"{given.stem}-short.txt", report.short())


def main() -> int:
    given = options()
    place = DRY if given.dry_run else GPU
    if not place.is_dry and not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py needs a CUDA device, and torch sees none")
    if not place.is_dry and given.progress is None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "progress"
            again = [sys.executable, __file__, *sys.argv[1:], "--progress", str(path), "--budget"]
            return supervised(lambda left: [*again, f"{left:.1f}"], path, given.budget)
    report = measure_all(given, place, lambda found: keep_files(given, found))
    keep_files(given, report)
    print("\n" + report.text())
    if given.is_kept:
        print(f"written: {given.results / given.stem}.txt, .json, -short.txt")
        draw(given.results / f"{given.stem}.json")
    return 1 if any(row.failure for row in report.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
