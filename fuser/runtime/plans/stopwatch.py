"""Marks in time, as the device that runs the work sees them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

import torch

_HELD_CYCLES = 2_000_000
"""About 1 ms: longer than the host takes to queue some dozen steps."""


class HostStopwatch:
    """For work that is done when the host goes on."""

    is_asynchronous = False
    """Whether work is only queued then."""

    def hold(self) -> None:
        """Nothing is queued that could wait."""

    def mark(self) -> float:
        """A point in time between two pieces of work."""
        return time.perf_counter()

    def between(self, marks: Sequence[object]) -> list[float]:
        """Milliseconds from each mark to the next."""
        times = [mark for mark in marks if isinstance(mark, float)]
        return [1e3 * (after - before) for before, after in itertools.pairwise(times)]


class CudaStopwatch:
    """Events on the current stream of the current device."""

    is_asynchronous = True

    def hold(self) -> None:
        """Let the device wait a while, so that it is not faster than the host queues its work."""
        torch.cuda._sleep(_HELD_CYCLES)  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, marks: Sequence[object]) -> list[float]:
        """Milliseconds from each mark to the next, once the device has come to the last."""
        events = [mark for mark in marks if isinstance(mark, torch.cuda.Event)]
        events[-1].synchronize()
        return [before.elapsed_time(after) for before, after in itertools.pairwise(events)]


Stopwatch = HostStopwatch | CudaStopwatch


def stopwatch_for(device: torch.device) -> Stopwatch:
    """Times what runs on `device`."""
    return CudaStopwatch() if device.type == "cuda" else HostStopwatch()
