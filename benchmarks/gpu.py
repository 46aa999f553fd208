"""fuser beside eager torch, torch.compile, Liger and a copy, on the GPU, with a cold cache.

    python benchmarks/gpu.py [--only TEXT] [--budget 270] [--rounds 15] [--no-save]

A row is a case of `cases.py`, most important first until the budget of seconds is used up. Columns
are those of `cpu.py`, with one regime: torch's allocator keeps what is freed, so that nobody pays
for memory. torch.compile runs in its mode max-autotune-no-cudagraphs. The read beside cases that
write little is torch's sum of a float tensor. Liger's cross entropy asks the GPU for a number
before it launches, so what the host takes after that is in its time.

Every call takes the next of several copies of the inputs, and its results are kept until that copy
comes round again, so that a call finds nothing of its own in the cache: together they are at least
240 MB, and an H200's second-level cache holds 60. A round queues one call for each copy behind a
kernel that waits, so that the host's work is done before the first of them runs, and takes the
time between an event before the first and one after the last. Rounds alternate; medians.

`--dry-run` needs no GPU: every case at a small size through the emulator, timed by the wall clock.
Its times mean nothing; it shows that cases, checks and table hold together.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from case import Case, Peer
from cases import by_importance, cases, small
from checks import bound, check_ours, working
from harness import (
    OURS,
    RESULTS,
    Call,
    Clock,
    Goal,
    Measured,
    alternate,
    description,
    machine,
    save,
    wall_clock,
)
from host_time import host_seconds, measure_execute
from liger import HAS_LIGER
from picture import draw
from report import (
    COMPILED,
    COPY,
    EAGER,
    GPU_COLUMNS,
    LIGER,
    Row,
    failed,
    goal_lines,
    gpu_goals,
    note_lines,
    ratios,
    row_table,
)
from rotation import Rotation, writes_over
from torch_calls import compiled, forget_compiled

COLD_BYTES = 240 << 20
MOST_COPIES = 32
MODE = "max-autotune-no-cudagraphs"


@dataclass(frozen=True, slots=True)
class Place:
    """Where cases run: a GPU, or for a dry run the emulator."""

    device: str
    target: str | None
    compiled: bool

    @property
    def is_dry(self) -> bool:
        return self.device == "cpu"


GPU = Place("cuda", None, compiled=True)
DRY = Place("cpu", "emulator", compiled=False)


def peers(case: Case, place: Place) -> dict[str, Peer]:
    """Each takes the inputs."""
    made: dict[str, Peer] = {f"{EAGER}: {name}": way for name, way in case.kind.eager.items()}
    if place.compiled:
        made[COMPILED] = compiled(case.kind.written, MODE)
    if case.kind.liger is not None and HAS_LIGER and not place.is_dry:
        made[LIGER] = case.kind.liger
    return made


def measure(case: Case, place: Place, rounds: int) -> tuple[Row, dict[str, Measured]]:
    """The row of a case, and all its figures."""
    forget_compiled()
    inputs = case.inputs()
    exact = case.exact(inputs)
    fd = case.definition()
    error = check_ours(case, fd.execute(inputs, target=place.target), exact)
    found = peers(case, place)
    calls: dict[str, Call] = {}
    for name, peer in found.items():
        given = [t.clone() for t in inputs] if writes_over(case, name) else inputs
        calls[name] = bound(peer, given)
    kept, _, notes = working(calls, exact, drawn=case.kind.drawn)
    del exact, calls
    rotation = Rotation(case, inputs)
    ours: Peer = lambda *given: fd.execute(given, target=place.target)  # noqa: E731
    candidates = {OURS: rotation.call(OURS, ours)}
    candidates |= {name: rotation.call(name, found[name]) for name in kept}
    candidates[COPY] = rotation.moving()
    clock: Clock = wall_clock if place.is_dry else rotation.seconds
    measured = alternate(candidates, rounds, clock=clock)
    by_peer = ratios(measured, (EAGER, COMPILED, LIGER))
    of_copy = measured[COPY].ratio
    row = Row(
        case=case.name,
        dtype=case.dtype_name,
        moved=sum(case.least_bytes()),
        seconds=measured[OURS].seconds,
        of_copy=of_copy,
        ratios=by_peer,
        host_seconds=_host_seconds(case, place),
        error=error,
        goals=[] if place.is_dry else gpu_goals(case, by_peer, of_copy),
        notes=notes,
    )
    return row, measured


def _host_seconds(case: Case, place: Place) -> float:
    if place.is_dry:
        return 0.0
    few = small(case, place.device)
    fd, given = few.definition(), few.inputs()
    return host_seconds(lambda: fd.execute(given), place.device)


def measure_or_fail(case: Case, place: Place, rounds: int) -> tuple[Row, dict[str, Measured]]:
    """A row that says why, where there is nothing to measure."""
    try:
        return measure(case, place, rounds)
    except Exception as reason:  # whatever it is, the other cases are measured
        return failed(case, f"{type(reason).__name__}: {reason}".partition("\n")[0]), {}


# -- the report ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Options:
    rounds: int
    budget: float
    results: Path
    only: str
    dry_run: bool
    no_save: bool


def options() -> Options:
    parser = argparse.ArgumentParser(description="fuser beside its peers, on the GPU")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float, default=270, help="seconds for all cases")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--only", default="", help="cases whose name contains this; not saved")
    parser.add_argument("--dry-run", action="store_true", help="small sizes, without a GPU")
    parser.add_argument("--no-save", action="store_true", help="print only")
    return Options(**vars(parser.parse_args()))


def measure_all(given: Options, place: Place) -> tuple[list[Row], dict[str, object], list[str]]:
    """The rows in the table's order, all figures, and the cases there was no time for."""
    started = time.monotonic()
    rows: dict[str, Row] = {}
    details: dict[str, object] = {}
    missing: list[str] = []
    for case in wanted(given):
        if time.monotonic() - started > given.budget:
            missing.append(str(case))
            continue
        sized = small(case, place.device) if place.is_dry else case
        rows[str(case)], details[str(case)] = measure_or_fail(sized, place, given.rounds)
        print(f"{time.monotonic() - started:.0f} s: {line(rows[str(case)])}", flush=True)
        if not place.is_dry:
            torch.cuda.empty_cache()
    ordered = [rows[str(case)] for case in cases("cuda") if str(case) in rows]
    return ordered, details, missing


