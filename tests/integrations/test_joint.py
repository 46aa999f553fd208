"""Rewrites of ATen graphs: what is replaced, what must not be, and the same results."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.integrations.graphs import rewritten

aten: Any = torch.ops.aten
X = torch.randn(4, 6)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: aten.full_like(x, 0) + 1, ["full", "add"]),
        (lambda x: x.exp().clone() + 1, ["exp", "add"]),
        (lambda x: aten.copy(torch.empty_like(x), x.exp()) + 1, ["exp", "add"]),
        (lambda x: aten.copy(x.sin(), x.exp()), ["exp", "clone"]),
        (lambda x: aten.copy(x.new_empty(6, 4), x.t()) + 1, ["t", "clone", "add"]),
        (lambda x: aten.copy(x.sin(), x[0]) + 1, ["sin", "select", "copy", "add"]),
    ],
)
def test_copies_go_and_sizes_are_numbers(function: Any, expected: list[str]) -> None:
    assert rewritten(function, X) == expected


@pytest.mark.parametrize(
    "function",
    [
        # What is returned is a tensor of its own.
        lambda x: x.exp().clone().view(-1),
        # The copy lies otherwise.
        lambda x: x.t().clone(memory_format=torch.contiguous_format).view(-1) + 1,
    ],
)
def test_other_copies_are_kept(function: Any) -> None:
    assert "clone" in rewritten(function, X)


BIAS, LEFT, RIGHT = torch.randn(5), torch.randn(4, 6), torch.randn(6, 5)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda b, x, y: torch.addmm(b, x, y).relu(), ["mm", "add", "relu"]),
        (lambda b, x, y: torch.addmm(b, x, y).view(2, 10).relu(), ["mm", "add", "view", "relu"]),
        # What is returned is written by the partition that reads the product.
        (lambda b, x, y: (r := torch.addmm(b, x, y), r.exp()), ["mm", "add", "exp"]),
    ],
)
def test_biases_are_added_where_partitions_read(function: Any, expected: list[str]) -> None:
    assert rewritten(function, BIAS, LEFT, RIGHT) == expected


@pytest.mark.parametrize(
    "function",
    [
        torch.addmm,
        lambda b, x, y: torch.addmm(b, x, y).view(-1),
        lambda b, x, y: torch.addmm(b, x, y) @ x.t()[:5],
        lambda b, x, y: (r := torch.addmm(b, x, y), r.exp(), r.view(20, 1) @ x[:1]),
        lambda b, x, y: torch.addmm(b, x, y, alpha=2).exp(),
        lambda b, x, y: torch.addmm(b.bfloat16(), x.bfloat16(), y.bfloat16()).exp(),
    ],
)
def test_other_biases_stay_with_their_product(function: Any) -> None:
    assert "addmm" in rewritten(function, BIAS, LEFT, RIGHT)
