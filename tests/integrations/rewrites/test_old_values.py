"""The backward finds old values of inputs that the forward writes to, however it is divided."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from fuser.integrations import dynamo

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def counted(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    count.add_(1)
    return x.sin() / count


def copied(x: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    y = x.sin() * old.clone()
    old.mul_(0.5)
    return y


def replaced(x: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    y = (x * (old.t() + 1)).exp()
    old.copy_(y.detach())
    return y


def halved(x: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    first, second = old.clone().chunk(2)
    y = (x[:2] * first).exp() + x[2:] * second
    old.mul_(0.5)
    return y


def trained(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    y = x * (weight * 2).exp()
    with torch.no_grad():
        weight.add_(y.mean())
    return y


def returned(x: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    y = x.sin() * old.clone()
    old.neg_()
    return y + old.t()


def results(run: Function, x: torch.Tensor, old: torch.Tensor) -> list[torch.Tensor | None]:
    """The result, gradients, and what is written."""
    x, old = x.clone().requires_grad_(), old.detach().clone().requires_grad_(old.requires_grad)
    y = run(x, old)
    weights = torch.arange(float(y.numel())).view(y.shape)
    y.backward(weights)
    return [y.detach(), x.grad, old.grad, old.detach()]


@pytest.mark.parametrize("partition", ["min_cut", "default"])
@pytest.mark.parametrize("function", [copied, replaced, halved, trained, returned, counted])
def test_gradients_are_of_old_values(function: Function, partition: str) -> None:
    torch.compiler.reset()
    x, old = torch.randn(4, 4), torch.randn(() if function is counted else (4, 4))
    old.requires_grad_(function is trained)
    run = torch.compile(function, backend="fuser", options={"partition": partition})
    for ours, theirs in zip(results(run, x, old), results(function, x, old), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("partition", ["min_cut", "default"])
@pytest.mark.parametrize("kind", [nn.SiLU, nn.ReLU, nn.ELU, nn.Mish])
def test_activations_in_place_of_what_has_a_gradient(kind: type[nn.Module], partition: str) -> None:
    torch.compiler.reset()
    model = nn.Sequential(kind(inplace=True), nn.LayerNorm(4))
    run = torch.compile(model, backend="fuser", options={"partition": partition})
    x = torch.randn(3, 4, requires_grad=True)
    found = []
    for each in (run, model):
        y = x * 2
        found.append((*torch.autograd.grad(each(y).sin().sum() + y.sum(), x), y.detach()))
    torch.testing.assert_close(*found)


def test_what_the_backward_does_not_need_is_not_saved() -> None:
    def function(x: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        mean.mul_(0.9).add_(x.detach(), alpha=0.1)
        return x * 2

    dynamo.clear_reports()
    x, mean = torch.randn(5, requires_grad=True), torch.randn(5)
    torch.compile(function, backend="fuser")(x, mean)
    (report,) = dynamo.reports()
    (call,) = report.partitions
    assert [len(call.plan().updates), call.plan().bytes_copied] == [1, 0]
