"""Calls of torch that it has no types for, and what waits for the GPU."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from case import Peer
from harness import Call

LONGEST_WAIT = 10e-3
"""Seconds: longer than the host takes to queue most rounds."""

CYCLES_A_SECOND = 2e9
"""About what a GPU's clock does at most. If it does fewer, it waits longer, which hides as much."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of a call: as the GPU sees what it queues, and until the host has queued it."""

    gpu: float
    host: float


def compiled(function: Peer, mode: str | None = None) -> Peer:
    """The function by torch.compile, for the sizes of its first call."""
    return torch.compile(function, mode=mode, dynamic=False)  # pyright: ignore[reportUnknownMemberType]


def forget_compiled() -> None:
    """Drop what was compiled so far: a function is given up after its eighth shape."""
    torch.compiler.reset()


def keep_gpu_waiting(seconds: float = LONGEST_WAIT) -> None:
    """Queue a kernel that waits while the host queues others."""
    cycles = int(seconds * CYCLES_A_SECOND)
    torch.cuda._sleep(cycles)  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]


def timed_behind_wait(call: Call, wait: float) -> Timed:
    """Time what a call queues, between events, behind a kernel that waits so many seconds."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    keep_gpu_waiting(wait)
    begun = time.perf_counter()
    start.record()
    call()
    end.record()
    host = time.perf_counter() - begun
    end.synchronize()
    return Timed(start.elapsed_time(end) / 1e3, host)
