"""Alternating rounds, medians of ratios, and a description of the machine."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
OURS = "fuser"
FEWEST_ROUNDS = 5

Call = Callable[[], object]
Clock = Callable[[Call], float]


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians over the rounds. `ratio` is this candidate's time over fuser's, round by round."""

    seconds: float
    ratio: float
    faults: int = 0


@dataclass(frozen=True, slots=True)
class Goal:
    """What was asked for and what was measured, in words a table can hold; `copied` is what would
    have been measured of a copy of the same bytes, if that is known, and `copy_meets` whether it
    would have met the goal."""

    words: str
    wanted: str
    measured: str
    met: bool
    copied: str = ""
    copy_meets: bool = True


def wall_clock(call: Call) -> float:
    """Seconds of one call, its result dropped within them."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def again(call: Call, before: int = 1) -> float:
    """Seconds of a call right after so many of it: it finds in the caches what they left there.

    Otherwise it would find what some other candidate left, and results in the memory that this one
    has freed just now are written faster than those in memory of one's own, such as a pool's.
    """
    for _ in range(before):
        call()
    return wall_clock(call)


def alternate(
    candidates: Mapping[str, Call],
    rounds: int,
    clock: Clock = wall_clock,
    warm_up: int = 3,
    most_seconds: float = math.inf,
) -> dict[str, Measured]:
    """Measure all candidates in every round, in another order each (`balanced_orders`).

    After `most_seconds` there are no more rounds than `FEWEST_ROUNDS`.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    faults: dict[str, list[int]] = {name: [] for name in candidates}
    orders = balanced_orders(list(candidates))
    started = time.monotonic()
    for number in range(warm_up + rounds):
        if number >= warm_up + FEWEST_ROUNDS and time.monotonic() - started > most_seconds:
            break
        for name in orders[number % len(orders)]:
            before = _page_faults()
            taken = clock(candidates[name])
            if number >= warm_up:
                faults[name].append(_page_faults() - before)
                times[name].append(taken)
    return {
        name: Measured(
            statistics.median(taken),
            statistics.median(their / our for their, our in zip(taken, times[OURS], strict=True)),
            int(statistics.median(faults[name])),
        )
        for name, taken in times.items()
    }


def balanced_orders(names: Sequence[str]) -> list[list[str]]:
    """Orders in which each name comes right after each other one equally often: a candidate finds
    in the caches what the one before it has left there.

    Source: Williams, Experimental designs balanced for the estimation of residual effects of
    treatments, 1949.
    """
    count = len(names)
    zigzag = [-(place // 2) if place % 2 == 0 else place // 2 + 1 for place in range(count)]
    orders = [[names[(step + start) % count] for step in zigzag] for start in range(count)]
    if count % 2 == 0:
        return orders
    return [turned for order in orders for turned in (order, order[::-1])]


def at_least(seconds: float, candidates: Mapping[str, Call]) -> dict[str, Call]:
    """Candidates called as often within a round as fuser takes so many seconds for."""
    start = time.perf_counter()
    candidates[OURS]()
    repeats = 1 + int(seconds / (time.perf_counter() - start))

    def repeated(call: Call) -> Call:
        def several() -> None:
            for _ in range(repeats):
                call()

        return several

    return {name: repeated(call) for name, call in candidates.items()}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def limit(words: str, measured: float, most: float, unit: str) -> Goal:
    """A goal for a cost."""
    return Goal(words, f"< {most:g} {unit}", f"{measured:.3g} {unit}", measured < most)


def goal_table(goals: Sequence[Goal]) -> str:
    """Each goal, and whether it was met."""
    rows = [[g.words, g.wanted, g.measured, "met" if g.met else "NOT MET"] for g in goals]
    return table(["goal", "wanted", "measured", ""], rows)


def machine() -> dict[str, str]:
    """What the figures depend on."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": _output("git", "rev-parse", "--short", "HEAD") + _changed(),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "load before": f"{os.getloadavg()[0]:.2f}",
        "threads": f"{torch.get_num_threads()}, OMP_PROC_BIND={os.environ.get('OMP_PROC_BIND')}",
        "compiler": _output(os.environ.get("CXX", "g++"), "--version").partition("\n")[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def description(facts: Mapping[str, str]) -> str:
    return "\n".join(f"{name + ':':<13}{fact}" for name, fact in facts.items())


def save(
    directory: Path, stem: str, text: str, record: Mapping[str, object], *, quiet: bool = False
) -> None:
    """Write `<stem>.txt` and `<stem>.json`."""
    write(directory / f"{stem}.txt", text)
    write(directory / f"{stem}.json", json.dumps(record, indent=1, default=asdict) + "\n")
    if not quiet:
        print(f"written: {directory / stem}.txt, .json")


def write(path: Path, text: str) -> None:
    """Write a file, and its folder; whoever is cut off meanwhile leaves the one that was there."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """As `write`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def options(document: str | None, rounds: int | None) -> argparse.ArgumentParser:
    """What scripts that print a table are told: `rounds` if nothing else is asked for, unless what
    they measure is there once only, and whether to keep it. `document` is the script's."""
    parser = argparse.ArgumentParser(description=(document or "").partition("\n\n")[0])
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--no-save", action="store_true", help="print only")
    return parser


def report(
    stem: str,
    facts: Mapping[str, str],
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    foot: str = "",
    keep: bool,
) -> None:
    """Print a table with facts of the machine above it, and `keep` it in a file of their date.

    Ends the script where no case has the name that was asked for.
    """
    if not rows:
        sys.exit("nothing has this name")
    text = f"{description(facts)}\n\n{table(head, rows)}\n{foot}"
    print(text)
    if keep:
        record = {"machine": facts, "head": head, "rows": rows}
        save(RESULTS, f"{stem}-{facts['date']}", text, record)


def _page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def _changed() -> str:
    code = (".", ":!benchmarks/results")
    changes = _output("git", "status", "--porcelain", "--untracked-files=no", "--", *code)
    return " with local changes" if changes != "unknown" else ""


def _processor() -> str:
    lines = _output("lscpu").splitlines()
    wanted = ("Model name:", "CPU family:", "Model:", "L3 cache:")
    found = [" ".join(line.split()) for line in lines if line.strip().startswith(wanted)]
    return ", ".join(found) or platform.processor()
