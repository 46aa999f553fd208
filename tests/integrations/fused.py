"""Functions that are compiled to partitions alone."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fuser.integrations import dynamo


def assert_fused(function: Callable[..., torch.Tensor], *given: torch.Tensor) -> None:
    """Compares forward and backward with eager, and asserts that partitions have all of both."""
    dynamo.clear_reports()
    results: list[list[torch.Tensor]] = []
    for run in (function, torch.compile(function, backend="fuser")):
        inputs = [x.detach().clone() for x in given]
        floats = [x.requires_grad_() for x in inputs if x.is_floating_point()]
        y = run(*inputs)
        results.append([y.detach()])
        if floats:
            weights = torch.linspace(-1, 1, y.numel()).view(y.shape)
            results[-1] += torch.autograd.grad((y * weights).sum(), floats)
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert {report.percent for report in dynamo.reports()} == {100.0}