def line(row: Row) -> str:
    """A row as it is measured, in case there is no time to print the table."""
    figures = [f"{row.seconds * 1e6:.1f} us", f"{row.of_copy:.2f} of copy"]
    figures += [f"{ratio:.2f} x {peer}" for peer, ratio in row.ratios.items()]
    return f"{row.case} {row.dtype}: {row.failure or ', '.join(figures)}"


def wanted(given: Options) -> list[Case]:
    """Cases by importance; in a dry run, which has one size, each kind once."""
    found = [case for case in by_importance("cuda") if given.only in str(case)]
    if not given.dry_run:
        return found
    return list({str(small(case, DRY.device)): case for case in reversed(found)}.values())[::-1]


def execute_part(given: Options, record: dict[str, object]) -> tuple[str, list[Goal]]:
    """What calls cost the host, and the goals set for it."""
    execute = measure_execute("cuda", given.rounds)
    record["execute"] = execute
    text = (
        f"execute, warm: {execute.call * 1e6:.2f} us with 3 inputs and 1 output, "
        f"{execute.segment * 1e6:.2f} us for each further segment"
    )
    return text, execute.goals()


def facts_of(place: Place) -> dict[str, str]:
    if place.is_dry:
        return machine() | {"dry run": "small sizes, emulated: these times mean nothing"}
    return machine() | {"gpu": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}


def report(given: Options, place: Place) -> tuple[str, dict[str, object], bool]:
    """The text, the record, and whether all cases went well."""
    facts = facts_of(place)
    record: dict[str, object] = {"machine": facts}
    host, goals = ("", []) if place.is_dry else execute_part(given, record)
    rows, details, missing = measure_all(given, place)
    goals = [*(goal for row in rows for goal in row.goals), *goals]
    record |= {"rows": rows, "details": details, "goals": goals, "not measured": missing}
    parts = [description(facts), row_table(rows, GPU_COLUMNS), host, note_lines(rows)]
    if missing:
        parts.append(f"no time for: {', '.join(missing)}")
    if not HAS_LIGER:
        parts.append("Liger is not installed")
    parts.append("" if place.is_dry else goal_lines(goals))
    return "\n\n".join(filter(None, parts)) + "\n", record, not any(row.failure for row in rows)


def main() -> int:
    given = options()
    place = DRY if given.dry_run else GPU
    if not place.is_dry and not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py needs a CUDA device, and torch sees none")
    text, record, fine = report(given, place)
    print("\n" + text)
    if not (given.no_save or given.only or given.dry_run):
        stem = f"gpu-{time.strftime('%Y-%m-%d')}"
        save(given.results, stem, text, record)
        draw(given.results / f"{stem}.json")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
