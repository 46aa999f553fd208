"""At which level nodes are computed: the cheapest way, found by trying all in small graphs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

from fuser.integrations.fx.nodes import nbytes
from fuser.integrations.partitions.levels import levels
from fuser.integrations.partitions.support import support
from fuser.integrations.partitions.uses import Uses

X, W = torch.randn(8, 8), torch.randn(8, 8)


def uses_of(function: Callable[..., Any], *inputs: torch.Tensor) -> Uses:
    graph = make_fx(function, tracing_mode="fake")(*inputs).graph
    graph.eliminate_dead_code()
    return Uses(graph, support(graph))


def found_levels(function: Callable[..., Any], *inputs: torch.Tensor) -> dict[str, int]:
    uses = uses_of(function, *inputs)
    level = levels(uses)
    return {node.name: level[node] for node in uses.nodes if node in uses.members}


def traffic(uses: Uses, level: Mapping[Node, int]) -> int:
    """Bytes that partitions read and write, were they all of a level."""
    total = 0
    for value in uses.nodes:
        if uses.is_repeated(value):
            continue
        readers = uses.readers(value)
        is_member = value in uses.members
        read_at = {level[reader] for reader in readers if reader in uses.members}
        elsewhere = read_at - {level[value]} if is_member else read_at
        leaves = any(reader not in uses.members for reader in readers)
        total += nbytes(value) * (len(elsewhere) + (is_member and (leaves or bool(elsewhere))))
    return total


def test_a_chain_moves_to_where_it_is_read() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scale = mask.float() * 2  # as many bytes as `mask.float()`: no step alone saves any
        return (x.exp() @ w) * scale

    assert found_levels(function, X, W, X > 0) == {"exp": 0, "_to_copy": 1, "mul": 1, "mul_1": 1}


def test_values_that_are_made_of_one_move_together() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        a, b, c = h.tanh(), h * h, h.exp()
        return (x.sin() @ w) * a + (b - c) * a

    found = found_levels(function, X, W, W)
    assert {level for name, level in found.items() if name != "sin"} == {1}


def test_what_torch_or_the_caller_reads_stays() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, z = x.exp(), w.sin()
        return (y @ w) * y, z

    assert found_levels(function, X, W) == {"exp": 0, "sin": 0, "mul": 1}


def test_the_results_of_one_operation_are_together() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        variance, mean = torch.var_mean(h, dim=1, keepdim=True)
        return (x.exp() @ w) * h - mean * variance

    found = found_levels(function, X, W, W)
    assert len({found[name] for name in ("var_mean", "getitem", "getitem_1")}) == 1


def test_results_that_are_read_at_different_levels_are_together() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        values, indices = h.sin().max(1)
        return ((x.exp() @ w) * values) @ w * indices

    found = found_levels(function, X, W, W)
    assert {found[name] for name in ("max_1", "getitem", "getitem_1")} == {1}
    assert found["mul_1"] == 2


def test_a_sum_is_kept_rather_than_what_it_is_of() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return (h.exp() @ w) * (h * h).sum()

    assert found_levels(function, X, W, W) == {"exp": 0, "mul": 0, "sum_1": 0, "mul_1": 1}


@pytest.mark.parametrize("seed", range(12))
def test_no_other_way_moves_fewer_bytes(seed: int) -> None:
    uses = uses_of(drawn(seed), X, W, X > 0, torch.randn(8, 1))
    found = levels(uses)
    least = min(traffic(uses, way) for way in ways(uses, found))
    assert traffic(uses, found) == least


def drawn(seed: int) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Elementwise operations and sums of some inputs, and a product that some of them read."""
    generator = torch.Generator().manual_seed(seed)
    drawn = iter(torch.randint(0, 1 << 30, (100,), generator=generator).tolist())

    def function(x: torch.Tensor, w: torch.Tensor, *rest: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = [x, w, *rest]
        for _ in range(8):
            a, b = (values[next(drawn) % len(values)] for _ in range(2))
            match next(drawn) % 4:
                case 0:
                    values.append(a.float())
                case 1:
                    values.append((a * b).float().sum(1, keepdim=True))
                case _:
                    values.append(a * b)
        product = x.exp() @ w
        results = [product * values[next(drawn) % len(values)] for _ in range(4)]
        return product.exp(), *results

    return function


def ways(uses: Uses, found: Mapping[Node, int]) -> Iterator[dict[Node, int]]:
    """Every way to put members on levels 0 and 1 so that what is read is there."""
    members = [node for node in uses.nodes if node in uses.members]
    fixed = [node for node in members if any(not n.users for n in node.users)]
    free = [node for node in members if node not in fixed]
    for chosen in itertools.product((0, 1), repeat=len(free)):
        way = dict(found) | dict(zip(free, chosen, strict=True))
        if all(way.get(s, 0) <= way[n] for n in members for s in uses.sources(n) if s in way):
            torchs = [n for n in uses.nodes if n in way and n not in uses.members]
            if all(way.get(s, 0) <= way[t] for t in torchs for s in uses.sources(t)):
                yield way
