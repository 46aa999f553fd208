"""fuser beside eager torch, torch.compile and a copy, on the processor: one table.

    python benchmarks/cpu.py [--only TEXT | --calls] [--quick] [--rounds 21] [--seconds 4]
                             [--no-save]

A row is a case of `cases.py`. Its columns:

- MB: the inputs and the results, each moved once; ms: fuser's time.
- of copy: the time of a copy that moves as many bytes (`copy_` between two float tensors of half
  the size), over fuser's time; of a read, where a case writes less than a tenth of what it reads.
  The read is the dot product of two halves, the fastest that torch reads memory in.
- x eager, x compile: a peer's time over fuser's; eager is the best of the ways it offers.
- host us: a warm call of the same definition with a few hundred elements.
- error: fuser's largest against float64, relative to the element and the mean size of its tensor.
- goals: see `report.py`; those that are not met are listed below.

Large outputs cost more to page in than to compute: glibc gives a freed block above 32 MiB back to
the system, and the next output of that size faults in every page again. fuser keeps such outputs
in a pool. So that the comparison says how much of its advantage that is, there are two regimes:

- no page faults, the first two ratios: every peer writes into buffers made once, in huge pages as
  fuser's are; eager by `out=` and in-place operations, torch.compile by a function that ends in
  `out.copy_(...)`, which it compiles to loops that write to `out`. glibc is told to keep what is
  freed, so that temporaries, and results of operations without `out=`, cost no faults either. The
  faults are counted.
- as called, the last two: everybody allocates its outputs as a user's call does.

fuser is called in the same way in both, and its time is that of the first. All candidates of a
regime alternate with it in one process on two pinned threads, one regime after the other, each call
measured right after another of the same; a ratio is the median, over the rounds, of a peer's time
over fuser's.
Liger is not here: it runs on GPUs only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pinned

if __name__ == "__main__":
    pinned.restart()

import torch
from buffers import give_back_freed, huge_empty, huge_empty_like, keep_freed
from case import Case, Scratch, Tensors, tensors
from cases import cases, small
from checks import bound, check_ours, working
from harness import (
    OURS,
    RESULTS,
    Call,
    Goal,
    Measured,
    again,
    alternate,
    description,
    limit,
    machine,
    save,
)
from host_time import host_seconds, measure_execute
from picture import draw
from report import (
    CALLED,
    COMPILED,
    COPY,
    CPU_COLUMNS,
    EAGER,
    Row,
    cpu_goals,
    failed,
    goal_lines,
    mostly_reads,
    note_lines,
    ratios,
    row_table,
)
from small_calls import measure_first_calls, measure_small
from torch_calls import compiled, forget_compiled

FEW_FAULTS = 100

Regimes = dict[str, dict[str, Measured]]


# -- one case ------------------------------------------------------------------------------------


def as_called(case: Case, inputs: Tensors) -> dict[str, Call]:
    """The peers; all allocate."""
    peers = {f"{EAGER}: {name}": bound(peer, inputs) for name, peer in case.kind.eager.items()}
    return {**peers, COMPILED: bound(compiled(case.kind.written), inputs)}


def reused(case: Case, inputs: Tensors, like: Tensors) -> dict[str, Call]:
    """The peers, each into buffers of its own that are there already, where it can."""
    made = {
        f"{EAGER}: {name}": bound(peer, inputs)
        for name, peer in case.kind.eager.items()
        if name not in case.kind.into
    }
    for name, peer in case.kind.into.items():
        outs = [huge_empty_like(tensor) for tensor in like]
        made[f"{EAGER}: {name}"] = _into(peer, outs, Scratch(huge_empty_like), *inputs)

    def written_into(outs: Tensors, *given: torch.Tensor) -> None:
        for out, result in zip(outs, tensors(case.kind.written(*given)), strict=True):
            out.copy_(result)

    outs = [huge_empty_like(tensor) for tensor in like]
    made[COMPILED] = _into(compiled(written_into), outs, *inputs)
    return made


def _into(peer: Callable[..., object], outs: Tensors, *rest: object) -> Call:
    def call() -> Tensors:
        peer(outs, *rest)
        return outs

    return call


def moving(case: Case) -> Call:
    """The copy or the read of as many bytes as the case has to move."""
    elements = sum(case.least_bytes()) // 2 // 4
    target, source = huge_empty(elements).zero_(), huge_empty(elements).normal_()
    if mostly_reads(case):
        return lambda: torch.dot(source, target)
    return lambda: target.copy_(source)


def measure(case: Case, rounds: int, seconds: float) -> tuple[Row, Regimes]:
    """The row of a case, and all its figures."""
    forget_compiled()
    inputs = case.inputs()
    exact = case.exact(inputs)
    fd = case.definition()
    results = fd.execute(inputs)
    error = check_ours(case, results, exact)
    ours: dict[str, Call] = {OURS: lambda: fd.execute(inputs)}

    give_back_freed()
    fresh, _, notes = working(as_called(case, inputs), exact, drawn=case.kind.drawn)
    called = alternate(ours | fresh, rounds, again, most_seconds=seconds / 2)

    keep_freed()
    into, _, more = working(reused(case, inputs, results), exact, drawn=case.kind.drawn)
    del results, exact
    candidates = ours | into | {COPY: moving(case)}
    measured = alternate(candidates, rounds, again, most_seconds=seconds / 2)
    give_back_freed()

    found = ratios(measured, (EAGER, COMPILED)) | ratios(called, (EAGER, COMPILED), CALLED)
    of_copy = measured[COPY].ratio
    few = small(case, "cpu")
    tiny, given = few.definition(), few.inputs()
    row = Row(
        case=case.name,
        dtype=case.dtype_name,
        moved=sum(case.least_bytes()),
        seconds=measured[OURS].seconds,
        of_copy=of_copy,
        ratios=found,
        host_seconds=host_seconds(lambda: tiny.execute(given), "cpu"),
        error=error,
        goals=[*cpu_goals(case, found, of_copy), *fault_goals(case, measured)],
        notes=list(dict.fromkeys([*notes, *more])),
    )
    return row, {"as called": called, "no page faults": measured}


def fault_goals(case: Case, reused: dict[str, Measured]) -> list[Goal]:
    """Whether the regime is what its name says."""
    most = max(measured.faults for measured in reused.values())
    words = f"{case}: page faults a call where there should be none"
    return [Goal(words, f"< {FEW_FAULTS}", str(most), most < FEW_FAULTS)]


def measure_or_fail(case: Case, rounds: int, seconds: float) -> tuple[Row, Regimes]:
    """A row that says why, where there is nothing to measure."""
    try:
        return measure(case, rounds, seconds)
    except Exception as reason:  # whatever it is, the other cases are measured
        return failed(case, f"{type(reason).__name__}: {reason}".partition("\n")[0]), {}


# -- the report ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Options:
    rounds: int
    seconds: float
    results: Path
    only: str
    calls: bool
    quick: bool
    no_save: bool


def options() -> Options:
    parser = argparse.ArgumentParser(description="fuser beside its peers, on the processor")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=4, help="for the rounds of a case")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--only", default="", help="cases whose name contains this; not saved")
    parser.add_argument("--calls", action="store_true", help="small calls and first ones, no cases")
    parser.add_argument("--quick", action="store_true", help="few rounds; not saved")
    parser.add_argument("--no-save", action="store_true", help="print only")
    given = parser.parse_args()
    if given.calls and (given.only or given.quick):
        parser.error("--calls measures no cases: without --only and --quick")
    if given.quick:
        given.rounds, given.seconds = 5, 1
    return Options(**vars(given))


def measure_all(given: Options) -> tuple[list[Row], dict[str, Regimes]]:
    wanted = [case for case in cases("cpu") if given.only in str(case)]
    rows: list[Row] = []
    details: dict[str, Regimes] = {}
    for number, case in enumerate(wanted):
        print(f"{number + 1} of {len(wanted)}: {case}", file=sys.stderr, flush=True)
        row, details[str(case)] = measure_or_fail(case, given.rounds, given.seconds)
        rows.append(row)
    return rows, details


def host_parts(rounds: int, parts: list[str], record: dict[str, object]) -> list[Goal]:
    """What calls cost beside their arithmetic; the goals set for it."""
    execute = measure_execute("cpu", rounds)
    parts.append(
        f"execute, warm: {execute.call * 1e6:.2f} us with 3 inputs and 1 output, "
        f"{execute.segment * 1e6:.2f} us for each further segment"
    )
    text, few = measure_small(rounds)
    parts.append(text)
    text, firsts = measure_first_calls()
    parts.append(text)
    record |= {"execute": execute, "small": few, "first call": firsts}
    return [
        *execute.goals(),
        limit("warm execute of 64 elements", few[OURS].seconds * 1e6, 10, "us"),
        limit("first call, definition to result", firsts["fuser"], 0.25, "s"),
        limit("first call, definition to cubin", firsts["cubin"], 0.3, "s"),
        limit("first call, warm disk cache", firsts["fuser, warm"] * 1e3, 20, "ms"),
    ]


def main() -> int:
    given = options()
    facts = machine()
    print(description(facts) + "\n", flush=True)
    record: dict[str, object] = {"machine": facts}
    host: list[str] = []
    host_goals: list[Goal] = []
    if not given.only and not given.quick:  # before compilers have processes of their own here
        host_goals = host_parts(given.rounds, host, record)
    rows, details = ([], {}) if given.calls else measure_all(given)
    table = [row_table(rows, CPU_COLUMNS), note_lines(rows)] if rows else []
    parts = [description(facts), *table, *host]
    goals = [*(goal for row in rows for goal in row.goals), *host_goals]
    record |= {"rows": rows, "details": details, "goals": goals}
    parts.append(goal_lines(goals))
    text = "\n\n".join(filter(None, parts)) + "\n"
    print("\n" + text.partition("\n\n")[2])
    if not (given.no_save or given.only or given.quick):
        stem = f"cpu-calls-{facts['date']}" if given.calls else f"cpu-{facts['date']}"
        save(given.results, stem, text, record)
        if rows:
            draw(given.results / f"{stem}.json")
    return 1 if any(row.failure for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
