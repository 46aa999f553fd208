"""A whole fusion in torch, one operation at a time, for machines without a compiler."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import torch

from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Inputs, Output, Value
from fuser.ir.strided import Strided
from fuser.segmenter.bookends import eager_memories


def oracle_runner(
    fusion: Fusion, inputs: Inputs, device: torch.device
) -> Callable[[Inputs], list[torch.Tensor]]:
    """A function of inputs that lie as these, which returns the outputs and updates inputs, as
    kernels would. The fusion is for their sizes.

    Outputs lie as a plan has them, which is what callers count on: torch lays out some results as
    their operands lie, as copies of what is turned and expanded, or `cat` of images.
    """
    given = _tensors(fusion, inputs).items()
    memory = {v: Strided(v, tuple(t.shape), tuple(t.stride())) for v, t in given}
    lies = eager_memories(fusion, memory)

    def run(inputs: Inputs) -> list[torch.Tensor]:
        held = _tensors(fusion, inputs)
        with torch.no_grad():
            results = interpret(fusion, inputs, device)
            made = list(zip(fusion.outputs, results, strict=True))
            new = [(held[o.alias_of], r.clone()) for o, r in made if o.alias_of is not None]
            updated = [into for into, _ in new]
            outputs = [
                _laid_out(_handed(output, result, held, updated), lies[output.value])
                for output, result in made
                if output.alias_of is None
            ]
            for into, result in new:
                into.copy_(result)
        return outputs

    return run


def _tensors(fusion: Fusion, inputs: Inputs) -> dict[Value, torch.Tensor]:
    """Those of a fusion's inputs."""
    pairs = zip(fusion.inputs, inputs, strict=True)
    return {value: given for value, given in pairs if isinstance(given, torch.Tensor)}


def _laid_out(result: torch.Tensor, lies: Strided) -> torch.Tensor:
    """A result that lies as `lies`, copied if it does otherwise."""
    spans = zip(result.shape, result.stride(), lies.strides, strict=True)
    if result.numel() == 0 or all(have == want for size, have, want in spans if size > 1):
        return result
    once = result[tuple(slice(None) if stride else slice(1) for stride in lies.strides)]
    made = torch.empty_strided(once.shape, lies.strides, dtype=result.dtype, device=result.device)
    return made.copy_(once).expand(result.shape)


def _handed(
    output: Output,
    result: torch.Tensor,
    held: Mapping[Value, torch.Tensor],
    updated: Collection[torch.Tensor],
) -> torch.Tensor:
    """What is handed back: an input, or a result, copied if it is memory that is updated."""
    if output.shown_in is not None:
        return held[output.shown_in].detach()
    taken = {into.untyped_storage().data_ptr() for into in updated}
    return result.clone() if result.untyped_storage().data_ptr() in taken else result
