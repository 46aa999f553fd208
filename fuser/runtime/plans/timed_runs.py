"""Runs of a plan, timed step by step, each beside a copy of as many bytes on the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from fuser.ir.nodes import Inputs
from fuser.runtime.calls.executor import Runner
from fuser.runtime.plans.plan import Plan, Step
from fuser.runtime.plans.profile import KernelProfile, Profile
from fuser.runtime.plans.stopwatch import Stopwatch, stopwatch_for
from fuser.segmenter import Segment

_COLD_BYTES = 256 << 20
"""Written before a cold run: more than caches hold."""


def profile(
    runner: Runner,
    plan: Plan,
    inputs: Inputs,
    device: torch.device,
    *,
    runs: int,
    cold: bool,
) -> Profile:
    """Run a plan `runs` times, after once for nothing, and time its steps and copies."""
    watch = stopwatch_for(device)
    flush = _flusher(device) if cold else _nothing
    copies = [_copy(step, device) for step in plan.steps]
    taken: list[_Times] = []
    for _ in range(runs + 1):
        flush()
        _, times, host = _timed_run(runner, inputs, len(plan.steps), watch)
        taken.append(_Times(times, [_timed(copy, flush, watch) for copy in copies], host))
    return _medians(taken[1:], runner, plan, device, cold=cold)


def profile_call(
    runner: Runner, plan: Plan, inputs: Inputs, device: torch.device
) -> tuple[list[torch.Tensor], Profile]:
    """Run a plan once: the outputs, and the profile of that run. Copies are timed after it."""
    watch = stopwatch_for(device)
    outputs, times, host = _timed_run(runner, inputs, len(plan.steps), watch)
    copies = [_copy(step, device) for step in plan.steps]
    for copy in copies:
        _timed(copy, _nothing, watch)  # touches its memory first
    took = [_timed(copy, _nothing, watch) for copy in copies]
    return outputs, _medians([_Times(times, took, host)], runner, plan, device, cold=False)


@dataclass(frozen=True, slots=True)
class _Times:
    """The milliseconds of one run: of every step, of a copy of its bytes, and of the host."""

    steps: list[float]
    copies: list[float]
    host: float


def _medians(
    taken: Sequence[_Times],
    runner: Runner,
    plan: Plan,
    device: torch.device,
    *,
    cold: bool,
) -> Profile:
    # What is no segment is no kernel, whatever its name.
    names = [step.name if isinstance(step, Segment) else "" for step in plan.segmented.steps]
    loading = [runner.kernels[n].load_seconds if n in runner.kernels else 0.0 for n in names]
    steps = tuple(
        KernelProfile(
            name=step.name,
            kind=step.kind,
            scheduler=step.scheduler,
            segment_id=number,
            device=str(device),
            time_ms=median(times.steps[number] for times in taken),
            compile_time_ms=1e3 * loading[number],
            input_bytes=step.bytes_read,
            output_bytes=step.bytes_written,
            copy_time_ms=median(times.copies[number] for times in taken)
            if _half_its_bytes(step)
            else None,
        )
        for number, step in enumerate(plan.steps)
    )
    total = median(sum(times.steps) + times.host for times in taken)
    host = median(times.host for times in taken)
    return Profile(
        target=plan.target,
        device=str(device),
        runs=len(taken),
        cold=cold,
        steps=steps,
        total_time_ms=total,
        host_time_ms=host,
        bytes_copied=plan.bytes_copied,
    )


def _timed_run(
    runner: Runner, inputs: Inputs, steps: int, watch: Stopwatch
) -> tuple[list[torch.Tensor], list[float], float]:
    """The outputs of one run, the milliseconds of every step, and what the host takes beside or
    before them."""
    run = runner.marked
    watch.hold()
    marks: list[object] = [watch.mark()]
    begin = time.perf_counter()
    outputs = run(inputs, lambda: marks.append(watch.mark()))
    host = 1e3 * (time.perf_counter() - begin)
    assert len(marks) == steps + 1
    times = watch.between(marks)
    return outputs, times, host if watch.is_asynchronous else max(host - sum(times), 0.0)


def _timed(copy: Callable[[], object] | None, flush: Callable[[], None], watch: Stopwatch) -> float:
    """The milliseconds of a copy, whose memory is in the caches as the run before left it."""
    if copy is None:
        return 0.0
    flush()
    watch.hold()
    marks: list[object] = [watch.mark()]
    copy()
    marks.append(watch.mark())
    (took,) = watch.between(marks)
    return took


def _copy(step: Step, device: torch.device) -> Callable[[], object] | None:
    """Reads and writes as many bytes together as a step does; None where that is nothing.

    They are random: of zeros, all pages may be one, and GPUs move fewer bits. torch's generator is
    left as it was.
    """
    half = _half_its_bytes(step)
    if half == 0:
        return None
    generator = torch.Generator(device)
    source = torch.empty(half, dtype=torch.uint8, device=device).random_(generator=generator)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _half_its_bytes(step: Step) -> int:
    return (step.bytes_read + step.bytes_written) // 2


def _flusher(device: torch.device) -> Callable[[], None]:
    buffer = torch.zeros(_COLD_BYTES, dtype=torch.uint8, device=device)

    def flush() -> None:
        buffer.add_(1)

    return flush


def _nothing() -> None:
    pass
