"""Models from transformers under torch.compile, beside eager and inductor: one table.

    python benchmarks/models.py [--only bert] [--rounds 7] [--small] [--processes] [--no-save]

Random weights at real hidden sizes, 2 layers; and a narrow model, of 4 layers and 64 numbers a
word, whose arithmetic takes no time. A training step is forward and backward with dropout as the
model has it, inference is a forward under no_grad; AdamW is a step of the optimizer alone. Medians
over alternating rounds in one process, on two pinned threads where the processor is used.

- ms: fuser's time; x eager, x inductor: theirs over it.
- others ms and the next two: the same of what is not a matrix product (see `products.py`), from
  rounds of their own under torch's profiler; it takes longer than the calls of the narrow model.
- covered: compute nodes in fuser's partitions, of all graphs' nodes.

XLNet's relative shift is the gradient of its one line alone. Compile times and peak memory are of
fresh processes: see `first_step.py` and `peak_memory.py`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pinned

if __name__ == "__main__":
    pinned.restart()

import torch
from harness import (
    OURS,
    RESULTS,
    ROOT,
    Call,
    Clock,
    Goal,
    Measured,
    alternate,
    description,
    goal_table,
    limit,
    machine,
    options,
    save,
    table,
    wall_clock,
)
from model_cases import MODELS, SMALL, STEPS, Model, call_of, compiled_by, coverage
from products import outside_products
from shift_cases import shift

from fuser.integrations import dynamo

PEERS = ("eager", "inductor")
LEAST_OUTSIDE = {"eager": 1.3, "inductor": 1.15}
SHIFT_SHAPE, SMALL_SHIFT_SHAPE = (4, 12, 512, 1024), (2, 2, 8, 16)
CALLS = 50
"""Of a narrow model, at a time."""
CACHES = ("FUSER_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")


@dataclass(frozen=True, slots=True)
class Row:
    """A step of a model: by candidate, the time of all of it and of what is no product."""

    model: str
    step: str
    whole: Mapping[str, Measured]
    outside: Mapping[str, Measured]
    covered: float
    partitions: int

    HEAD = (
        *("model", "step", "ms", "x eager", "x inductor"),
        *("others ms", "x eager", "x inductor", "covered", "partitions"),
    )

    def cells(self) -> list[str]:
        found = [self.model, self.step, *_times(self.whole), *_times(self.outside)]
        return [*found, f"{self.covered:.1f} %", str(self.partitions)]


def _times(measured: Mapping[str, Measured]) -> list[str]:
    if not measured:
        return ["-"] * (1 + len(PEERS))
    ratios = [f"{measured[peer].ratio:.2f}" if peer in measured else "-" for peer in PEERS]
    milliseconds = measured[OURS].seconds * 1e3
    return [f"{milliseconds:.{1 if milliseconds >= 5 else 2}f}", *ratios]


# -- steps ---------------------------------------------------------------------------------------


def rows_of(case: Model, device: str, peers: Sequence[str], rounds: int) -> list[Row]:
    """A training step, and inference."""
    model, inputs = case.build(device)
    torch.compiler.reset()
    runs: dict[str, Any] = {name: compiled_by(name, model) for name in (OURS, *peers)}
    clock = synchronized if device == "cuda" else wall_clock
    rows: list[Row] = []
    for step in STEPS:
        model.train(step == "training")
        dynamo.clear_reports()
        calls = {name: call_of(step, model, run, inputs) for name, run in runs.items()}
        if case.narrow:
            whole, outside = alternate(calls, rounds, _of_many(clock), warm_up=2), {}
        else:
            whole = alternate(calls, rounds, clock, warm_up=2)
            outside = alternate(calls, rounds, outside_products(device), warm_up=1)
        rows.append(_row(case.name, step, whole, outside))
    return rows


def _of_many(clock: Clock) -> Clock:
    """The average of many calls."""

    def repeated(call: Call) -> Call:
        return lambda: [call() for _ in range(CALLS)]

    return lambda call: clock(repeated(call)) / CALLS


def shift_row(shape: Sequence[int], device: str, peers: Sequence[str], rounds: int) -> Row:
    """The gradients of XLNet's relative shift, as the model has it."""
    batch, heads, length, twice = shape
    kept = [
        torch.randn(batch, heads, length, size, device=device, requires_grad=True)
        for size in (length, twice)
    ]
    gradient = torch.randn(batch, heads, length, length, device=device)

    def backward_of(run: Callable[..., torch.Tensor]) -> Call:
        result = run(*kept)
        return lambda: torch.autograd.grad(result, kept, gradient, retain_graph=True)

    torch.compiler.reset()
    dynamo.clear_reports()
    # so that inductor's backward may be run more than once
    with torch._functorch.config.patch(donated_buffer=False):  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        calls = {name: backward_of(compiled_by(name, shift)) for name in (OURS, *peers)}
        measured = alternate(calls, 3 * rounds, synchronized if device == "cuda" else wall_clock)
    return _row("XLNet's shift", "backward", measured, {})


def optimizer_row(case: Model, device: str, peers: Sequence[str], rounds: int) -> Row:
    """A step of AdamW, of every candidate on a model of its own."""
    torch.compiler.reset()
    dynamo.clear_reports()

    def step_of(backend: str) -> Call:
        model, _ = case.build(device)
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 1e-3)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
        return compiled_by(backend, optimizer.step)  # pyright: ignore[reportUnknownMemberType]

    clock = synchronized if device == "cuda" else wall_clock
    calls = {name: step_of(name) for name in (OURS, *peers)}
    measured = alternate(calls, rounds, _of_many(clock) if case.narrow else clock)
    return _row(case.name, "AdamW", measured, {})


