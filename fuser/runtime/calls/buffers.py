"""Memory for one call of a plan: in which form it is made, and how results of torch lie."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fuser.codegen import Workspace
from fuser.ir.nodes import Value
from fuser.runtime.calls.torch_shortcuts import empty_strided
from fuser.runtime.cuda.driver import current_stream
from fuser.schedule import ACCESS_BYTES
from fuser.segmenter import ExternStep, SegmentedFusion


def sole_aliases(segmented: SegmentedFusion) -> dict[Value, Value]:
    """Buffers handed out once, and only under another shape: they are made in that shape."""
    handed: dict[Value, set[Value]] = {}
    for value in segmented.fusion.output_values:
        handed.setdefault(segmented.memory[value].base, set()).add(value)
    read_by_torch = {
        lies.base
        for step in segmented.steps
        if isinstance(step, ExternStep)
        for lies in step.memory.values()
    }
    read_by_torch |= {
        segmented.memory[output.value].base
        for output in segmented.fusion.outputs
        if output.alias_of is not None
    }
    sole: dict[Value, Value] = {}
    for base, values in handed.items():
        (value, *others) = values
        lies = segmented.memory[value]
        same_elements = lies.elements == segmented.memory[base].elements
        if not others and value is not base and same_elements and base not in read_by_torch:
            sole[base] = value
    return sole


def laid_out(result: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A result of torch under the strides that the plan has; copied if it lies otherwise."""
    if result.stride() == strides and result.data_ptr() % ACCESS_BYTES == 0:
        return result  # as nearly always
    if _lies_right(result, strides):
        return result.as_strided(result.shape, strides) if result.stride() != strides else result
    made = torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device)
    return made.copy_(result)


def _lies_right(result: torch.Tensor, strides: tuple[int, ...]) -> bool:
    """Whether elements are where the plan has them, and begin where threads of a GPU can move
    several at once."""
    elements = result.numel()
    if elements == 0:
        return True
    spans = zip(result.shape, result.stride(), strides, strict=True)
    alike = all(have == want for size, have, want in spans if size > 1)
    return alike and (elements == 1 or result.data_ptr() % ACCESS_BYTES == 0)


def room_maker(workspace: Workspace, device: torch.device) -> Callable[[], torch.Tensor]:
    """What makes the memory of a workspace for one call, on the current stream.

    What is freed after the launch is reused by later work of the same stream only. What a kernel
    leaves 0 serves the next one on that stream, which saves a kernel that writes zeros; a CUDA
    graph, which may be replayed on another stream, has memory of its own.
    """
    elements, dtype = workspace.elements, workspace.dtype.torch
    if not workspace.zeroed:
        make = empty_strided(device)
        return lambda: make((elements,), (1,), dtype)
    if not (workspace.restored and device.type == "cuda" and elements <= _KEPT_ZEROS):
        return lambda: torch.zeros(elements, dtype=dtype, device=device)

    def shared() -> torch.Tensor:
        if torch.cuda.is_current_stream_capturing():
            return torch.zeros(elements, dtype=dtype, device=device)
        return _zeros(dtype, device.index or 0)

    return shared


_KEPT_ZEROS = 1 << 18
"""Numbers that are 0 between the kernels of a stream."""

_OF_STREAM: dict[tuple[torch.dtype, int, int], torch.Tensor] = {}


def _zeros(dtype: torch.dtype, device: int) -> torch.Tensor:
    """The zeros that kernels of the current stream share, one after the other."""
    key = dtype, device, current_stream(device)
    held = _OF_STREAM.get(key)
    if held is None:
        made = torch.zeros(_KEPT_ZEROS, dtype=dtype, device=torch.device("cuda", device))
        held = _OF_STREAM.setdefault(key, made)
    return held
