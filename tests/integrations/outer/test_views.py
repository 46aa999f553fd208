"""Views between products are aliases of memory; those that someone may write to are torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from fuser.integrations.outer.views import Alias, merge_views

aten: Any = torch.ops.aten
X, W = torch.randn(4, 6), torch.randn(6, 12)


def merged(
    function: Callable[..., Any],
    *inputs: torch.Tensor,
    seen: int | None = None,
    tracing: str = "fake",
) -> tuple[list[str], GraphModule]:
    """The names of what is called then, and the graph, whose results are compared."""
    module = make_fx(function, tracing_mode=tracing)(*inputs)
    merge_views(module.graph, seen)
    module.graph.lint()
    module.recompile()
    torch.testing.assert_close(module(*inputs), function(*inputs))
    calls = [node.target for node in module.graph.nodes if node.op == "call_function"]
    names = ["alias" if isinstance(call, Alias) else str(call).split(".")[-2] for call in calls]
    return names, module


def heads(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    return [part.view(2, 2, 6).transpose(0, 1) for part in (x @ w).split(6, 1)]


def test_views_that_products_read_are_one_alias_each() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        left, right = heads(x, w)
        return torch.bmm(left, right.transpose(1, 2))

    names, _ = merged(function, X, W)
    assert names == ["mm", "alias", "alias", "bmm"]


def test_a_view_of_an_input_is_an_alias_where_it_is_read() -> None:
    names, _ = merged(lambda x, w: x.t().contiguous() + w.view(-1)[:4], X, W)
    assert names == ["alias", "clone", "alias", "add"]


@pytest.mark.parametrize(
    ("function", "seen", "names"),
    [
        (lambda x, w: [(x @ w).t()], 0, ["mm", "alias"]),
        (lambda x, w: [(x @ w).t()], None, ["mm", "alias"]),
        (lambda x, w: [(x @ w).t()], 1, ["mm", "alias"]),
        (lambda x, w: [y := x @ w, y.t()], 1, ["mm", "t"]),  # who sees y may write to it
        (lambda x, w: [(y := x @ w).t(), y[1:]], 1, ["mm", "t", "slice"]),
        (lambda x, w: [w.t()], 0, ["t"]),  # so may who has an input
    ],
)
def test_what_is_returned_is_an_alias_where_nobody_sees_its_memory(
    function: Any, seen: int | None, names: list[str]
) -> None:
    assert merged(function, X, W, seen=seen)[0] == names


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: (x @ w).view(torch.int32) + 1,
        lambda x, w: torch.view_as_complex((x @ w).view(4, 6, 2)).exp(),
        lambda x, w: torch.complex(x, x).conj() * 2,
        lambda x, w: aten.as_strided(x @ w, [3], [2], 1) + 1,
        lambda x, w: torch._neg_view(x @ w) + 1,
        lambda x, w: torch._neg_view(torch._neg_view(x @ w).clone()).exp(),
    ],
)
def test_what_strides_do_not_say_stays_torchs(function: Any) -> None:
    names, module = merged(function, X, W)
    last = [node for node in module.graph.nodes if node.op == "call_function"][-1]
    assert not isinstance(last.args[0].target, Alias), names


def test_views_in_a_row_that_someone_may_write_to_are_one_of_torchs() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        return [y := x @ w, y.view(2, 2, 12).transpose(0, 1)[1]]

    names, module = merged(function, X, W, seen=2)
    assert names == ["mm", "alias"]
    whole, part = module(X, W)
    before = whole._version
    part.zero_()
    assert whole._version > before
    assert whole.count_nonzero() == whole.numel() - part.numel()


def test_a_result_that_is_no_view_in_eager_may_be_written_to() -> None:
    x = torch.randn(3, requires_grad=True)
    compiled = torch.compile(lambda x: torch.kron(x, x), backend="fuser")
    torch.testing.assert_close(compiled(x).mul_(2), torch.kron(x, x) * 2)


@pytest.mark.parametrize(
    "view",
    [
        lambda s: s.view(torch.int32).view(torch.float32).t(),
        lambda s: s.detach(),
        lambda s: s.detach().t(),
        lambda s: s.t().detach()[1:],
    ],
)
def test_gradients_end_at_views_where_they_do_in_eager(view: Any) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        s = torch.softmax(x, 0)
        return s, view(s)

    compiled = torch.compile(function, backend="fuser")
    for _ in range(3):
        x = X.clone().requires_grad_()
        results = compiled(x)
        assert [result.requires_grad for result in results] == [True, False]
        torch.testing.assert_close(results, function(x))
        results[0].square().sum().backward()
        (expected,) = torch.autograd.grad(torch.softmax(x, 0).square().sum(), x)
        torch.testing.assert_close(x.grad, expected)


def test_open_sizes_stay_torchs() -> None:
    names, _ = merged(lambda x, w: (x @ w).t().contiguous(), X, W, tracing="symbolic")
    assert "alias" not in names


def test_a_tensor_that_lies_otherwise_is_viewed_step_by_step() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).view(2, 2, 12).transpose(0, 1)[1].contiguous()

    _, module = merged(function, X, W)
    (alias,) = (n.target for n in module.graph.nodes if isinstance(n.target, Alias))
    given = torch.randn(8, 12)[::2]
    assert torch.equal(alias(given), given.view(2, 2, 12).transpose(0, 1)[1])
    assert alias(given).untyped_storage().data_ptr() == given.untyped_storage().data_ptr()


@pytest.mark.parametrize("start", [1, 4])
def test_a_view_of_a_copy_that_is_no_more_begins_where_its_operand_does(start: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x = torch.dropout(x, 0.0, True)
        return torch.bmm(x.view(2, 2, 6).transpose(0, 1), x.view(2, 6, 2)) + 1

    x = torch.randn(40)[start : start + 24].view(4, 6)
    compiled = torch.compile(function, backend="fuser")
    for _ in range(4):
        torch.testing.assert_close(compiled(x), function(x))


def test_a_parameter_that_is_written_before_the_backward_is_noticed() -> None:
    w = torch.randn(6, 6, requires_grad=True)
    compiled = torch.compile(lambda x: (x @ w).exp() @ w, backend="fuser")
    result = compiled(X.clone().requires_grad_())
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
