"""Calls on the GPU that find nothing of their own in its cache."""

from __future__ import annotations

import functools
import statistics
from collections import defaultdict
from collections.abc import Callable

import torch
from case import Case, Peer, Tensors
from harness import Call
from report import LIGER, mostly_reads
from torch_calls import LONGEST_WAIT, Timed, timed_behind_wait

COLD_BYTES = 240 << 20
MOST_COPIES = 32
LEAST_WAIT, MOST_WAIT = 0.5e-3, 20e-3


def writes_over(case: Case, name: str) -> bool:
    """Whether a peer leaves its inputs changed."""
    return name == LIGER and case.kind.consumes


class Waits:
    """The host's work on a call is hidden by a wait of twice as long as it took the last time.

    Where it took longer than the wait, the GPU may have waited for the host between two kernels: it
    is timed once more. A call that itself waits for the GPU always takes longer.
    """

    def __init__(self, timed: Callable[[Call, float], Timed] = timed_behind_wait) -> None:
        self._timed = timed
        self._waits: dict[Call, float] = {}
        self._hosts: defaultdict[Call, list[float]] = defaultdict(list)

    def seconds(self, call: Call, tries: int = 2) -> float:
        """Seconds of what a call queues, as the GPU sees it."""
        wait = self._waits.get(call, LONGEST_WAIT)
        taken = self._timed(call, wait)
        self._waits[call] = min(max(2 * taken.host, LEAST_WAIT), MOST_WAIT)
        if taken.host > wait and tries > 1:
            return self.seconds(call, tries - 1)
        self._hosts[call].append(taken.host)
        return taken.gpu

    def host_seconds(self, call: Call) -> float:
        """The median of what the host took to queue a call; 0 if it was not timed."""
        return statistics.median(self._hosts[call] or [0.0])


class Rotation:
    """Copies of a case's inputs in turn, and the outputs they led to."""

    def __init__(self, case: Case, inputs: Tensors) -> None:
        self._case = case
        moved = sum(case.least_bytes())
        self.copies = 2
        if inputs[0].is_cuda:
            self.copies = min(max(-(-COLD_BYTES // moved), 2), MOST_COPIES)
        self._inputs = self._clones(inputs)
        self._consumed = self._clones(inputs) if case.kind.consumes else self._inputs
        self._outputs: list[object] = [None] * self.copies
        half = torch.randn(moved // 8, device=inputs[0].device)
        self._moved = [torch.cat([half, half]) for _ in range(self.copies)]
        self._waits = Waits()

    def _clones(self, inputs: Tensors) -> list[Tensors]:
        return [[tensor.clone() for tensor in inputs] for _ in range(self.copies)]

    def call(self, name: str, peer: Peer) -> Call:
        """One call for each copy."""
        given = self._consumed if writes_over(self._case, name) else self._inputs
        return functools.partial(self._run, peer, given)

    def moving(self) -> Call:
        """For each copy, as many bytes copied, or read, as the case has to move."""
        if mostly_reads(self._case):
            return functools.partial(self._run, torch.sum, [[whole] for whole in self._moved])
        halves = [[whole[: len(whole) // 2]] for whole in self._moved]
        return functools.partial(self._run, torch.clone, halves)

    def _run(self, peer: Peer, given: list[Tensors]) -> None:
        for number, inputs in enumerate(given):
            self._outputs[number] = peer(*inputs)

    def seconds(self, call: Call) -> float:
        """Seconds for one of the calls that `call` makes, as the GPU sees them."""
        return self._waits.seconds(call) / self.copies

    def host_seconds(self, call: Call) -> float:
        """Seconds for one of the calls that `call` made, as the host sees them."""
        return self._waits.host_seconds(call) / self.copies
