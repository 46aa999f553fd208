"""Stores that bypass the processor's cache beside stores into it, by the size of what is moved.

    python benchmarks/past_cache.py [--rounds 15] [--no-save]

A cell is the time with stores into the cache over the time with stores past it: below 1, the cache
is faster. `fuser` decides by `ProcessorParameters.stream_bytes`, which this sets to nothing and to
everything. Three ways to call, all on two pinned threads with freed memory kept:

- again: the inputs and the result's memory are those of the calls before.
- then read: the same, and torch sums the result, which is timed with the call.
- cold: `SWEPT` bytes of other memory are written before, which is not timed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import cast

import pinned

if __name__ == "__main__":
    pinned.restart()

import torch
from buffers import keep_freed
from harness import OURS, Call, Clock, again, alternate, machine, options, report, wall_clock

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.runtime.backend import CpuBackend
from fuser.schedule import CpuParameters, CpuRowParameters, ProcessorParameters

COLUMNS = 1024
MEGABYTES = (4, 8, 12, 16, 24, 32, 48, 64)
"""Of one tensor of float32."""

HEAD = ("computed", "MiB a tensor", "moved", "past it, ms", "again", "then read", "cold")
SWEPT = 96 << 20
BEFORE = 2
"""Calls whose memory the timed one finds in the cache."""

Define = Callable[[FusionDefinition, Handle, Handle], list[Handle]]


def softmax(fd: FusionDefinition, x: Handle, _: Handle) -> list[Handle]:
    weights = fd.ops.exp(x - fd.ops.max(x, [1], keepdim=True))
    return [weights / fd.ops.sum(weights, [1], keepdim=True)]


COMPUTED: dict[str, tuple[int, Define]] = {
    "-x": (2, lambda fd, x, _: [fd.ops.neg(x)]),
    "softmax(x)": (2, softmax),
    "x + y / 3": (3, lambda fd, x, y: [x + y / 3.0]),
    "x * y, x - y": (4, lambda fd, x, y: [x * y, x - y]),
}
"""How many tensors are moved, and what is computed."""


def call_of(define: Define, x: torch.Tensor, y: torch.Tensor, stream_bytes: int) -> Call:
    """A call that stores past the cache what moves so many bytes, its result kept till the next."""
    with FusionDefinition() as fd:
        for result in define(fd, fd.from_pytorch(x), fd.from_pytorch(y)):
            fd.add_output(result)
    kept: list[torch.Tensor] = []

    def call() -> torch.Tensor:
        kept.clear()
        kept.extend(fd.execute([x, y]))
        return kept[0]

    given = CpuBackend.point_parameters, CpuBackend.row_parameters
    processor = ProcessorParameters(stream_bytes=stream_bytes)
    CpuBackend.point_parameters = CpuParameters(processor)
    CpuBackend.row_parameters = CpuRowParameters(processor)
    try:
        call()
    finally:
        CpuBackend.point_parameters, CpuBackend.row_parameters = given
    return call


def then_read(call: Call) -> float:
    return again(lambda: torch.sum(cast(torch.Tensor, call())), BEFORE)


def cold(swept: torch.Tensor, call: Call) -> float:
    swept.add_(1.0)
    return wall_clock(call)


def row(name: str, megabytes: int, rounds: int, swept: torch.Tensor) -> list[str]:
    moved, define = COMPUTED[name]
    x, y = (torch.randn((megabytes << 18) // COLUMNS, COLUMNS) for _ in range(2))
    calls = {OURS: call_of(define, x, y, 0), "cached": call_of(define, x, y, sys.maxsize)}
    clocks: list[Clock] = [partial(again, before=BEFORE), then_read, partial(cold, swept)]
    measured = [alternate(calls, rounds, clock) for clock in clocks]
    ratios = (f"{by_clock['cached'].ratio:.2f}" for by_clock in measured)
    taken = f"{measured[0][OURS].seconds * 1e3:.3f}"
    return [name, str(megabytes), str(moved * megabytes), taken, *ratios]


def main() -> None:
    given = options(__doc__, rounds=15).parse_args()
    keep_freed()
    swept = torch.zeros(SWEPT // torch.float32.itemsize)
    rows = [row(name, size, given.rounds, swept) for name in COMPUTED for size in MEGABYTES]
    report("past-cache-cpu", machine(), HEAD, rows, keep=not given.no_save)


if __name__ == "__main__":
    main()
