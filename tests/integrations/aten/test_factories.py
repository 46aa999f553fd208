"""Ranges whose ends are known at the call only."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser.integrations import dynamo

Function = Callable[[torch.Tensor], torch.Tensor]


def assert_same(function: Function) -> None:
    run = torch.compile(function, backend="fuser", dynamic=True)
    for count in (8, 11, 12):
        x = torch.randn(count)
        torch.testing.assert_close(run(x), function(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * torch.arange(float(x.shape[0])),
        lambda x: x * torch.arange(0, x.shape[0] / 1, 1.0),
        lambda x: x * torch.arange(float(x.shape[0]), 0, -1),
        lambda x: x.masked_scatter(x > 0, torch.arange(float(x.numel()))),
        lambda x: torch.arange(0, x.shape[0] * 0.5, 2) * 1.5 + 1,
        lambda x: torch.arange(0.5, x.shape[0] / 3) * 2,
        lambda x: torch.arange(x.shape[0] / 2, -1.0, -0.75, dtype=torch.double) * 2,
    ],
)
def test_ranges_between_floats_that_follow_from_sizes_are_counted(function: Function) -> None:
    assert_same(function)
    uncovered = [entry.overload for report in dynamo.reports() for entry in report.uncovered]
    assert not any("arange" in overload for overload in uncovered)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.arange(0.0, x.shape[0] / 2, dtype=torch.int64) * 2,
        lambda x: x.sin()[torch.arange(0.0, x.shape[0] / 2, dtype=torch.int64)] + 1,
    ],
)
def test_ranges_of_integers_between_floats_are_torchs(function: Function) -> None:
    assert_same(function)
    (entry,) = (entry for report in dynamo.reports() for entry in report.uncovered)
    assert entry.reason == "its length does not follow from whole numbers"
