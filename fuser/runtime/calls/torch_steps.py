"""What torch does in a call of a plan: whole steps, updates of inputs, copies of what is shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from fuser.errors import ExternError, FuserError
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Inputs
from fuser.runtime.calls.buffers import laid_out
from fuser.segmenter import ExternStep, Segment

Operands = Sequence["torch.Tensor | complex"]


def _in_torch(
    step: ExternStep | Segment, device: torch.device
) -> Callable[[Operands], list[torch.Tensor]]:
    """A function that makes the results of a step by the oracle."""
    fusion, name = step.fusion, step.name

    def compute(operands: Operands) -> list[torch.Tensor]:
        try:
            with torch.no_grad():
                return interpret(fusion, operands, device)
        except FuserError:
            raise
        except (RuntimeError, IndexError) as error:
            raise ExternError(operation=name, reason=error) from error

    return compute


def extern(step: ExternStep, device: torch.device) -> Callable[[Operands], list[torch.Tensor]]:
    """A function that makes the results of a step under the strides that the plan has."""
    compute = _in_torch(step, device)
    strides = [step.memory[value].strides for value in step.fusion.output_values]

    def run(operands: Operands) -> list[torch.Tensor]:
        return list(map(laid_out, compute(operands), strides))

    return run


def interpreted(
    step: Segment, device: torch.device
) -> Callable[[Operands, Sequence[torch.Tensor]], None]:
    """A function that puts the results of a segment into its stores, one operation at a time."""
    compute = _in_torch(step, device)

    def run(operands: Operands, stores: Sequence[torch.Tensor]) -> None:
        for store, result in zip(stores, compute(operands), strict=True):
            store.copy_(result)

    return run


def update(held: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
    """Write results into the inputs they replace, once everything has read the old values."""
    with torch.no_grad():
        for into, result in zip(held, results, strict=True):
            into.copy_(result)


def separated(outputs: list[torch.Tensor], inputs: Inputs) -> list[torch.Tensor]:
    """Outputs in memory of their own, where some may have come as an input's or as others'."""
    taken = {_address(given) for given in inputs if isinstance(given, torch.Tensor)}
    for at, output in enumerate(outputs):
        address = _address(output)
        if address in taken:
            outputs[at] = output.clone(memory_format=torch.preserve_format)
        taken.add(address)
    return outputs


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
