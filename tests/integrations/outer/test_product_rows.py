"""Rows of whole cache lines for the results of products, and copies for whoever may tell.

mm -> partition            mm (aligned) -> partition
mm -> returned             mm (aligned) -> clone -> returned
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from fuser.integrations import dynamo
from fuser.integrations.outer.product_rows import align_rows

aten: Any = torch.ops.aten
ROWS, INNER, WORDS = 64, 256, 5003
ALIGNED = 5008
LEFT, RIGHT = torch.randn(ROWS, INNER), torch.randn(INNER, WORDS)

Function = Callable[..., Any]


def aligned(function: Function, *inputs: torch.Tensor, mode: str = "fake") -> GraphModule:
    module = make_fx(function, tracing_mode=mode)(*inputs)
    align_rows(module.graph)
    return module


def targets(module: GraphModule) -> list[str]:
    return [n.target.__name__ for n in module.graph.nodes if n.op == "call_function"]


def product_strides(module: GraphModule) -> tuple[int, ...]:
    (found,) = (n for n in module.graph.nodes if "mm" in n.name)
    return found.meta["val"].stride()


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: aten.mm(a, b) + 1,
        lambda a, b: aten.mm(a, b).view(4, 16, WORDS)[:, 1:].exp(),
        lambda a, b: aten.addmm(b[0], a, b).exp(),
    ],
)
def test_what_only_partitions_read_has_aligned_rows(function: Function) -> None:
    module = aligned(function, LEFT, RIGHT)
    assert product_strides(module) == (ALIGNED, 1)
    assert "clone.default" not in targets(module)


def test_views_of_it_lie_accordingly() -> None:
    module = aligned(lambda a, b: aten.mm(a, b).view(4, 16, WORDS) + 1, LEFT, RIGHT)
    (view,) = (n for n in module.graph.nodes if n.name.startswith("view"))
    assert view.meta["val"].stride() == (16 * ALIGNED, ALIGNED, 1)


def product_and_exp(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    product = aten.mm(a, b)
    return product, product.exp()


@pytest.mark.parametrize(
    "function",
    [
        aten.mm,
        lambda a, b: aten.mm(a, b).view(-1),
        product_and_exp,
        lambda a, b: aten.mm(aten.mm(a, b), aten.t(b)),
    ],
)
def test_the_caller_and_torch_are_given_a_contiguous_copy(function: Function) -> None:
    module = aligned(function, LEFT, RIGHT)
    names = targets(module)
    assert names[:2] == ["mm.default", "clone.default"]
    (copy,) = (n for n in module.graph.nodes if n.name.startswith("clone"))
    assert copy.meta["val"].stride() == (WORDS, 1)
    (product,) = (n for n in module.graph.nodes if n.name == "mm")
    assert product.meta["val"].stride() == (ALIGNED, 1)
    assert list(product.users) == [copy]


@pytest.mark.parametrize(
    ("function", "left", "right"),
    [
        (lambda a, b: aten.mm(a, b) + 1, LEFT, torch.randn(INNER, 4992)),  # whole lines already
        (lambda a, b: aten.mm(a, b) + 1, LEFT[:4], RIGHT),  # small
        (lambda a, b: aten.mm(a, b) + 1, torch.randn(40_000, 8), torch.randn(8, 9)),  # short rows
        (lambda a, b: aten.mm(a, b) + 1, LEFT.double(), RIGHT.double()),  # not measured
        (aten.mm, LEFT[:, :16], RIGHT[:16]),  # a copy takes as long
        (lambda a, b: aten.mm(a, b).view(-1) + 1, LEFT, RIGHT),  # would be no view
    ],
)
def test_others_stay_contiguous(
    function: Function, left: torch.Tensor, right: torch.Tensor
) -> None:
    module = aligned(function, left, right)
    assert product_strides(module) == (right.shape[1], 1)
    assert "clone.default" not in targets(module)


def test_rows_may_be_of_any_number() -> None:
    module = aligned(lambda a, b: aten.mm(a, b) + 1, LEFT, RIGHT, mode="symbolic")
    (product,) = (n for n in module.graph.nodes if n.name == "mm")
    # All sizes are open, so the length of a row is unknown.
    assert product.meta["val"].stride() != (ALIGNED, 1)


@pytest.mark.parametrize("rows", [ROWS, 96, 8])
def test_a_compiled_layer_gives_torchs_numbers_and_strides(rows: int) -> None:
    torch.compiler.reset()
    layer = torch.nn.Linear(INNER, WORDS, bias=False)

    def run(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = layer(x)
        return scores, scores.log_softmax(-1).mean()

    dynamo.clear_reports()
    options = {"products": "torch"}
    compiled = torch.compile(run, backend="fuser", dynamic=True, options=options)  # pyright: ignore
    for size in (rows, rows + 1):
        x = torch.randn(size, INNER, requires_grad=True)
        scores, loss = compiled(x)
        loss.backward()
        mine, x.grad = x.grad, None
        expected, expected_loss = run(x)
        expected_loss.backward()
        torch.testing.assert_close(scores, expected)
        torch.testing.assert_close(loss, expected_loss)
        torch.testing.assert_close(mine, x.grad)
        assert scores.is_contiguous()
    assert all(not report.failed for report in dynamo.reports())
