"""Running without a compiler: torch, one operation at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Number


def oracle_runner(
    fusion: Fusion, device: torch.device
) -> Callable[[Sequence[torch.Tensor | Number]], list[torch.Tensor]]:
    """Runs a whole fusion in torch, for machines without a compiler."""

    def run(inputs: Sequence[torch.Tensor | Number]) -> list[torch.Tensor]:
        with torch.no_grad():
            return interpret(fusion, inputs, device)

    return run
