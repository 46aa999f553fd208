"""Writes at truth values under torch.compile."""

from __future__ import annotations

import torch

from fuser.integrations import dynamo


def cleaned(x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y, z = x.sin(), x * 2
    y[mask] = 0.0
    y[x.detach() > 0.5] = x.detach().mean()
    z[:, mask[0]] = -torch.inf
    z[mask[:, 0]] = x.detach()[0]
    return y, z.exp()


def test_one_value_at_the_places_of_a_mask_is_a_choice() -> None:
    """Forward and backward are one partition each, and nothing is torch's."""
    dynamo.clear_reports()
    results: list[list[torch.Tensor]] = []
    compiled = torch.compile(cleaned, backend="fuser", dynamic=True)
    for run in (cleaned, compiled):
        results.append([])
        for rows in (5, 3):
            x = torch.linspace(-1, 1, rows * 4).view(rows, 4).requires_grad_()
            made = run(x, torch.arange(rows * 4).view(rows, 4) % 3 == 0)
            sum(part.sum() for part in made).backward()
            assert x.grad is not None
            results[-1] += [*(part.detach() for part in made), x.grad]
    for expected, got in zip(*results, strict=True):
        torch.testing.assert_close(got, expected)
    assert [report.percent for report in dynamo.reports()] == [100.0, 100.0]


def test_what_the_mask_selects_of_another_tensor_is_torchs() -> None:
    def copied(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[mask] = x[mask] + 1
        return y.exp()

    x, mask = torch.linspace(-1, 1, 12).view(3, 4), torch.arange(12).view(3, 4) % 3 == 0
    torch.testing.assert_close(torch.compile(copied, backend="fuser")(x, mask), copied(x, mask))
