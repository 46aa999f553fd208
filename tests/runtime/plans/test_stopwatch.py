"""Marks in time: the host's clock, and events of a device, for which a fake one stands here."""

from __future__ import annotations

import time

import pytest
import torch

from fuser.runtime.plans.stopwatch import CudaStopwatch, HostStopwatch, stopwatch_for


def test_the_host_is_timed_in_milliseconds():
    watch = stopwatch_for(torch.device("cpu"))
    assert isinstance(watch, HostStopwatch)
    assert not watch.is_asynchronous
    marks = [watch.mark()]
    time.sleep(0.002)
    marks += [watch.mark(), watch.mark()]
    first, second = watch.between(marks)
    assert first >= 2.0
    assert 0.0 <= second < first


class FakeEvent:
    """An event that is reached a millisecond after the one recorded before it."""

    recorded = 0
    waited_for: FakeEvent | None = None

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing

    def record(self) -> None:
        FakeEvent.recorded += 1
        self.at = FakeEvent.recorded

    def synchronize(self) -> None:
        FakeEvent.waited_for = self

    def elapsed_time(self, later: FakeEvent) -> float:
        assert FakeEvent.waited_for is not None
        return float(later.at - self.at)


def test_cuda_is_timed_by_events_and_waited_for_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    watch = stopwatch_for(torch.device("cuda", 0))
    assert isinstance(watch, CudaStopwatch)
    assert watch.is_asynchronous
    marks = [watch.mark() for _ in range(3)]
    assert FakeEvent.waited_for is None
    assert watch.between(marks) == [1.0, 1.0]
    assert FakeEvent.waited_for is marks[-1]


def test_a_device_waits_for_the_host_before_it_is_timed(monkeypatch: pytest.MonkeyPatch):
    slept: list[int] = []
    monkeypatch.setattr(torch.cuda, "_sleep", slept.append)
    stopwatch_for(torch.device("cpu")).hold()
    assert not slept
    stopwatch_for(torch.device("cuda", 0)).hold()
    assert slept
