"""Where graphs are divided, what partitions hold, and in which order they run."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from fuser.integrations.outer.graph import outer_module
from fuser.integrations.partitions.coverage import coverage
from fuser.integrations.partitions.partition import Partition, partitions
from fuser.integrations.partitions.partition_call import PartitionCall
from fuser.integrations.partitions.support import support


def traced(function: Callable[..., Any], *inputs: torch.Tensor) -> GraphModule:
    return make_fx(function, tracing_mode="fake")(*inputs)


def divided(function: Callable[..., Any], *inputs: torch.Tensor) -> list[list[str]]:
    """The names of the overloads of each partition."""
    module = traced(function, *inputs)
    parts = partitions(module.graph, support(module.graph))
    return [[named(node) for node in part.nodes] for part in parts]


def named(node: Node) -> str:
    return "getitem" if node.target is operator.getitem else str(node.target).split(".")[1]


def run(
    function: Callable[..., Any], *inputs: torch.Tensor, in_torch: bool = False
) -> tuple[GraphModule, Any]:
    """The graph that is left, and its results; `in_torch` compiles nothing."""
    module = traced(function, *inputs)
    roles = support(module.graph)
    parts: dict[Partition, PartitionCall] = {}
    for number, part in enumerate(partitions(module.graph, roles)):
        parts[part] = PartitionCall(part.graph(), f"part_{number}")
        parts[part].failure = "not asked for" if in_torch else parts[part].failure
    assert in_torch or coverage("graph", roles, parts).failed == ()
    outer = outer_module(module, parts, roles)
    return outer, outer(list(inputs))


X, W = torch.randn(4, 4), torch.randn(4, 4)


def test_products_divide_what_depends_on_them() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x.exp() + 1  # level 0
        z = y @ w
        return z.tanh() + y  # level 1, with an edge past the product

    assert divided(function, X, W) == [["exp", "add"], ["tanh", "add"]]
    outer, result = run(function, X, W)
    torch.testing.assert_close(result, function(X, W))
    assert [node.name for node in outer.graph.nodes if "mm" in node.name] == ["mm"]


def test_what_reads_the_same_tensor_is_together_and_strangers_are_not() -> None:
    def siblings(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.exp(), x.sum(0), w.sin()

    assert divided(siblings, X, W) == [["exp", "sum"], ["sin"]]


def test_a_value_is_computed_where_it_is_read_if_that_stores_less() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (x @ w) + b.exp()

    assert divided(function, X, W, W) == [["exp", "add"]]

    def kept(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        scale = (b.exp() * w).sum()  # one number, of two tensors
        return (x.sin() @ w) * scale + b.cos()

    together = divided(kept, X, W, W)
    assert ["exp", "mul", "sum", "cos"] not in together
    torch.testing.assert_close(run(kept, X, W, W)[1], kept(X, W, W))


def test_views_and_factories_are_repeated_and_make_no_partition() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        turned = x.t()
        mask = torch.arange(4) < 2
        return torch.where(mask, turned, 0.0) @ w, turned.exp(), turned

    parts = divided(function, X, W)
    assert sum("t" in part for part in parts) == 1
    assert all(set(part) != {"t"} for part in parts)
    outer, results = run(function, X, W)
    for got, expected in zip(results, function(X, W), strict=True):
        torch.testing.assert_close(got, expected)
    assert results[2].data_ptr() == X.data_ptr()
    assert not any("arange" in str(node.target) for node in outer.graph.nodes)


def test_results_of_one_operation_stay_together() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        variance, mean = torch.var_mean(x, dim=1, keepdim=True)
        return (x - mean) * (variance + 1e-5).rsqrt()

    (part,) = divided(function, X)
    assert part == ["var_mean", "getitem", "getitem", "sub", "add", "rsqrt", "mul"]
    torch.testing.assert_close(run(function, X)[1], function(X))

    def apart(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        greatest, places = x.sin().max(1)  # one result is read at level 1, the other at level 2
        return ((x.exp() @ w) * greatest) @ w * places

    torch.testing.assert_close(run(apart, X, W)[1], apart(X, W))


def test_an_update_waits_for_what_reads_the_old_value() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        new = x.exp()
        torch.ops.aten.copy_.default(x, new)
        return new

    def reader(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        old = (x * 2).sum(0)
        torch.ops.aten.copy_.default(x, w.sin())
        return old

    for call, others in ((function, []), (reader, [W])):
        ours, theirs = X.clone(), X.clone()
        _, result = run(call, ours, *others)
        torch.testing.assert_close(result, call(theirs, *others))
        torch.testing.assert_close(ours, theirs)


def test_what_is_called_for_its_effect_stays() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > 0).all(), "not positive")
        return x * 2.0

    compiled = torch.compile(function, backend="fuser")
    compiled(torch.ones(3))
    with pytest.raises(RuntimeError, match="not positive"):
        compiled(torch.zeros(3))


@pytest.mark.parametrize("seed", range(10))
def test_any_graph_can_be_divided(seed: int) -> None:
    chosen = torch.randint(0, 1000, (40,), generator=torch.Generator().manual_seed(seed)).tolist()

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        values = [x, w]
        for number in chosen:
            left, right = values[number % len(values)], values[number // 7 % len(values)]
            if number % 5 == 1:
                greatest, places = left.cummax(1)
                values += [greatest, places * 0.1]
                continue
            last = left @ right if number % 5 == 0 else (left + right.t()) * 0.5
            values.append(last / last.norm())
        return torch.stack(values[-3:]).sum()

    outer, result = run(function, X, W, in_torch=True)
    torch.testing.assert_close(result, function(X, W))
    assert sum("part" in node.name for node in outer.graph.nodes) < 40


def test_coverage_names_what_torch_computes() -> None:
    module = traced(lambda x: (x.exp().sort()[0] + 1) @ x, X)
    roles = support(module.graph)
    parts = {p: PartitionCall(p.graph(), "p") for p in partitions(module.graph, roles)}
    report = coverage("graph 7 forward", roles, parts)
    assert (report.compute_nodes, report.covered, report.products) == (3, 2, 1)
    assert str(report).splitlines() == [
        "graph 7 forward: 2 of 3 compute nodes (66.7 %) in 2 partition(s); 1 product(s) by torch",
        "  torch: 1 x aten.sort.default: fuser has no definition for it",
    ]
