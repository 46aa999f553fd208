"""Running a definition through the pipeline, every kernel of its plan under a sanitizer."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import pytest
import torch

from fuser import FusionDefinition
from fuser.codegen import KernelSource, Pointer, Workspace
from fuser.ir.nodes import Number
from fuser.planning import compile_plan
from fuser.runtime.calls.executor import LoadedKernel, Runner
from fuser.runtime.emulator import Sanitizer, ThreadOrder, run_sanitized
from fuser.runtime.emulator.sanitize import is_available
from fuser.runtime.kernels.kernel import Launcher, as_c, c_type, sizes_of
from fuser.runtime.target_name import resolve_target
from fuser.segmenter import Segment

CPU = torch.device("cpu")
Inputs = Sequence["torch.Tensor | Number"]


class SanitizerFindingError(AssertionError):
    """A kernel of a plan does what CUDA does not allow."""


def usable(sanitizer: Sanitizer) -> Sanitizer:
    """The sanitizer; its test is skipped where kernels cannot be built or run with it."""
    if not is_available(sanitizer):
        pytest.skip(f"the C++ compiler cannot build, or this machine not run, {sanitizer.name}")
    return sanitizer


def run_plan_sanitized(
    definition: FusionDefinition,
    inputs: Inputs,
    sanitizer: Sanitizer,
    order: ThreadOrder = ThreadOrder.RUN_AHEAD,
) -> list[torch.Tensor]:
    """The outputs; raises SanitizerFindingError with the report and the kernel's text."""
    compiled = compile_plan(definition.fusion, inputs, resolve_target("emulator", CPU))
    kernels = {
        segment.name: LoadedKernel(
            segment,
            compiled.backend.sources[segment.name],
            _sanitized(segment, compiled.backend.sources[segment.name], sanitizer, order),
            sizes_of(compiled.backend.sources[segment.name]),
        )
        for segment in compiled.segmented.segments
    }
    assert kernels, "the plan has no kernel"
    return Runner(compiled.segmented, kernels, CPU).run(inputs)


def _sanitized(
    segment: Segment, source: KernelSource, sanitizer: Sanitizer, order: ThreadOrder
) -> Launcher:
    def launch(*numbers: object) -> None:
        arguments = [
            _buffer(segment, argument, number)
            if isinstance(argument, Pointer)
            else _memory(number, argument.elements * argument.dtype.itemsize)
            if isinstance(argument, Workspace)
            else as_c([c_type(argument)], [number])[0]
            for argument, number in zip(source.arguments, numbers, strict=True)
        ]
        extents = source.launch.grid, source.launch.block
        report = run_sanitized(
            source.code,
            source.name,
            *extents,
            arguments,
            sanitizer,
            shared_bytes=source.launch.shared_bytes,
            cluster=source.launch.cluster,
            order=order,
        )
        if report.findings:
            raise SanitizerFindingError(f"{report.findings}\n{source.text}")

    return launch


def _buffer(segment: Segment, argument: Pointer, address: object) -> torch.Tensor:
    """The bytes a kernel may touch, from the buffer's first to its last element."""
    lies = segment.memory[argument.value]
    base = segment.memory.get(lies.base, lies)
    if lies.elements == 0:
        return torch.empty(0, dtype=torch.uint8)
    nbytes = (max(lies.last_offset, base.last_offset) + 1) * lies.base.dtype.itemsize
    return _memory(address, nbytes)


def _memory(address: object, nbytes: int) -> torch.Tensor:
    assert isinstance(address, int)
    memory = (ctypes.c_char * nbytes).from_address(address)
    return torch.frombuffer(memory, dtype=torch.uint8)
