"""Steps of torch's optimizers, compiled: what Dynamo writes of them is covered."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fuser.integrations import dynamo


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.RMSprop], ids=lambda k: k.__name__)
def test_a_step_is_torchs(kind: Any, foreach: bool) -> None:
    values = [torch.randn(size, 3) for size in (2, 5)]
    ours, theirs = ([x.clone().requires_grad_() for x in values] for _ in range(2))
    optimizers = [kind(group, lr=0.01, foreach=foreach) for group in (ours, theirs)]
    compiled = torch.compile(optimizers[0].step, backend="fuser")
    for step in (compiled, optimizers[1].step):
        for x in (*ours, *theirs):
            x.grad = torch.arange(3.0).expand(x.shape) - 1
        step()
    torch.testing.assert_close(ours, theirs)
    assert [report.percent for report in dynamo.reports()] == [100.0]
