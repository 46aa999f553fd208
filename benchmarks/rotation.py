"""Calls on the GPU that find nothing of their own in its cache."""

from __future__ import annotations

import functools

import torch
from case import Case, Peer, Tensors
from harness import Call
from report import LIGER, mostly_reads
from torch_calls import keep_gpu_waiting

COLD_BYTES = 240 << 20
MOST_COPIES = 32


def writes_over(case: Case, name: str) -> bool:
    """Whether a peer leaves its inputs changed."""
    return name == LIGER and case.kind.consumes


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
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        keep_gpu_waiting()
        start.record()
        call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / self.copies
