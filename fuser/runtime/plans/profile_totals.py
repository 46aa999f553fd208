"""What the steps of many executions took together: where the time of a model goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from fuser.runtime.plans.profile import KernelProfile, Profile, milliseconds
from fuser.runtime.plans.table import Row, table
from fuser.segmenter import byte_count


@dataclass(frozen=True, slots=True)
class StepTotal:
    """One step of a Fusion in all executions of it that were timed, on one target."""

    fusion_id: int
    target: str
    times: tuple[KernelProfile, ...]

    @property
    def step(self) -> KernelProfile:
        """As the first execution timed it."""
        return self.times[0]

    @property
    def total_time_ms(self) -> float:
        """Of all executions together."""
        return sum(step.time_ms for step in self.times)

    @property
    def time_ms(self) -> float:
        """The median of an execution."""
        return median(step.time_ms for step in self.times)

    @property
    def bytes_moved(self) -> int:
        """Read and written by all executions together."""
        return sum(step.input_bytes + step.output_bytes for step in self.times)

    @property
    def fraction_of_copy(self) -> float | None:
        """The median of an execution's; None where nothing is moved."""
        fractions = [step.fraction_of_copy for step in self.times]
        known = [fraction for fraction in fractions if fraction is not None]
        return median(known) if known else None


def step_totals(profiles: Iterable[Profile]) -> list[StepTotal]:
    """The steps of executions, those that took longest together first."""
    found: dict[tuple[int, str, int, str], list[KernelProfile]] = {}
    for profile in profiles:
        for step in profile.steps:
            of_one = (profile.fusion_id, profile.target, step.segment_id, step.name)
            found.setdefault(of_one, []).append(step)
    totals = [
        StepTotal(fusion_id, target, tuple(times))
        for (fusion_id, target, *_), times in found.items()
    ]
    return sorted(totals, key=lambda total: total.total_time_ms, reverse=True)


def totals_table(profiles: Sequence[Profile]) -> str:
    """A line for each step of `step_totals`, and one for all of them."""
    totals = step_totals(profiles)
    taken = sum(total.total_time_ms for total in totals)
    head = ("fusion", "step", "name", "calls", "time", "of all", "each", "moved", "of copy")
    steps = [_row(total, taken) for total in totals]
    moved = byte_count(sum(total.bytes_moved for total in totals))
    host = sum(profile.host_time_ms for profile in profiles)
    lines = [
        f"{len(profiles)} execution(s), each timed once; those of one step together",
        *table(head, steps, {2: 44}),
        f"steps {milliseconds(taken)}, host {milliseconds(host)}; {moved} moved",
    ]
    return "\n".join(lines)


def _row(total: StepTotal, taken: float) -> Row:
    fraction = total.fraction_of_copy
    step = total.step
    return (
        str(total.fusion_id),
        str(step.segment_id),
        step.words,
        str(len(total.times)),
        milliseconds(total.total_time_ms),
        f"{100 * total.total_time_ms / taken:.1f} %" if taken else "-",
        milliseconds(total.time_ms),
        byte_count(total.bytes_moved),
        "-" if fraction is None else f"{fraction:.2f}",
    )
