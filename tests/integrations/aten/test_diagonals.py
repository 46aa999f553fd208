"""Diagonals under torch.compile, read and written, of sizes that are not known before the call."""

from __future__ import annotations

import pytest
import torch

from fuser.integrations import dynamo


def gradients(run: object, *sizes: int) -> list[torch.Tensor]:
    x = torch.linspace(-1, 2, sizes[0] * sizes[1]).view(sizes).requires_grad_()
    results = run(x)  # pyright: ignore[reportCallIssue]
    sum((result * (n + 2)).sum() for n, result in enumerate(results)).backward()
    assert x.grad is not None
    return [*(result.detach() for result in results), x.grad]


def read(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.diagonal(1).exp(), x.sin().diagonal(-1)


def traced(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (torch.trace(x * x),)


def written(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    y.diagonal().add_(1)
    y.diagonal(-2).mul_(x.diagonal(-2))
    return (y * y,)


@pytest.mark.parametrize("function", [read, traced, written])
@pytest.mark.parametrize("dynamic", [False, True])
def test_diagonals_of_any_size(function: object, dynamic: bool) -> None:
    if dynamic and function is traced and torch.__version__ < (2, 13):
        pytest.skip("torch 2.11 cannot trace this gradient with open sizes, whatever the backend")
    dynamo.clear_reports()
    compiled = torch.compile(function, backend="fuser", dynamic=dynamic)
    for sizes in ((4, 4), (6, 3), (5, 9)):
        for got, expected in zip(
            gradients(compiled, *sizes), gradients(function, *sizes), strict=True
        ):
            torch.testing.assert_close(got, expected)
    if not dynamic:
        assert {report.percent for report in dynamo.reports()} == {100.0}
