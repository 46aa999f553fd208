"""fuser beside eager torch, torch.compile and a copy, on the GPU, with a cold cache.

    python benchmarks/gpu.py [--rounds 15] [--results benchmarks/results] [--no-save]

Every call takes the next of several copies of the inputs, and its output is kept until that copy
comes round again, so that a call finds nothing of its own in the cache: together they are at least
240 MB, and an H200's second-level cache holds 60. A round queues one call for each copy behind a
kernel that waits, so that the host's work is done before the first of them runs, and takes the
time between an event before the first and one after the last. Rounds alternate; medians.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from cases import GELU_BFLOAT16, GELU_FLOAT, PERMUTE, Case
from harness import (
    OURS,
    ROOT,
    Goal,
    alternate,
    description,
    error,
    first,
    goal_table,
    machine,
    save,
    table,
)

from fuser import FusionDefinition

COLD_BYTES = 240 << 20
MOST_COPIES = 32
WAIT_CYCLES = 20_000_000
"""About 10 ms: longer than the host takes to queue a round."""

COPY_GOALS = {GELU_FLOAT.name: 0.95, PERMUTE.name: 0.9}
"""The part of a copy's speed that is aimed at."""

Peer = Callable[..., object]


def candidates(case: Case) -> dict[str, Peer]:
    """Each takes the inputs."""
    with FusionDefinition() as fd:
        case.define(fd)
    autotuned = "max-autotune-no-cudagraphs"
    return {
        OURS: lambda *inputs: fd.execute(inputs),
        **case.peers,
        "torch.compile": torch.compile(case.written),
        "torch.compile, max-autotune": torch.compile(case.written, mode=autotuned),
        "copy": lambda x, *rest: x.clone(),
    }


class Rotation:
    """Copies of a case's inputs in turn, and the outputs they led to."""

    def __init__(self, case: Case) -> None:
        inputs = case.inputs("cuda")
        moved = 2 * sum(tensor.nbytes for tensor in inputs)  # the output is of the input's size
        self.copies = min(max(-(-COLD_BYTES // moved), 2), MOST_COPIES)
        self._inputs = [[tensor.clone() for tensor in inputs] for _ in range(self.copies)]
        self._outputs: list[object] = [None] * self.copies

    def run(self, peer: Peer) -> None:
        """One call for each copy."""
        for number, inputs in enumerate(self._inputs):
            self._outputs[number] = peer(*inputs)

    def seconds(self, call: Callable[[], object]) -> float:
        """Seconds for one of the calls that `call` makes, as the GPU sees them."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(WAIT_CYCLES)
        start.record()
        call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / self.copies


def measure(case: Case, rounds: int) -> tuple[str, dict[str, object], list[Goal]]:
    """The table of one case, its figures, and the goals set for it."""
    peers = candidates(case)
    errors = check(case, peers)
    rotation = Rotation(case)
    calls = {name: functools.partial(rotation.run, peer) for name, peer in peers.items()}
    measured = alternate(calls, rounds, clock=rotation.seconds)
    (x, *_) = case.inputs("meta")
    copy_ratio = measured["copy"].ratio
    rows = [
        [
            name,
            f"{found.seconds * 1e6:.1f}",
            f"{found.ratio:.2f}",
            f"{2 * x.nbytes / found.seconds / 1e12:.2f}",
            errors.get(name, "-"),
        ]
        for name, found in measured.items()
    ]
    head = ["", "us", "x fuser", "TB/s", "largest error"]
    text = f"{case.name}, {rotation.copies} copies in turn\n\n{table(head, rows)}"
    goals: list[Goal] = []
    if case.name in COPY_GOALS:
        wanted = COPY_GOALS[case.name]
        words = f"{case.name.partition(' [')[0]}: part of a copy's speed"
        goals.append(Goal(words, f">= {wanted}", f"{copy_ratio:.3f}", copy_ratio >= wanted))
    return text, dict(measured), goals


def check(case: Case, peers: dict[str, Peer]) -> dict[str, str]:
    """The error of every candidate. Exits with status 1 if fuser's is too large."""
    inputs = case.inputs("cuda")
    exact = case.exact(*(tensor.double() for tensor in inputs))
    errors: dict[str, str] = {}
    for name, peer in peers.items():
        if name == "copy":
            continue
        found = error(first(peer(*inputs)), exact)
        if name == OURS and not found <= case.tolerance:
            sys.exit(f"WRONG: {case.name}: error {found:.2e} is above {case.tolerance:.2e}")
        errors[name] = f"{found:.1e}"
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description="fuser beside its peers, on the GPU")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--no-save", action="store_true", help="print only")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py needs a CUDA device, and torch sees none")
    facts = machine() | {"gpu": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
    parts = [description(facts)]
    record: dict[str, object] = {"machine": facts}
    goals: list[Goal] = []
    for case in (GELU_FLOAT, GELU_BFLOAT16, PERMUTE):
        text, record[case.name], more = measure(case, given.rounds)
        parts.append(text)
        goals += more
    parts.append(goal_table(goals))
    record["goals"] = goals
    print("\n\n".join(itertools.chain([""], parts)))
    if not given.no_save:
        save(given.results, f"gpu-{facts['date']}", "\n\n".join(parts) + "\n", record)


if __name__ == "__main__":
    main()
