"""What the repro scripts share: their options, scaled definitions, the check, and the timing."""

from __future__ import annotations

import argparse
import inspect
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from fuser import Fusion, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.pipeline import Plan
from fuser.segmenter import byte_count

Definition = Callable[[FusionDefinition], None]
Candidates = Mapping[str, Callable[[], object]]
Cut = Callable[[Handle], Handle]
"""Stands where nvFuser must cut: `segment_set` to plan as it would, `uncut` to plan as we do."""
Graph = Callable[[FusionDefinition, Cut], None]


@dataclass(frozen=True, slots=True)
class Options:
    """The command line; `rows` is what `--size` stands for."""

    rows: int
    device: str
    target: str | None
    rounds: int


def options(description: str, full: int, small: int, unit: int) -> Options:
    """Read the command line; rows are a multiple of `unit`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--size", default="full", help=f"full ({full}), small ({small}), or a multiple of {unit}"
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=device, choices=["cpu", "cuda"])
    targets = ["cpu", "cuda", "emulator"]
    parser.add_argument("--target", choices=targets, help="by default, the device's own")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of timing; 0 for none")
    given = parser.parse_args()
    if given.rounds < 0:
        parser.error(f"--rounds: expected 0 or more, got {given.rounds}")
    on_cpu = given.device == "cpu"
    if given.target is not None and (given.target == "cuda") is on_cpu:
        parser.error(f"--target: {given.target} takes no {given.device} tensors; name a --device")
    size: str = given.size
    named = {"full": full, "small": small}
    rows = named[size] if size in named else int(size) if size.isdecimal() else 0
    if rows < 1 or rows % unit:
        parser.error(f"--size: expected full, small or a multiple of {unit}, got {size}")
    return Options(rows, given.device, given.target, given.rounds)


def scaled(definition: Definition, sizes: Mapping[str, object]) -> Definition:
    """`definition` with numbers in its text replaced: the published script at another size."""
    longest_first = sorted(sizes, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    text = re.sub(pattern, lambda found: str(sizes[found[0]]), inspect.getsource(definition))
    scope: dict[str, Definition] = {}
    exec(text, definition.__globals__, scope)
    return scope[definition.__name__]


def define(definition: Definition) -> Fusion:
    """A finished Fusion, as the published scripts make it."""
    fs = Fusion()
    with FusionDefinition(fs) as fd:
        definition(fd)
    return fs


def check(
    got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], quiet: bool = False
) -> None:
    """Compare with torch's results; say what differs and exit with status 1 if anything does."""
    if len(got) != len(expected):
        sys.exit(f"WRONG: {len(got)} output(s), torch gives {len(expected)}")
    for number, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        if ours.stride() != theirs.stride():
            sys.exit(f"WRONG: output {number} has strides {ours.stride()}, not {theirs.stride()}")
        try:
            torch.testing.assert_close(ours, theirs)
        except AssertionError as difference:
            sys.exit(f"WRONG: output {number} is not what torch computes\n{difference}")
    if not quiet:
        print("checked: the outputs are what torch computes\n")


def uncut(value: Handle) -> Handle:
    return value


def plan_for(graph: Graph, cut: bool, inputs: Sequence[torch.Tensor], target: str | None) -> Plan:
    """Our plan, or with nvFuser's cuts; nothing is run."""
    with FusionDefinition() as fd:
        graph(fd, fd.ops.segment_set if cut else uncut)
    return fd.plan(inputs, target=target)


def segments(plan: Plan) -> int:
    """Kernels and torch calls."""
    return len(plan.kernels) + len(plan.externs)


def brief(plan: Plan) -> str:
    """A plan without its reasons."""
    head = ["", "operations", "read", "written"]
    rows: list[list[str]] = []
    for number, step in enumerate(plan.steps):
        sizes = byte_count(step.bytes_read), byte_count(step.bytes_written)
        rows.append([str(number), ", ".join(step.operations), *sizes])
    return table(head, rows)


def compare_plans(plans: Mapping[str, Plan]) -> str:
    """How many segments each plan has, and what they move."""
    head = ["", "segments", "read", "written", "moved"]
    rows: list[list[str]] = []
    for name, plan in plans.items():
        read = sum(step.bytes_read for step in plan.steps)
        written = sum(step.bytes_written for step in plan.steps)
        sizes = map(byte_count, (read, written, plan.bytes_moved))
        rows.append([name, str(segments(plan)), *sizes])
    return table(head, rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns: words to the left, what starts with a number to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [list(head), ["-" * width for width in widths], *map(list, rows)]
    right = [all(row[column][:1].isdigit() for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def report(candidates: Candidates, device: str, rounds: int) -> dict[str, float]:
    """Time the candidates in alternation; the first is what the others are compared with.

    Gives the median ratio of each one's time and the first one's; none where there are no rounds.
    """
    if rounds == 0:
        return {}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds + 3):
        for name, call in candidates.items():
            taken = _seconds(call, device)
            if number >= 3:  # the first rounds warm up
                times[name].append(taken)
    ours, *_ = times.values()
    found: dict[str, float] = {}
    print(f"medians of {rounds} rounds: of times, and of the ratios to fuser's time of the round")
    print(f"{'':<24}{'ms':>10}{'x fuser':>10}")
    for name, theirs in times.items():
        ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
        middle, found[name] = statistics.median(theirs) * 1e3, statistics.median(ratios)
        print(f"{name:<24}{middle:>10.3f}{found[name]:>10.2f}")
    return found


def _seconds(call: Callable[[], object], device: str) -> float:
    if device == "cpu":
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(2_000_000)  # 1 ms, in which the host queues the call
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3
