"""What every test of a target asks: does executing a definition give the oracle's numbers?"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fuser import FusionDefinition

Given = Sequence["torch.Tensor | float"]


def agrees(fd: FusionDefinition, inputs: Given, target: str) -> list[torch.Tensor]:
    """The outputs on `target`, which are the oracle's: numbers, dtypes and sizes."""
    return fd.validate(inputs, target=target)
