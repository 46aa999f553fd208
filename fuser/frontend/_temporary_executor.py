"""Runs a fusion on the oracle until fuser.pipeline exists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fuser.ir.binding import check_inputs
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Number

Plan = object


class Executor:
    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion

    def execute(
        self,
        inputs: Sequence[torch.Tensor | Number],
        *,
        target: str | None = None,
        device: Any = None,
    ) -> list[torch.Tensor]:
        check_inputs(self.fusion, inputs)
        results = interpret(self.fusion, inputs)
        pairs = zip(results, self.fusion.outputs, strict=True)
        return [result for result, output in pairs if output.alias_of is None]

    def plan(self, inputs: Sequence[torch.Tensor | Number], *, target: str | None = None) -> Plan:
        check_inputs(self.fusion, inputs)
        return object()
