"""Running a segmented fusion step by step in torch, as the executor would with kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fuser.ir.concretize import concretize, size_inputs
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Number, Value
from fuser.ir.strided import Strided
from fuser.ir.verify import verify
from fuser.segmenter import AliasStep, SegmentedFusion, segment

Inputs = Sequence["torch.Tensor | Number"]


def concrete(fusion: Fusion, inputs: Inputs) -> Fusion:
    """`fusion` for the sizes of `inputs`."""
    pairs = list(zip(fusion.inputs, inputs, strict=True))
    shapes = {value: tuple(given.shape) for value, given in pairs if value.is_tensor}
    sized = size_inputs(fusion)
    return concretize(fusion, shapes, {v: given for v, given in pairs if v in sized})


def memory_of(fusion: Fusion, inputs: Inputs) -> dict[Value, Strided]:
    """Where the tensor inputs lie."""
    pairs = zip(fusion.inputs, inputs, strict=True)
    return {
        value: Strided(value, tuple(given.shape), tuple(given.stride()))
        for value, given in pairs
        if isinstance(given, torch.Tensor)
    }


def segment_for(fusion: Fusion, inputs: Inputs) -> SegmentedFusion:
    """`fusion` segmented for the sizes and strides of `inputs`."""
    fusion = concrete(fusion, inputs)
    verify(fusion, "before segmentation")
    return segment(fusion, memory_of(fusion, inputs))


def run_segmented(segmented: SegmentedFusion, inputs: Inputs) -> list[torch.Tensor]:
    """The outputs, each step run by `interpret` on what its memory map says it reads.

    A step may read only inputs and buffers that an earlier step has written; a buffer is filled
    with what its value holds, laid out as the map says.
    """
    pairs = zip(segmented.fusion.inputs, inputs, strict=True)
    held: dict[Value, torch.Tensor | Number] = dict(pairs)

    def read(lies: Strided) -> torch.Tensor:
        base = held[lies.base]
        assert isinstance(base, torch.Tensor)
        return base.as_strided(lies.shape, lies.strides, base.storage_offset() + lies.offset)

    for step in segmented.steps:
        if isinstance(step, AliasStep):
            continue
        verify(step.fusion, step.name)
        operands = [
            read(step.memory[value]) if value.is_tensor else held[value]
            for value in step.fusion.inputs
        ]
        results = interpret(step.fusion, operands)
        for value, result in zip(step.fusion.output_values, results, strict=True):
            lies = step.memory[value]
            assert lies.base is value, f"{step.name} stores {value} in the memory of {lies.base}"
            assert value not in held, f"{value} is stored twice"
            buffer = torch.empty(lies.elements, dtype=value.dtype.torch)
            held[value] = buffer.as_strided(lies.shape, lies.strides).copy_(result)
    return [read(segmented.memory[value]) for value in segmented.fusion.output_values]
