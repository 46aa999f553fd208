"""Rewrites of ATen graphs: what is replaced, what must not be, and the same results."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from fuser.integrations import dynamo
from fuser.integrations.rewrites.joint import rewrite_graph
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
        (
            lambda x: aten.copy(x.new_empty(6, 4), x.t()) + 1,
            ["t", "permute", "clone", "permute", "add"],
        ),
        (lambda x: aten.copy(x.sin(), x[0]) + 1, ["sin", "select", "copy", "add"]),
        (lambda x: aten.slice_scatter(x.sin(), x.exp(), 1) + 1, ["exp", "add"]),
        (lambda x: aten.slice_scatter(x, x.exp(), 0, -4, 9), ["exp", "clone"]),
        (lambda x: aten.slice_scatter(x, x[:2], 0, 0, 2) + 1, ["slice", "slice_scatter", "add"]),
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


@pytest.mark.parametrize(
    ("last", "end"),
    [
        (lambda flat: flat + 1, ["permute", "permute", "view", "add"]),
        # What is returned is no view, which could not be written to.
        (lambda flat: flat, ["permute", "clone", "permute", "view"]),
    ],
)
def test_copies_lie_as_what_they_are_written_to(last: Any, end: list[str]) -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        y = aten.copy(x.new_empty(6, 2, 4).permute(1, 2, 0), x.exp())
        return last(y.permute(2, 0, 1).view(-1))

    names = [name for name in rewritten(write, torch.randn(2, 4, 6)) if name != "new_empty"]
    assert names == ["exp", "permute", "clone", *end]


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


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: aten.as_strided(x, [4, 1, 6], [6, 9, 1]).exp(), ["view", "exp"]),
        (lambda x: aten.as_strided(x, [24], [1], 0).exp(), ["view", "exp"]),
        (
            lambda x: aten.as_strided_scatter(x.new_zeros(24), x.exp(), [4, 6], [6, 1]).sin(),
            ["exp", "view", "sin"],
        ),
        # A part, another order, a start within memory, and what is returned.
        (lambda x: aten.as_strided(x, [4, 5], [6, 1]).exp(), ["as_strided", "exp"]),
        (lambda x: aten.as_strided(x, [6, 4], [1, 6]).exp(), ["as_strided", "exp"]),
        (lambda x: aten.as_strided(x, [23], [1], 1).exp(), ["as_strided", "exp"]),
        (lambda x: aten.as_strided(x, [24], [1]), ["as_strided"]),
        (
            lambda x: aten.as_strided_scatter(x.new_zeros(30), x.exp(), [4, 6], [6, 1]).sin(),
            ["new_zeros", "exp", "as_strided_scatter", "sin"],
        ),
    ],
)
def test_all_of_memory_is_a_reshape(function: Any, expected: list[str]) -> None:
    assert rewritten(function, X) == expected


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_mean_of_an_image_whose_channels_lie_together(dynamic: bool) -> None:
    """torch gives the mean strides, and its gradient is a write to memory."""

    def pooled(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(x.exp(), 1).flatten(1).sin()

    compiled = torch.compile(pooled, backend="fuser", dynamic=dynamic)
    x = torch.randn(3, 8, 5, 4).to(memory_format=torch.channels_last)
    (wanted,) = torch.autograd.grad(pooled(x.requires_grad_()).sum(), x)
    (got,) = torch.autograd.grad(compiled(x).sum(), x)
    torch.testing.assert_close(got, wanted)
    assert not [entry for report in dynamo.reports() for entry in report.uncovered]


def test_writes_at_a_place_of_a_batch_of_any_size() -> None:
    """Each is a slice of all of the batch; by comparisons of places it would be a gather that makes
    the writes before it once more."""

    def written(x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x)
        for at in range(3):
            y[:, at] = x[:, at].sin()
        return y * 2

    compiled = torch.compile(written, backend="fuser", dynamic=True)
    x = torch.randn(3, 4, 5)
    torch.testing.assert_close(compiled(x), written(x))
    (report,) = dynamo.reports()
    (call,) = report.partitions
    assert "index_select" not in str(call.definition)
    assert not report.uncovered


def test_positions_that_0_is_added_to_are_the_range_itself() -> None:
    """As of words after none: what several partitions read of a sum would be stored."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        places = torch.arange(4) + 0
        return x[places], x * places, x.long() + 0, places + 0

    x = torch.randn(4, 4)
    module = make_fx(function, tracing_mode="fake")(x)
    rewrite_graph(module.graph)
    module.recompile()
    added = module.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    assert len(added) == 2  # results are tensors of their own
    torch.testing.assert_close(module(x), function(x))


@pytest.mark.parametrize("start", [0, 1, 4])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.clone().as_strided((3,), (2,), 1) + 1,
        lambda x: torch.bmm(x.clone().as_strided((2, 2, 2), (2, 4, 1), 1), x.view(6, 2, 2)[:2]),
    ],
)
def test_places_counted_from_the_begin_of_a_copy_are_the_copys(function: Any, start: int) -> None:
    x = torch.randn(30)[start : start + 24].view(4, 6)
    compiled = torch.compile(function, backend="fuser")
    torch.testing.assert_close(compiled(x), function(x))
