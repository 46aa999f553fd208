"""What a warm call costs the host, whatever is computed.

`execute` is called with so few elements that its arithmetic takes no time. On the GPU nothing is
waited for: the calls are queued behind a kernel that sleeps. On the processor the kernel itself is
part of the figure.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from harness import Call, Goal, limit
from torch_calls import keep_gpu_waiting

from fuser import FusionDefinition

BATCH = 100
"""Calls whose kernels a GPU's queue has room for: it holds about 1,000, and then the host waits."""

LENGTHS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Execute:
    """Seconds of a call with 3 inputs and 1 output, and of each segment after the first."""

    call: float
    segment: float

    def goals(self) -> list[Goal]:
        return [
            limit("warm execute, 3 inputs, 1 output", self.call * 1e6, 10, "us"),
            limit("each further segment", self.segment * 1e6, 5, "us"),
        ]


def host_seconds(call: Call, device: str, repeats: int = 7) -> float:
    """Seconds of one call, as the host sees them: the median of several batches."""
    return statistics.median(_batch(call, device) for _ in range(repeats))


def _batch(call: Call, device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
        keep_gpu_waiting()
    start = time.perf_counter()
    for _ in range(BATCH):
        call()
    return (time.perf_counter() - start) / BATCH


def chain(segments: int) -> FusionDefinition:
    """3 inputs, 1 output, and as many kernels as are asked for."""
    with FusionDefinition() as fd:
        x, y, z = (fd.define_tensor(shape=[-1], contiguity=True) for _ in range(3))
        made = x * y + z
        for _ in range(segments - 1):
            made = fd.ops.tanh(fd.ops.segment_set(made))
        fd.add_output(made)
    return fd


def measure_execute(device: str, rounds: int, lengths: Sequence[int] = LENGTHS) -> Execute:
    """Alternating rounds of chains of 1 to 8 kernels; the slope is the cost of a segment."""
    inputs = [torch.randn(64, device=device) for _ in range(3)]
    calls: dict[int, Call] = {}
    for length in lengths:
        fd = chain(length)
        assert len(fd.plan(inputs).kernels) == length
        calls[length] = lambda fd=fd: fd.execute(inputs)
        calls[length]()
    times: dict[int, list[float]] = {length: [] for length in lengths}
    for _ in range(rounds):
        for length, call in calls.items():
            times[length].append(_batch(call, device))
    medians = [statistics.median(times[length]) for length in lengths]
    return Execute(medians[0], statistics.linear_regression(lengths, medians).slope)
