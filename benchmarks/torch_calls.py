"""Calls of torch that it has no types for."""

from __future__ import annotations

import torch
from case import Peer

WAIT_CYCLES = 20_000_000
"""About 10 ms: longer than the host takes to queue a round."""


def compiled(function: Peer, mode: str | None = None) -> Peer:
    """The function by torch.compile, for the sizes of its first call."""
    return torch.compile(function, mode=mode, dynamic=False)  # pyright: ignore[reportUnknownMemberType]


def forget_compiled() -> None:
    """Drop what was compiled so far: a function is given up after its eighth shape."""
    torch.compiler.reset()


def keep_gpu_waiting() -> None:
    """Queue a kernel that waits while the host queues others."""
    torch.cuda._sleep(WAIT_CYCLES)  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]
