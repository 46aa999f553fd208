"""What an execution took, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from fuser.runtime.plans.profile_members import ProfileMembers
from fuser.runtime.plans.table import table
from fuser.segmenter import byte_count


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
    Fusion tells. `bytes_copied` are those of the copies into inputs when all steps are done, which
    no step's time or bytes have.
    """

    target: str
    device: str
    runs: int
    cold: bool
    steps: tuple[KernelProfile, ...]
    total_time_ms: float
    host_time_ms: float
    fusion_id: int = -1
    bytes_copied: int = 0

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
            f"total: {milliseconds(self.total_time_ms)}; "
            f"steps {milliseconds(self.kernel_time_ms)}, host {milliseconds(self.host_time_ms)}"
            f"{'' if self.runs == 1 else ', medians each'}; "
            f"{byte_count(self.input_bytes + self.output_bytes)} moved, "
            f"{self.effective_bandwidth_gbs:.1f} GB/s; compiled in "
            f"{milliseconds(self.compile_time_ms)}",
        ]
        if self.bytes_copied:
            copied = byte_count(self.bytes_copied)
            lines.append(f"copies into inputs, which are no steps, moved {copied} more")
        return "\n".join(lines)


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
