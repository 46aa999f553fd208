"""Front end tests run fusions on the oracle: no compiler, and mistakes of targets do not show."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from fuser.frontend import fusion as held
from fuser.ir.binding import check_inputs
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Number
from fuser.runtime.calls.call import Device


class OracleExecutor:
    """As fuser.pipeline.Executor, by the interpreter."""

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion

    def execute(
        self,
        inputs: Sequence[torch.Tensor | Number],
        *,
        target: str | None = None,
        device: object = None,
    ) -> list[torch.Tensor]:
        check_inputs(self.fusion, inputs)
        results = interpret(self.fusion, inputs)
        pairs = zip(results, self.fusion.outputs, strict=True)
        return [result for result, output in pairs if output.alias_of is None]

    def plan(
        self,
        inputs: Sequence[torch.Tensor | Number],
        *,
        target: str | None = None,
        device: Device = None,
    ) -> object:
        check_inputs(self.fusion, inputs)
        return (self.fusion, target)


@pytest.fixture(autouse=True)
def _oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "Executor", OracleExecutor)