def _row(
    model: str, step: str, whole: Mapping[str, Measured], outside: Mapping[str, Measured]
) -> Row:
    return Row(model, step, whole, outside, *coverage())


def synchronized(call: Call) -> float:
    """Seconds of a call and of what it leaves to a GPU."""

    def finished() -> None:
        call()
        torch.cuda.synchronize()

    torch.cuda.synchronize()
    return wall_clock(finished)


# -- fresh processes -----------------------------------------------------------------------------


def compile_seconds(model: str, repeats: int = 3) -> dict[str, tuple[float, float]]:
    """Of the graph pair, and of the whole first step: medians, with empty and filled caches."""
    found: dict[str, tuple[float, float]] = {}
    for backend in (OURS, PEERS[-1]):
        runs: dict[str, list[list[float]]] = {"cold": [], "warm": []}
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as caches:
                places = {name: str(Path(caches) / name) for name in CACHES}
                for numbers in runs.values():
                    numbers.append(_numbers("first_step.py", model, backend, **places))
        for state, numbers in runs.items():
            pair, step = map(statistics.median, zip(*numbers, strict=True))
            found[f"{backend}, {state}"] = pair, step
    return found


def peak_bytes() -> dict[str, float]:
    return {
        backend: _numbers("peak_memory.py", backend)[0] for backend in ("eager", OURS, "inductor")
    }


def _numbers(script: str, *given: str, **environment: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), *given],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(word) for word in done.stdout.splitlines()[-1].split()]


# -- the report ----------------------------------------------------------------------------------


def step_goals(rows: Sequence[Row]) -> list[Goal]:
    """Nothing slower end to end; outside products, faster in geometric mean."""
    goals = [
        _at_least(f"{row.model} {row.step}, end to end, against {peer}", row.whole[peer].ratio, 1.0)
        for row in rows
        if row.step in (*STEPS, "AdamW")
        for peer in PEERS
    ]
    steps = [row for row in rows if row.outside]
    for peer, least in LEAST_OUTSIDE.items():
        mean = statistics.geometric_mean(row.outside[peer].ratio for row in steps)
        words = f"outside products, geometric mean of {len(steps)} steps, against {peer}"
        goals.append(_at_least(words, mean, least))
    shifts = [row for row in rows if row.step == "backward"]
    return [
        *goals,
        *(
            _at_least(f"{r.model} {r.step}, against eager", r.whole["eager"].ratio, 10)
            for r in shifts
        ),
    ]


def _at_least(words: str, measured: float, least: float) -> Goal:
    return Goal(words, f">= {least:g}x", f"{measured:.2f}x", measured >= least)


def process_part(found: Mapping[str, tuple[float, float]], peaks: Mapping[str, float]) -> str:
    seconds = [[name, f"{pair:.2f}", f"{step:.2f}"] for name, (pair, step) in found.items()]
    memory = [
        [name, f"{peak / 2**20:.0f}", f"{peak / peaks['eager']:.2f}"]
        for name, peak in peaks.items()
    ]
    return "\n\n".join(
        (
            "BERT, fresh processes, by the disk cache",
            table(("", "graph pair, s", "first step, s"), seconds),
            "cross-entropy step, [4096, 32768] f32, above its inputs",
            table(("", "MiB at peak", "of eager's"), memory),
        )
    )


def process_goals(
    found: Mapping[str, tuple[float, float]], peaks: Mapping[str, float]
) -> list[Goal]:
    cold, warm = found[f"{OURS}, cold"][0], found[f"{OURS}, warm"][0]
    half = found["inductor, cold"][0] / 2
    share = peaks[OURS] / peaks["eager"]
    return [
        limit("BERT's graph pair, cold, half of inductor's", cold, half, "s"),
        limit("BERT's graph pair, warm disk cache", warm, 1, "s"),
        limit("peak of a cross-entropy step, of eager's", share, 0.5 + 1e-9, ""),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__, rounds=7)
    parser.add_argument("--only", default="", help="models whose name has this text; not saved")
    parser.add_argument("--small", action="store_true", help="one tiny model, eager only")
    parser.add_argument("--processes", action="store_true", help="compile times and memory only")
    given = parser.parse_args(arguments)
    if given.processes and (given.only or given.small):
        parser.error("--processes measures no models: without --only and --small")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    peers = PEERS[:1] if given.small else PEERS
    facts, rows = machine(), list[Row]()
    part = given.only or given.small
    # First, while this process has taken no memory that the system has to find for them.
    processes = None if part else (compile_seconds("BERT"), peak_bytes())
    models = () if given.processes else (SMALL,) if given.small else MODELS
    for case in models:
        if given.only.lower() in case.name.lower():
            rows += rows_of(case, device, peers, given.rounds)
            rows.append(optimizer_row(case, device, peers, given.rounds))
            print(table(Row.HEAD, [row.cells() for row in rows]), "\n", flush=True)
    if models and not given.only:
        shape = SMALL_SHIFT_SHAPE if given.small else SHIFT_SHAPE
        rows.append(shift_row(shape, device, peers, given.rounds))
    parts = [description(facts)]
    if rows:
        parts.append(table(Row.HEAD, [row.cells() for row in rows]))
    record: dict[str, object] = {"machine": facts, "rows": rows}
    if processes is not None:
        seconds, peaks = processes
        goals = [*(step_goals(rows) if rows else ()), *process_goals(seconds, peaks)]
        parts += [process_part(seconds, peaks), goal_table(goals)]
        record |= {"seconds": seconds, "peaks": peaks, "goals": goals}
    text = "\n\n".join(parts) + "\n"
    print(text)
    if not (part or given.no_save):
        stem = "models-processes" if given.processes else "models"
        save(RESULTS, f"{stem}-{device}-{facts['date']}", text, record)


if __name__ == "__main__":
    main()
