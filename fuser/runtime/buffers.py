"""Memory for one call of a plan: in which form it is made, and how results of torch lie."""

from __future__ import annotations

import torch

from fuser.codegen import Workspace
from fuser.ir.nodes import Value
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
    spans = zip(result.shape, result.stride(), strides, strict=True)
    if result.numel() == 0 or all(have == want for size, have, want in spans if size > 1):
        return result.as_strided(result.shape, strides) if result.stride() != strides else result
    made = torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device)
    return made.copy_(result)


def room(workspace: Workspace, device: torch.device) -> torch.Tensor:
    """The memory of a workspace, for one call."""
    make = torch.zeros if workspace.zeroed else torch.empty
    return make(workspace.elements, dtype=workspace.dtype.torch, device=device)
