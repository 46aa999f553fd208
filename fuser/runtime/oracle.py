"""A whole fusion in torch, one operation at a time, for machines without a compiler."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import torch

from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Inputs, Value


def oracle_runner(fusion: Fusion, device: torch.device) -> Callable[[Inputs], list[torch.Tensor]]:
    """A function that returns the outputs and updates inputs, as kernels would."""

    def run(inputs: Inputs) -> list[torch.Tensor]:
        pairs = zip(fusion.inputs, inputs, strict=True)
        held = {value: given for value, given in pairs if isinstance(given, torch.Tensor)}
        with torch.no_grad():
            results = interpret(fusion, inputs, device)
            made = list(zip(fusion.outputs, results, strict=True))
            new = [(held[o.alias_of], r.clone()) for o, r in made if o.alias_of is not None]
            handed = [(o, r) for o, r in made if o.alias_of is None]
            updated = [into for into, _ in new]
            outputs = [_handed(fusion.shown_in(o), r, held, updated) for o, r in handed]
            for into, result in new:
                into.copy_(result)
        return outputs

    return run


def _handed(
    shown: Value | None,
    result: torch.Tensor,
    held: Mapping[Value, torch.Tensor],
    updated: Collection[torch.Tensor],
) -> torch.Tensor:
    """What is handed back: an input, or a result, copied if it is memory that is updated."""
    if shown is not None:
        return held[shown].detach()
    taken = {into.untyped_storage().data_ptr() for into in updated}
    return result.clone() if result.untyped_storage().data_ptr() in taken else result
