"""Times of a plan's steps, each beside a copy of as many bytes on the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from fuser.ir.nodes import Inputs
from fuser.runtime.executor import Runner
from fuser.runtime.plan import Plan, Step
from fuser.runtime.profile_members import ProfileMembers
from fuser.runtime.stopwatch import Stopwatch, stopwatch_for
from fuser.runtime.table import table
from fuser.segmenter import Segment, byte_count

_COLD_BYTES = 256 << 20
"""Written before a cold run: more than caches hold."""


@dataclass(frozen=True, slots=True)
class KernelProfile(ProfileMembers):
    """One step: a kernel, an alias, or what torch runs. Times are medians, in milliseconds.

    `copy_time_ms` is what a copy takes that reads and writes as many bytes together, timed among
    the same runs; None where no bytes move. `compile_time_ms` is what it took to compile or find
    the kernel when the plan was first prepared, 0 for other steps.
    """

    name: str
    kind: str
    scheduler: str
    segment_id: int
    device: str
    time_ms: float
    compile_time_ms: float
    input_bytes: int
    output_bytes: int
    copy_time_ms: float | None

    @property
    def effective_bandwidth_gbs(self) -> float:
        """Bytes moved over time, in 1e9 bytes a second."""
        return _bandwidth(self.input_bytes + self.output_bytes, self.time_ms)

    @property
    def words(self) -> str:
        """Its name, and what it is if not a kernel."""
        return self.name if self.kind == "kernel" else f"{self.name} ({self.kind})"

    @property
    def fraction_of_copy(self) -> float | None:
        """1.0: it takes as long as copying as many bytes; 0.5: twice as long."""
        if self.copy_time_ms is None or self.time_ms == 0:
            return None
        return self.copy_time_ms / self.time_ms


@dataclass(frozen=True, slots=True)
class Profile(ProfileMembers):
    """An execution, step by step. Times are medians of `runs`, in milliseconds.

    `host_time_ms` is what `execute` takes beside its steps; on CUDA, until all of them are queued.
    `cold` says whether caches were flushed before every run. `fusion_id` is what `id()` of the
    Fusion tells.
    """

    target: str
    device: str
    runs: int
    cold: bool
    steps: tuple[KernelProfile, ...]
    total_time_ms: float
    host_time_ms: float
    fusion_id: int = -1

    @property
    def kernel_profiles(self) -> tuple[KernelProfile, ...]:
        """The steps that compute: kernels, and what torch runs, which nvFuser counts as well."""
        return tuple(step for step in self.steps if step.kind != "alias")

    @property
    def segments(self) -> int:
        """How many steps compute."""
        return len(self.kernel_profiles)

    @property
    def kernel_time_ms(self) -> float:
        """The time of all steps."""
        return sum(step.time_ms for step in self.steps)

    @property
    def compile_time_ms(self) -> float:
        """What it took to compile or find every kernel, one after the other."""
        return sum(step.compile_time_ms for step in self.steps)

    @property
    def input_bytes(self) -> int:
        """Bytes read by all steps."""
        return sum(step.input_bytes for step in self.steps)

    @property
    def output_bytes(self) -> int:
        """Bytes written by all steps."""
        return sum(step.output_bytes for step in self.steps)

    @property
    def effective_bandwidth_gbs(self) -> float:
        """Bytes moved by all steps over their time, in 1e9 bytes a second."""
        return _bandwidth(self.input_bytes + self.output_bytes, self.kernel_time_ms)

    def __str__(self) -> str:
        caches = "flushed before each" if self.cold else "as the run before left them"
        head = (
            "step",
            "name",
            "scheduler",
            "time",
            "read",
            "written",
            "GB/s",
            "of copy",
            "compile",
        )
        medians = f"medians of {self.runs} runs, caches {caches}"
        if self.runs == 1:
            medians = f"one run, caches {caches}"
        lines = [
            f"profile for {self.target} on {self.device}: {medians}",
            *table(head, [_row(step) for step in self.steps], {1: 44}),
            f"total: {milliseconds(self.total_time_ms)}, of which steps "
            f"{milliseconds(self.kernel_time_ms)} and host {milliseconds(self.host_time_ms)}; "
            f"{byte_count(self.input_bytes + self.output_bytes)} moved, "
            f"{self.effective_bandwidth_gbs:.1f} GB/s; compiled in "
            f"{milliseconds(self.compile_time_ms)}",
        ]
        return "\n".join(lines)


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
    return Profile(plan.target, str(device), len(taken), cold, steps, total, host)


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
    """Reads and writes as many bytes together as a step does; None where that is nothing."""
    half = _half_its_bytes(step)
    if half == 0:
        return None
    source, target = (torch.zeros(half, dtype=torch.uint8, device=device) for _ in range(2))
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


def _row(step: KernelProfile) -> tuple[str, ...]:
    moves = step.input_bytes + step.output_bytes > 0
    fraction = step.fraction_of_copy
    return (
        str(step.segment_id),
        step.words,
        step.scheduler,
        milliseconds(step.time_ms),
        byte_count(step.input_bytes),
        byte_count(step.output_bytes),
        f"{step.effective_bandwidth_gbs:.1f}" if moves else "-",
        "-" if fraction is None else f"{fraction:.2f}",
        milliseconds(step.compile_time_ms) if step.kind == "kernel" else "-",
    )


def milliseconds(given: float) -> str:
    """Milliseconds in words."""
    return f"{given:.3g} ms" if given >= 0.1 else f"{1e3 * given:.3g} us"


def _bandwidth(nbytes: int, time_ms: float) -> float:
    return nbytes / time_ms / 1e6 if time_ms else 0.0
