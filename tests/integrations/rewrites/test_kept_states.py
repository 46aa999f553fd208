"""Random numbers of checkpointed parts, which the backward makes again."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from fuser.integrations import dynamo


@pytest.mark.parametrize("partition", ["min_cut", "default"])
def test_dropout_of_a_checkpointed_part_is_covered(partition: str) -> None:
    weight = torch.randn(8, 8)

    def part(x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(torch.tanh(x @ weight), 0.5)

    def function(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(part, x, use_reentrant=False)

    run = torch.compile(function, backend="fuser", options={"partition": partition})
    x = torch.randn(16, 8, requires_grad=True)
    made = run(x)
    made.sum().backward()
    slope = (made != 0) * 2 * (1 - torch.tanh(x.detach() @ weight).square())
    torch.testing.assert_close(x.grad, slope @ weight.T)
    assert 0 < (made == 0).sum() < made.numel()
    uncovered = [entry.overload for report in dynamo.reports() for entry in report.uncovered]
    assert uncovered == ["run_and_save_rng_state", "run_with_rng_state"]
