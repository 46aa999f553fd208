"""What compiling torch's functions takes, beside inductor: one table.

    python benchmarks/compile_times.py [--only norm] [--no-save]

Seconds of a first forward and backward, in one process, on two pinned threads. No kernels are kept
on disk; what a backend imports and starts is done before, by a function of its own.

- traced: with the backend that compiles nothing, which is what tracing takes both.
- x inductor: inductor's whole first step over fuser's, below 1 it is faster.

`functions.py` measures what the compiled functions take.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Sequence

import pinned

if __name__ == "__main__":
    os.environ["FUSER_STRICT"] = "1"  # so that torch is not measured under our name
    os.environ["FUSER_CACHE"] = "0"
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    pinned.restart()

import torch
from function_cases import FUNCTIONS, Function
from harness import OURS, machine, options, report
from image_cases import IMAGES
from model_cases import compiled_by
from short_cases import SHORT
from step_cases import STEPS

TRACED = "aot_eager"
THEIRS = "inductor"
BACKENDS = (TRACED, OURS, THEIRS)
HEAD = ("function", "traced", "s", "inductor s", "x inductor")


def first_step(backend: str, case: Function) -> float:
    """Seconds of the first call of a function, and of its gradients if it is trained."""
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    drawn = case.draw()
    trained = [tensor for tensor in drawn if case.trained and tensor.is_floating_point()]
    for tensor in trained:
        tensor.requires_grad_()
    torch.compiler.reset()
    run = compiled_by(backend, case.compute)
    start = time.perf_counter()
    result = run(*drawn)
    if trained:
        torch.autograd.grad(result, trained, torch.ones_like(result))
    return time.perf_counter() - start


def row_of(case: Function) -> tuple[str, ...]:
    """The cells of a function, whose seconds are those of one step by each backend."""
    traced, ours, theirs = (first_step(backend, case) for backend in BACKENDS)
    return case.name, f"{traced:.2f}", f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.2f}"


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def start_backends() -> None:
    """Import what each backend imports, and start what it starts."""
    doubled = Function("doubled", double, lambda: (torch.randn(16),))
    for backend in BACKENDS:
        first_step(backend, doubled)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__, rounds=None)
    parser.add_argument("--only", default="", help="functions whose name has this text; not saved")
    given = parser.parse_args(arguments)
    facts, rows = machine(), list[Sequence[str]]()
    start_backends()
    for case in (*FUNCTIONS, *STEPS, *IMAGES, *SHORT):
        if given.only in case.name:
            rows.append(row_of(case))
            print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    keep = not (given.no_save or given.only)
    report("compile-times-cpu", facts, HEAD, rows, foot=_summary(rows), keep=keep)


def _summary(rows: Sequence[Sequence[str]]) -> str:
    ratios = [float(row[-1]) for row in rows]
    below = sum(ratio < 1 for ratio in ratios)
    mean = statistics.geometric_mean(ratios) if ratios else 0
    return f"\ninductor: geometric mean {mean:.2f}; {below} of {len(rows)} below 1\n"


if __name__ == "__main__":
    main()
