"""What a graph computes several times, computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from fuser.integrations import dynamo
from fuser.integrations.rewrites.repeated import merge_repeated


def merged(function: Callable[..., Any], *inputs: torch.Tensor) -> list[str]:
    """The overloads that are left, in their order; they give what they gave before."""
    module = make_fx(function)(*inputs)
    torch.manual_seed(0)
    before = module(*inputs)
    merge_repeated(module.graph)
    module.graph.lint()
    module.recompile()
    torch.manual_seed(0)
    torch.testing.assert_close(module(*inputs), before, rtol=0, atol=0)
    ops = module.graph.nodes
    return [str(node.target).split(".")[1] for node in ops if node.op == "call_function"]


X = torch.randn(4, 4)


def test_equal_chains_are_one() -> None:
    def masks(x: torch.Tensor) -> torch.Tensor:
        first, second = (torch.where(x > 0, x, 0.0).expand(2, 4, 4) for _ in range(2))
        return first @ second

    ops = merged(masks, X)
    assert (ops.count("gt"), ops.count("where"), ops.count("bmm")) == (1, 1, 1)


def test_numbers_are_equal_where_types_are() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        n = x.long()
        return (n + 1) + (n + 1.0) + (n + True) + (n + 1)

    assert merged(function, X).count("add") == 6


def test_what_is_drawn_is_drawn_each_time() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(x) + torch.rand_like(x)

    assert merged(function, X) == ["rand_like", "rand_like", "add"]


def test_results_are_tensors_of_their_own() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, x + 1, (x + 1).t()

    assert merged(function, X).count("add") == 3
    dynamo.clear_reports()
    one, two, _ = torch.compile(function, backend="fuser")(X)
    one.zero_()
    assert two.any()


def test_a_mask_that_every_layer_makes_leaves_its_partition_once() -> None:
    def function(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x @ torch.where(keep, 0.0, -1.0)
        return x

    torch.compiler.reset()
    dynamo.clear_reports()
    with torch.no_grad():
        got = torch.compile(function, backend="fuser")(X, X > 0)
    torch.testing.assert_close(got, function(X, X > 0))
    (report,) = dynamo.reports()
    assert [len(c.graph.output_node().all_input_nodes) for c in report.partitions] == [1]
