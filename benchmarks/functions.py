"""Functions under torch.compile, beside eager and inductor, on the processor: one table.

    python benchmarks/functions.py [--only norm] [--rounds 11] [--no-save]

float32; a forward under no_grad, and a backward alone. Medians over alternating rounds in one
process, on two pinned threads, with freed memory kept so that nobody page-faults. Each call is
measured right after three of the same: after one, results in memory of one's own are not in the
caches yet, as those in memory that anyone has freed are. Results are checked against float64.

- ms: fuser's time; x eager, x inductor: theirs over it, below 1 they are faster.
- kernels: what fuser's partitions run, of what torch runs itself; covered: compute nodes in them.

`cpu.py` measures definitions; this measures what becomes of torch's operations on the way there.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pinned

if __name__ == "__main__":
    os.environ["FUSER_STRICT"] = "1"  # so that torch is not measured under our name
    pinned.restart()

import torch
from buffers import keep_freed
from case import tensors
from checks import WrongResultError, error
from function_cases import FUNCTIONS, Drawn, Function
from harness import OURS, Call, Measured, again, alternate, machine, options, report
from image_cases import IMAGES
from model_cases import compiled_by, coverage
from short_cases import SHORT
from step_cases import STEPS

from fuser.integrations import dynamo

PEERS = ("eager", "inductor")
HEAD = ("function", "step", "ms", "x eager", "x inductor", "covered", "partitions")
BEFORE = 3
"""Calls of the same before the one that is measured."""

TOLERANCE = 1e-3
"""Of sums that cancel, eager's float32 is as far from float64."""


@dataclass(frozen=True, slots=True)
class Row:
    function: str
    step: str
    measured: Mapping[str, Measured]
    covered: float
    partitions: int

    def cells(self) -> list[str]:
        ratios = [f"{self.measured[peer].ratio:.2f}" for peer in PEERS]
        milliseconds = f"{self.measured[OURS].seconds * 1e3:.2f}"
        covered = f"{self.covered:.0f} %"
        return [self.function, self.step, milliseconds, *ratios, covered, str(self.partitions)]


def rows_of(case: Function, rounds: int) -> list[Row]:
    """The forward and, if the function is trained, its backward. Raises WrongResultError."""
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    drawn = case.draw()
    torch.compiler.reset()
    runs = {name: compiled_by(name, case.compute) for name in (OURS, *PEERS)}
    dynamo.clear_reports()
    rows = [_row(case, "forward", _forwards(case, runs, drawn), rounds)]
    if case.trained:
        dynamo.clear_reports()
        rows.append(_row(case, "backward", _backwards(case, runs, drawn), rounds))
    return rows


def _forwards(
    case: Function, runs: Mapping[str, Callable[..., torch.Tensor]], drawn: Drawn
) -> dict[str, Call]:
    def forward_of(run: Callable[..., torch.Tensor]) -> Call:
        def forward() -> torch.Tensor:
            with torch.no_grad():
                return run(*drawn)

        return forward

    calls = {name: forward_of(run) for name, run in runs.items()}
    check(calls, [case.compute(*map(_exact, drawn))])
    return calls


def _backwards(
    case: Function, runs: Mapping[str, Callable[..., torch.Tensor]], drawn: Drawn
) -> dict[str, Call]:
    """The gradients of what is drawn, as every run has them."""
    result = case.compute(*drawn)
    gradient = torch.randn_like(result) if result.dim() else torch.ones_like(result)

    def backward_of(
        run: Callable[..., torch.Tensor], given: Drawn, gradient: torch.Tensor
    ) -> Callable[[], Drawn]:
        kept = [tensor.detach() for tensor in given]
        trained = [tensor.requires_grad_() for tensor in kept if tensor.is_floating_point()]
        made = run(*kept)
        return lambda: torch.autograd.grad(made, trained, gradient, retain_graph=True)

    calls = {name: backward_of(run, drawn, gradient) for name, run in runs.items()}
    exact = backward_of(case.compute, tuple(map(_exact, drawn)), _exact(gradient))()
    check(calls, exact)
    return dict(calls)


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def check(calls: Mapping[str, Callable[[], object]], exact: Sequence[torch.Tensor]) -> None:
    """Every call is made once, and compiled by that. Raises WrongResultError."""
    errors = {name: error(tensors(call()), list(exact)) for name, call in calls.items()}
    if not errors[OURS] <= max(TOLERANCE, 2 * errors["eager"]):
        raise WrongResultError(f"error {errors[OURS]:.1e}, eager's {errors['eager']:.1e}")


def _row(case: Function, step: str, calls: Mapping[str, Call], rounds: int) -> Row:
    measured = alternate(calls, rounds, partial(again, before=BEFORE))
    return Row(case.name, step, measured, *coverage())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__, rounds=11)
    parser.add_argument("--only", default="", help="functions whose name has this text; not saved")
    given = parser.parse_args(arguments)
    keep_freed()
    facts, rows = machine(), list[Row]()
    # so that inductor's backward may be run more than once
    with torch._functorch.config.patch(donated_buffer=False):  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        for case in (*FUNCTIONS, *STEPS, *IMAGES, *SHORT):
            if given.only in case.name:
                for row in rows_of(case, given.rounds):
                    rows.append(row)
                    print(*row.cells(), sep="  ", file=sys.stderr, flush=True)
    foot = _summary(rows) if rows else ""
    keep = not (given.no_save or given.only)
    report("functions-cpu", facts, HEAD, [row.cells() for row in rows], foot=foot, keep=keep)


def _summary(rows: Sequence[Row]) -> str:
    lines = [""]
    for peer in PEERS:
        ratios = [row.measured[peer].ratio for row in rows]
        below = sum(ratio < 1 for ratio in ratios)
        mean = statistics.geometric_mean(ratios)
        lines.append(f"{peer}: geometric mean {mean:.2f}; {below} of {len(rows)} below 1")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
