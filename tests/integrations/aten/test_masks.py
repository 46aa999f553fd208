"""Writes at truth values under torch.compile."""

from __future__ import annotations

from typing import Any

import pytest
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


def tokens(x: torch.Tensor, mask: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[mask] = token
    return y.tanh()


def columns(x: torch.Tensor, mask: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    y[:, mask[0]] = token.mean().double()
    y[mask, :] = token[None]
    y[:, :, mask[0]] = token.sum()[None]
    return y * y


@pytest.mark.parametrize("function", [tokens, columns])
@pytest.mark.parametrize("dynamic", [False, True])
def test_values_with_a_gradient_are_chosen_too(function: Any, dynamic: bool) -> None:
    """As the token that stands for what is masked; torch alone gives up the graph."""
    results: list[list[torch.Tensor]] = []
    dynamo.clear_reports()
    compiled = torch.compile(function, backend="fuser", dynamic=dynamic, fullgraph=True)
    for run in (function, compiled):
        results.append([])
        for rows in (3, 4):
            x = torch.linspace(-1, 1, rows * 25).view(rows, 5, 5).requires_grad_()
            token = torch.linspace(1, 2, 5).requires_grad_()
            y = run(x, torch.arange(rows * 5).view(rows, 5) % 3 == 0, token)
            y.sum().backward()
            results[-1] += [part for part in (y.detach(), x.grad, token.grad) if part is not None]
    assert len(results[0]) == len(results[1]) == 6
    for expected, got in zip(*results, strict=True):
        torch.testing.assert_close(got, expected)
    assert {report.percent for report in dynamo.reports()} == {100.0}


def test_values_for_each_place_of_a_mask_are_no_choice() -> None:
    def filled(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[torch.tensor([True, False, True])] = values
        return y.sin()

    x, values = torch.linspace(-1, 1, 6).view(3, 2), torch.ones(2, 2).requires_grad_()
    got = torch.compile(filled, backend="fuser")(x, values)
    torch.testing.assert_close(got, filled(x, values))


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("shape", [(1, 7), (5, 1)])
def test_masks_of_another_size_are_refused_as_by_torch(
    shape: tuple[int, ...], gradient: bool
) -> None:
    def filled(x: torch.Tensor, mask: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[mask] = value
        return y.sin()

    mask, value = torch.ones(shape, dtype=torch.bool), torch.ones((), requires_grad=gradient)
    with pytest.raises(IndexError, match="shape of the mask"):
        torch.compile(filled, backend="fuser")(torch.ones(5, 7), mask, value)


@pytest.mark.parametrize("shape", [(1, 1, 7), (1, 1, 1), (1, 7)])
def test_values_of_more_dimensions_than_what_they_replace(shape: tuple[int, ...]) -> None:
    def filled(x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[x[:, 0] > 0] = value
        return y.sin()

    x, value = torch.linspace(-1, 1, 35).view(5, 7), torch.full(shape, 0.5, requires_grad=True)
    got = torch.compile(filled, backend="fuser")(x, value)
    torch.testing.assert_close(got, filled(x, value))
