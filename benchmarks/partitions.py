"""Where the time of compiled models goes: every kernel of a training step beside a copy.

    python benchmarks/partitions.py [--only swin] [--rounds 5] [--bf16] [--below 0.5] [--no-save]

Models of transformers with random weights at real sizes, one layer of each kind, two pinned threads
where the processor is used. A step is forward and backward; a kernel's time is the median over the
rounds, as `PythonProfiler` takes it inside the model, and is compared with a copy that moves as
many bytes. Kernels come by the time that they take beyond that, those of equal layers as one.

- ms: of one step, all calls together; beyond: what a copy would not take of it.
- of copy: 1.0 is as fast as a copy of the same bytes.

What computes much for what it moves is far below 1 by nature; what only moves should not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pinned

if __name__ == "__main__":
    pinned.restart()

import torch
from buffers import keep_freed
from harness import OURS, RESULTS, description, machine, options, save, table
from model_cases import compiled_by
from partition_cases import PARTS, Case

from fuser import PythonProfiler
from fuser.runtime.plans.profile_totals import StepTotal, step_totals

HEAD = ("model", "kernel", "calls", "ms", "beyond", "MiB", "of copy")


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel of a model, in one step."""

    model: str
    kernel: str
    calls: int
    milliseconds: float
    moved: float
    of_copy: float

    @classmethod
    def of(cls, model: str, total: StepTotal, rounds: int) -> Row:
        calls = len(total.times) // rounds
        copied = total.fraction_of_copy or 0.0
        taken = total.time_ms * calls
        return cls(model, total.step.name, calls, taken, total.bytes_moved / rounds, copied)

    @property
    def beyond(self) -> float:
        """Milliseconds that a copy of the same bytes would not take."""
        return self.milliseconds * (1 - self.of_copy)

    def cells(self) -> list[str]:
        numbers = f"{self.milliseconds:.2f}", f"{self.beyond:.2f}", f"{self.moved / 2**20:.1f}"
        return [self.model, self.kernel, str(self.calls), *numbers, f"{self.of_copy:.2f}"]


def rows_of(case: Case, device: str, rounds: int, *, narrow: bool) -> list[Row]:
    """The kernels of a training step."""
    model, inputs = case.build(device)
    torch.compiler.reset()
    run = compiled_by(OURS, model)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=narrow):
            loss = run(**inputs).loss
        loss.backward()
        model.zero_grad()

    for _ in range(2):
        step()
    with PythonProfiler() as prof:
        for _ in range(rounds):
            step()
    totals = [total for total in step_totals(prof.profiles) if total.step.kind == "kernel"]
    return [Row.of(case.name, total, rounds) for total in totals]


def summary(rows: Sequence[Row]) -> list[Row]:
    """A row for each model: of all its kernels."""
    found: list[Row] = []
    for model in dict.fromkeys(row.model for row in rows):
        own = [row for row in rows if row.model == model]
        taken = sum(row.milliseconds for row in own)
        beyond, moved = sum(row.beyond for row in own), sum(row.moved for row in own)
        calls = sum(row.calls for row in own)
        found.append(Row(model, f"all {len(own)}", calls, taken, moved, 1 - beyond / taken))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__, rounds=5)
    parser.add_argument("--only", default="", help="models whose name has this text; not saved")
    parser.add_argument("--bf16", action="store_true", help="under autocast to bfloat16")
    parser.add_argument("--below", type=float, default=0.5, help="kernels slower than this of copy")
    parser.add_argument("--least", type=float, default=0.2, help="milliseconds beyond a copy")
    given = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    keep_freed()
    facts, rows = machine(), list[Row]()
    for case in PARTS:
        if given.only.lower() in case.name.lower():
            rows += rows_of(case, device, given.rounds, narrow=given.bf16)
    slow = [row for row in rows if row.of_copy < given.below and row.beyond >= given.least]
    slow.sort(key=lambda row: row.beyond, reverse=True)
    tables = [table(HEAD, [row.cells() for row in part]) for part in (summary(rows), slow)]
    text = "\n\n".join([description(facts), *tables]) + "\n"
    print(text)
    if not (given.only or given.no_save):
        kind = "bf16" if given.bf16 else "f32"
        record: dict[str, Any] = {"machine": facts, "rows": rows}
        save(RESULTS, f"partitions-{kind}-{device}-{facts['date']}", text, record)


if __name__ == "__main__":
    main()
