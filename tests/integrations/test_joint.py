"""Rewrites of ATen graphs: what is replaced, what must not be, and the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from fuser.integrations.joint import rewrite_graph

aten: Any = torch.ops.aten
X = torch.randn(4, 6)


def rewritten(function: Callable[..., Any], *inputs: torch.Tensor) -> list[str]:
    """The overloads after the rewrites; results are compared."""
    module = make_fx(function, tracing_mode="fake")(*inputs)
    rewrite_graph(module.graph)
    module.recompile()
    torch.testing.assert_close(module(*inputs), function(*inputs))
    targets = [str(node.target) for node in module.graph.nodes if node.op == "call_function"]
    return [name.split(".")[1] for name in targets]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: aten.index_select(x, 1, torch.arange(3)) + 1, ["slice", "add"]),
        (lambda x: aten.index_select(x, 1, torch.arange(1, 6, 2)) + 1, ["slice", "add"]),
        (lambda x: aten.index.Tensor(x, [None, torch.arange(2, 5)]) + 1, ["slice", "add"]),
        (
            lambda x: aten.index_put(torch.full((4, 9), 0.0), [None, torch.arange(6)], x, True) + 1,
            ["full", "slice_scatter", "add"],
        ),
        (
            lambda x: aten.index_add(torch.full((9, 6), 0.0), 0, torch.arange(2, 6), x) + 1,
            ["full", "slice_scatter", "add"],
        ),
        # Places that are known, if they are no range.
        (lambda x: aten.index_select(x, 1, torch.arange(5, -1, -1)) + 1, ["flip", "add"]),
        (
            lambda x: aten.index.Tensor(x, [None, torch.arange(-1, 6).abs()]) + 1,
            ["slice", "flip", "slice", "cat", "add"],
        ),
        (
            lambda x: aten.index.Tensor(x, [torch.arange(8) // 2]) + 1,
            ["unsqueeze", "expand", "clone", "view", "add"],
        ),
        (
            lambda x: (
                aten.index.Tensor(x, [torch.arange(8)[:, None] // 2, torch.arange(5, -1, -2)]) + 1
            ),
            ["unsqueeze", "expand", "clone", "view", "slice", "flip", "add"],
        ),
        (
            lambda x: aten.index_put(torch.full((2, 6), 0.0), [torch.arange(4) // 2], x, True) + 1,
            ["reshape", "sum", "add"],
        ),
        (
            lambda x: (
                aten.index_put(torch.full((4, 3), 0.0), [None, torch.arange(-3, 3)], x, True) + 1
            ),
            ["slice", "slice", "add", "add"],
        ),
        (
            lambda x: (
                aten.index_add(torch.full((4, 9), 0.0), 1, torch.arange(8, -1, -1)[:6], x) + 1
            ),
            ["flip", "constant_pad_nd", "add"],
        ),
        (lambda x: aten.full_like(x, 0) + 1, ["full", "add"]),
        (lambda x: x.exp().clone() + 1, ["exp", "add"]),
    ],
)
def test_ranges_become_slices_and_copies_go(function: Any, expected: list[str]) -> None:
    assert rewritten(function, X) == expected


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        # What is returned is a tensor of its own.
        (lambda x: aten.index_select(x, 1, torch.arange(6)), "index_select"),
        (lambda x: x.exp().clone().view(-1), "clone"),
        # The copy lies otherwise.
        (lambda x: x.t().clone(memory_format=torch.contiguous_format).view(-1) + 1, "clone"),
        # Places that are too many pieces, that follow from an input, or that are not integers.
        (lambda x: aten.index_select(x, 1, torch.arange(12) * 7 % 5) + 1, "index_select"),
        (lambda x: aten.index_select(x, 1, x[0].long().clamp(0, 5)) + 1, "index_select"),
        # Two indices that go along the same dimension.
        (lambda x: aten.index.Tensor(x, [torch.arange(4), torch.arange(4)]) + 1, "index"),
        # What lies otherwise than a read of it would.
        (lambda x: aten.index.Tensor(x, [None, torch.arange(6)]), "index"),
        # Added to what is not zero.
        (
            lambda x: aten.index_put(torch.full((4, 9), 1.0), [None, torch.arange(6)], x, True) + 1,
            "index_put",
        ),
        # A source that is repeated.
        (
            lambda x: aten.index_put(torch.full((9,), 0.0), [torch.arange(6)], x.sum(), True) + 1,
            "index_put",
        ),
    ],
)
def test_what_means_something_else_is_kept(function: Any, kept: str) -> None:
    assert kept in rewritten(function, X)


def test_a_range_beyond_the_tensor_still_raises() -> None:
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        rewritten(lambda x: aten.index_select(x, 1, torch.arange(7)) + 1, X)


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


@pytest.mark.parametrize(("device", "read"), [("cpu", "cat"), ("meta", "index")])
def test_places_along_many_indices_become_pieces_where_kernels_have_loops_for_each(
    device: str, read: str
):
    def neighbours(x: torch.Tensor) -> torch.Tensor:
        middle = torch.arange(12, device=device) // 2
        places = [(middle + step).clamp(0, 5) for step in (-1, 0, 1)]
        first, second, third = (aten.index.Tensor(x, [None, place]) for place in places)
        return first + second * 2 + third

    module = make_fx(neighbours, tracing_mode="fake")(X.to(device))
    rewrite_graph(module.graph)
    targets = [node.target for node in module.graph.nodes]
    assert (aten.cat.default in targets) == (read == "cat")
    assert (aten.index.Tensor in targets) == (read == "index")
