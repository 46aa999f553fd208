"""Large results of products come from the pool, and are torch's otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from fuser.integrations.outer.products import product_of
from fuser.runtime.calls.output_pool import POOL, POOLED_BYTES
from tests.integrations.graphs import one_node

aten: Any = torch.ops.aten
LARGE, SMALL = 512, 511
"""Sides of a float32 matrix that is just large enough for the pool, and of one that is not."""


def held_after(node: Node, *inputs: torch.Tensor) -> tuple[torch.Tensor, int]:
    """A product's result, and the bytes the pool made for it."""
    POOL.clear()
    with torch.no_grad():
        result = product_of(node)(*inputs, **node.kwargs)
    return result, POOL.held_bytes()


PRODUCTS: list[tuple[Any, Sequence[Sequence[int]], dict[str, float]]] = [
    (aten.mm.default, [(LARGE, 3), (3, LARGE)], {}),
    (aten.bmm.default, [(2, LARGE, 3), (2, 3, LARGE)], {}),
    (aten.addmm.default, [(LARGE,), (LARGE, 3), (3, LARGE)], {}),
    (aten.addmm.default, [(LARGE, 1), (LARGE, 3), (3, LARGE)], {"beta": 0.5, "alpha": 2}),
    (aten.baddbmm.default, [(LARGE, LARGE), (2, LARGE, 3), (2, 3, LARGE)], {"alpha": 0.1}),
]


@pytest.mark.parametrize(("target", "shapes", "scales"), PRODUCTS, ids=str)
def test_large_results_are_torchs_in_memory_of_the_pool(
    target: Any, shapes: Sequence[Sequence[int]], scales: dict[str, float]
) -> None:
    assert LARGE * LARGE * 4 == POOLED_BYTES
    inputs = [torch.randn(shape) for shape in shapes]
    _, node = one_node(target, inputs, scales)
    result, held = held_after(node, *inputs)
    expected = target(*inputs, **scales)
    torch.testing.assert_close(result, expected, rtol=0, atol=0)
    assert result.stride() == expected.stride()
    assert held == expected.nbytes


def test_small_results_and_other_products_are_torchs() -> None:
    left, right = torch.randn(SMALL, 3), torch.randn(3, SMALL)
    _, node = one_node(aten.mm.default, [left, right], {})
    assert product_of(node) is torch.mm
    _, node = one_node(aten.mv.default, [torch.randn(2 * POOLED_BYTES, 1), torch.ones(1)], {})
    assert product_of(node) is aten.mv.default


def test_memory_in_use_is_not_handed_out_again() -> None:
    left, right = torch.randn(LARGE, 3), torch.randn(3, LARGE)
    _, node = one_node(aten.mm.default, [left, right], {})
    first, _ = held_after(node, left, right)
    with torch.no_grad():
        second = product_of(node)(left, -right)
    torch.testing.assert_close(first, -second, rtol=0, atol=0)


def test_what_autograd_watches_is_torchs() -> None:
    left, right = torch.randn(LARGE, 3, requires_grad=True), torch.randn(3, LARGE)
    _, node = one_node(aten.mm.default, [left.detach(), right], {})
    result = product_of(node)(left, right)
    assert result.grad_fn is not None


@pytest.mark.parametrize(("rows", "held"), [(LARGE, POOLED_BYTES), (2, 0)])
def test_open_sizes_are_looked_at_by_the_call(rows: int, held: int) -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    left, right = torch.randn(rows, 3), torch.randn(3, LARGE)
    graph = Graph()
    nodes = [graph.placeholder(name) for name in ("left", "right")]
    fakes = mode.from_tensor(left), mode.from_tensor(right, static_shapes=True)
    node = graph.call_function(aten.mm.default, tuple(nodes))
    for operand, fake in zip(nodes, fakes, strict=True):
        operand.meta["val"] = fake
    with mode:
        node.meta["val"] = aten.mm.default(*fakes)
    assert isinstance(node.meta["val"].shape[0], torch.SymInt)
    result, taken = held_after(node, left, right)
    torch.testing.assert_close(result, left @ right, rtol=0, atol=0)
    assert taken == held
