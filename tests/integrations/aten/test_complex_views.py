"""Complex numbers, their conjugates and the pairs they are made of, under torch.compile."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fuser.integrations import dynamo


def uncovered() -> list[str]:
    return [entry.overload for report in dynamo.reports() for entry in report.uncovered]


def agree(function: Any, *inputs: torch.Tensor) -> None:
    """Results and gradients are torch's."""
    run = torch.compile(function, backend="fuser")
    given = [[x.detach().clone().requires_grad_() for x in inputs] for _ in range(2)]
    ours, theirs = run(*given[0]), function(*given[1])
    torch.testing.assert_close(ours, theirs)
    weight = torch.randn(theirs.shape)
    (ours * weight).sum().abs().backward()
    (theirs * weight).sum().abs().backward()
    for x, y in zip(*given, strict=True):
        torch.testing.assert_close(x.grad, y.grad)


def rotated(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_pairs_are_turned_in_one_kernel(dtype: torch.dtype) -> None:
    run = torch.compile(rotated, backend="fuser")
    x, turns = torch.randn(2, 5, 3, 8).to(dtype), torch.randn(3, 4, dtype=torch.complex64)
    torch.testing.assert_close(run(x, turns), rotated(x, turns))
    (report,) = dynamo.reports()
    assert report.percent == 100
    assert len(report.partitions[0].plan().kernels) == 1


def test_gradients_of_turned_pairs() -> None:
    agree(rotated, torch.randn(2, 5, 3, 8), torch.randn(3, 4, dtype=torch.complex64))
    assert uncovered() == []


def test_conjugates_and_their_gradients() -> None:
    def function(z: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (z * w.conj() + z.mH.sum(0)).imag

    agree(function, *torch.randn(2, 4, 4, dtype=torch.complex64))


def test_an_input_may_be_a_lazy_conjugate_or_negation() -> None:
    z = torch.randn(3, 4, dtype=torch.complex64)
    run = torch.compile(lambda x, y: (x * 2, y + 1), backend="fuser")
    ours = run(z.conj(), z.conj().imag)
    torch.testing.assert_close(ours, (z.conj() * 2, 1 - z.imag))
    assert uncovered() == []


def test_a_given_gradient_may_be_a_lazy_conjugate_or_negation() -> None:
    z = torch.randn(3, 4, dtype=torch.complex64)
    run = torch.compile(lambda x: x * 2, backend="fuser")
    for given in (z.conj(), z.conj().imag):
        x = torch.randn_like(given).requires_grad_()
        (grad,) = torch.autograd.grad(run(x), x, given)
        torch.testing.assert_close(grad, given * 2)


@pytest.mark.parametrize("resolved", [torch.Tensor.clone, torch.Tensor.resolve_conj, "copy_"])
def test_a_copy_of_a_lazy_conjugate_is_none(resolved: Any) -> None:
    def function(z: torch.Tensor) -> torch.Tensor:
        lazy = z.conj()
        copy = torch.empty_like(z).copy_(lazy) if resolved == "copy_" else resolved(lazy)
        return torch.view_as_real(copy).sin().sum(0) + (lazy * z).real.sum()

    agree(function, torch.randn(3, 4, dtype=torch.complex64))


def test_pairs_that_are_reduced_are_torchs_view() -> None:
    def function(z: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(z.exp()).flatten(-2).softmax(-1)

    z = torch.randn(3, 4, dtype=torch.complex64)
    torch.testing.assert_close(torch.compile(function, backend="fuser")(z), function(z))
    assert uncovered() == ["aten.view_as_real.default"]
