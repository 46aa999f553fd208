"""A segmented fusion as the plan a person reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from fuser.ir.nodes import Fusion
from fuser.ir.printer import operation_names, print_fusion
from fuser.runtime.backend import Backend
from fuser.runtime.plans.plan import AliasStep, ExternStep, KernelStep, Plan, Step
from fuser.runtime.target_name import TargetName
from fuser.schedule import scheduler_of
from fuser.segmenter import AliasStep as SegmentedAlias
from fuser.segmenter import ExternStep as SegmentedExtern
from fuser.segmenter import Segment, SegmentedFusion, Update, byte_count


def describe(
    definition: Fusion, segmented: SegmentedFusion, backend: Backend, target: TargetName
) -> Plan:
    """The plan that runs `segmented`, which `definition` became, on `backend`."""
    numbers = _numbers(segmented)
    steps: list[Step] = []
    for step in segmented.steps:
        match step:
            case Segment():
                apart = _apart(step.name, segmented, numbers)
                steps.append(_kernel(step, backend, apart))
            case SegmentedAlias():
                source = str(step.memory.base)
                steps.append(AliasStep(str(step.output), source, step.operations, step.reason))
            case SegmentedExtern():
                steps.append(_extern(step))
            case _:
                assert_never(step)
    return Plan(
        target=str(target),
        steps=tuple(steps),
        boundaries=_boundaries(segmented, backend, numbers),
        log=segmented.log,
        definition=definition,
        segmented=segmented,
        updates=tuple(_update(update, segmented, backend, numbers) for update in segmented.updates),
        bytes_copied=sum(update.bytes_copied for update in segmented.updates),
    )


def _numbers(segmented: SegmentedFusion) -> dict[str, int]:
    """The steps that are segments, by name: their numbers."""
    return {s.name: n for n, s in enumerate(segmented.steps) if isinstance(s, Segment)}


def _update(
    update: Update, segmented: SegmentedFusion, backend: Backend, numbers: Mapping[str, int]
) -> str:
    """How an input is updated, and why."""
    words = f"{update.output} -> {update.into}: "
    if update.refusal is not None:
        copied = byte_count(update.bytes_copied)
        return f"{words}copied when all steps are done, {copied} moved, as {update.refusal}"
    base = segmented.memory[update.output].base
    by = next(s for s in segmented.segments if any(s.memory[v].base is base for v in s.stores))
    return f"{words}in place, by {_name(by.name, backend)}, step {numbers[by.name]}"


def _apart(
    name: str, segmented: SegmentedFusion, numbers: Mapping[str, int]
) -> tuple[tuple[int, str], ...]:
    """The steps that a segment might have been one with, and why it is not."""
    ends = (((b.first, b.second), b.reason) for b in segmented.boundaries)
    others = ((pair[1 - pair.index(name)], reason) for pair, reason in ends if name in pair)
    return tuple((numbers[other], reason) for other, reason in others)


def _boundaries(
    segmented: SegmentedFusion, backend: Backend, numbers: Mapping[str, int]
) -> tuple[str, ...]:
    """Why there is more than one kernel, a line for each two that might have been one."""

    def words(name: str) -> str:
        return f"{numbers[name]} {_name(name, backend)}"

    return tuple(f"{words(b.first)} | {words(b.second)}: {b.reason}" for b in segmented.boundaries)


def _name(segment: str, backend: Backend) -> str:
    """The name of a segment's kernel, if it has one."""
    return backend.nests[segment].name if segment in backend.nests else segment


def _kernel(segment: Segment, backend: Backend, apart: tuple[tuple[int, str], ...]) -> KernelStep:
    nest, scheduler = backend.nests.get(segment.name), scheduler_of(segment)
    return KernelStep(
        name=segment.name if nest is None else nest.name,
        scheduler="torch" if scheduler is None or nest is None else scheduler.value,
        operations=operation_names(segment.fusion),
        definition=print_fusion(segment.fusion),
        kernel_source=backend.sources.get(segment.name),
        nest=nest,
        bytes_read=segment.bytes_read,
        bytes_written=segment.bytes_written,
        leaves=segment.leaves,
        apart=apart,
        compiler=backend.resources,
        bytes_read_again=segment.bytes_read_again,
    )


def _extern(step: SegmentedExtern) -> ExternStep:
    return ExternStep(
        name=step.name,
        operations=operation_names(step.fusion),
        bytes_read=step.bytes_read,
        bytes_written=step.bytes_written,
        reason=step.reason,
    )


def print_segments(segmented: SegmentedFusion) -> str:
    """Each step: segments and what torch runs as definitions, aliases in a line."""
    parts: list[str] = []
    for step in segmented.steps:
        if isinstance(step, SegmentedAlias):
            made = " -> ".join(step.operations)
            parts.append(f"# {step.output} is {made} of {step.memory.base}, on the host\n")
        else:
            by = "" if isinstance(step, Segment) else ", run by torch"
            parts.append(f"# {step.name}{by}\n{print_fusion(step.fusion)}")
    return "\n".join(parts)
