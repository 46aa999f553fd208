"""Rules for known indices: what they are replaced by, what they must not be, and the results."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from fuser.integrations.rewrites.joint import rewrite_graph
from tests.integrations.graphs import rewritten

aten: Any = torch.ops.aten
X = torch.randn(4, 6)


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
            ["slice", "cat", "add"],
        ),
        # Windows: each index goes along two dimensions of the result.
        (
            lambda x: aten.index.Tensor(x, [None, torch.arange(2)[:, None] + torch.arange(5)]) + 1,
            ["slice", "slice", "cat", "view", "add"],
        ),
        # All places, in order: what is returned is a tensor of its own.
        (lambda x: aten.index_select(x, 1, torch.arange(6)), ["clone"]),
        (lambda x: aten.index.Tensor(x, [None, torch.arange(6)]), ["clone"]),
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
    ],
)
def test_indices_that_are_known_become_slices_and_pads(function: Any, expected: list[str]) -> None:
    assert rewritten(function, X) == expected


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        # Places that are too many pieces, that follow from an input, or that are not integers.
        (lambda x: aten.index_select(x, 1, torch.arange(24) * 7 % 5) + 1, "index_select"),
        (lambda x: aten.index_select(x, 1, x[0].long().clamp(0, 5)) + 1, "index_select"),
        # Two indices that go along the same dimension.
        (lambda x: aten.index.Tensor(x, [torch.arange(4), torch.arange(4)]) + 1, "index"),
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
def test_indices_that_mean_something_else_are_kept(function: Any, kept: str) -> None:
    assert kept in rewritten(function, X)


def test_a_range_beyond_the_tensor_still_raises() -> None:
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        rewritten(lambda x: aten.index_select(x, 1, torch.arange(7)) + 1, X)


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


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        # A slice's rows are apart, and so are those of its views.
        (lambda x: x[:, torch.arange(3)].unsqueeze(0).logcumsumexp(2), ["slice", "unsqueeze"]),
        # A slice has no such view.
        (lambda x: x[:, torch.arange(3)].view(-1) + 1, ["slice", "permute", "clone"]),
        (lambda x: x[:, torch.arange(3)].as_strided((4, 3), (3, 1)) + 1, ["slice", "permute"]),
        # torch's results would lie in another order than was traced.
        (
            lambda x: x.view(6, 4).t()[:, torch.arange(3)].logcumsumexp(0).view(-1),
            ["view", "t", "slice", "permute", "clone"],
        ),
    ],
)
def test_views_lie_as_the_slices_that_they_are_of(function: Any, expected: list[str]) -> None:
    assert rewritten(function, X)[: len(expected)] == expected
    torch.testing.assert_close(torch.compile(function, backend="fuser")(X), function(X))


def test_gradients_go_to_every_second_row_of_an_image() -> None:
    """The rows that were read are a range with a step, of which the forward saves a view."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=(0.5, 1.7), mode="nearest-exact")

    given = [torch.randn(1, 1, 5, 6, requires_grad=True) for _ in range(2)]
    given[1].data.copy_(given[0].data)
    for run, x in zip((function, torch.compile(function, backend="fuser")), given, strict=True):
        run(x).square().sum().backward()
    torch.testing.assert_close(given[1].grad, given[0].grad)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, torch.arange(6)],
        lambda x: x[:, torch.arange(2, 5)],
        lambda x: x[:, torch.arange(6).view(2, 3)],
        lambda x: x[torch.arange(4)[:, None]],
    ],
)
def test_what_is_read_at_known_places_is_memory_of_its_own(function: Any) -> None:
    made = torch.compile(function, backend="fuser")(X)
    torch.testing.assert_close(made, function(X))
    assert made.untyped_storage().data_ptr() != X.untyped_storage().data_ptr()
