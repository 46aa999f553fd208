"""A segmented fusion as the plan a person reads."""

from __future__ import annotations

from typing import assert_never

from fuser.ir.nodes import Fusion
from fuser.ir.printer import operation_name, print_fusion
from fuser.runtime.backend import Backend
from fuser.runtime.plan import AliasStep, ExternStep, KernelStep, Plan, Step
from fuser.runtime.target_name import TargetName
from fuser.schedule import scheduler_of
from fuser.segmenter import AliasStep as SegmentedAlias
from fuser.segmenter import ExternStep as SegmentedExtern
from fuser.segmenter import Segment, SegmentedFusion


def describe(segmented: SegmentedFusion, backend: Backend, target: TargetName) -> Plan:
    """The plan that runs `segmented` on `backend`."""
    steps: list[Step] = []
    for step in segmented.steps:
        match step:
            case Segment():
                steps.append(_kernel(step, backend))
            case SegmentedAlias():
                source = str(step.memory.base)
                steps.append(AliasStep(str(step.output), source, step.operations, step.reason))
            case SegmentedExtern():
                steps.append(_extern(step))
            case _:
                assert_never(step)
    return Plan(str(target), tuple(steps), _boundaries(segmented, backend), segmented.log)


def _boundaries(segmented: SegmentedFusion, backend: Backend) -> tuple[str, ...]:
    """Why there is more than one kernel, a line for each two that might have been one."""

    def name(segment: str) -> str:
        return backend.nests[segment].name if segment in backend.nests else segment

    return tuple(f"{name(b.first)} | {name(b.second)}: {b.reason}" for b in segmented.boundaries)


def _kernel(segment: Segment, backend: Backend) -> KernelStep:
    nest, scheduler = backend.nests.get(segment.name), scheduler_of(segment)
    return KernelStep(
        name=segment.name if nest is None else nest.name,
        scheduler="torch" if scheduler is None or nest is None else scheduler.value,
        operations=_operations(segment.fusion),
        definition=print_fusion(segment.fusion),
        kernel_source=backend.sources.get(segment.name),
        parameters="" if nest is None else nest.parameters,
        bytes_read=segment.bytes_read,
        bytes_written=segment.bytes_written,
        reason=segment.reason,
        compiler=backend.resources,
    )


def _extern(step: SegmentedExtern) -> ExternStep:
    return ExternStep(
        name=step.name,
        operations=_operations(step.fusion),
        bytes_read=step.bytes_read,
        bytes_written=step.bytes_written,
        reason=step.reason,
    )


def _operations(fusion: Fusion) -> tuple[str, ...]:
    """Names of the tensor operations, as the user calls them."""
    return tuple(operation_name(s.op) for s in fusion.statements if s.outs[0].is_tensor)
