"""Small partitions that nothing relates are one; others stay as they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from fuser.integrations import dynamo
from fuser.integrations.partitions import joined
from fuser.integrations.partitions.joined import SMALL
from fuser.integrations.partitions.partition import Partition, partitions
from fuser.integrations.partitions.support import support
from fuser.integrations.partitions.writes import with_writes

Optimizer = Callable[[list[torch.Tensor]], torch.optim.Optimizer]


def divided(
    function: Callable[..., Any], *inputs: torch.Tensor
) -> tuple[list[Partition], list[Partition]]:
    """Partitions before they are joined, and after."""
    graph = make_fx(function, tracing_mode="fake")(*inputs).graph
    parts = with_writes(graph, partitions(graph, support(graph)))
    return parts, joined.joined(graph, parts)


def names(parts: list[Partition]) -> list[set[str]]:
    return [{node.name for node in part.nodes} for part in parts]


def test_what_reads_inputs_alone_is_one_partition() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        torch.ops.aten.copy_.default(z, z + 1)
        return x.exp(), y.sum(0)

    before, after = divided(function, torch.randn(4), torch.randn(5, 2), torch.randn(3))
    assert len(before) == 3
    (one,) = after
    assert {node.name for node in one.nodes} == {"exp", "sum_1", "add"}
    assert [node.name for node in one.outputs] == ["exp", "sum_1"]
    assert [node.name for node in one.writes] == ["copy_"]
    assert len(one.inputs) == 3


def test_what_reads_a_product_stays_apart() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x.exp() @ x).sin(), y.cos()

    _, after = divided(function, torch.randn(4, 4), torch.randn(3))
    assert sorted(names(after), key=len) == [{"sin"}, {"exp", "cos"}]


def test_what_is_large_stays_apart() -> None:
    def function(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x.exp() for x in inputs)

    large = torch.empty(SMALL["cpu"] // 8 + 1)  # is read, and as much is written
    _, after = divided(function, torch.empty(4), large, torch.empty(SMALL["cpu"] // 8))
    assert names(after) == [{"exp", "exp_2"}, {"exp_1"}]


def test_equal_ones_are_joined_with_equal_ones_and_no_more_than_can_be_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joined, "_MOST_NODES", 4)

    def function(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x.exp() + 1 if x.dim() == 1 else x.sin() + 2 for x in inputs)

    _, after = divided(function, *[torch.empty(*[3] * (n % 2 + 1)) for n in range(9)])
    # Five of three elements, and four of nine: exp, add; sin, add.
    targets = [sorted(str(node.target).split(".")[1] for node in part.nodes) for part in after]
    assert sorted(targets) == [
        ["add", "add", "exp", "exp"],
        ["add", "add", "exp", "exp"],
        ["add", "add", "exp", "sin"],
        ["add", "add", "sin", "sin"],
        ["add", "sin"],
    ]


@pytest.mark.parametrize(("share", "parts"), [(4, 3), (16, 1)])
def test_little_is_made_before_it_is_needed(share: int, parts: int) -> None:
    def function(w: torch.Tensor, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x.exp() @ w for x in inputs)

    rows = SMALL["cpu"] // 4 // 16 // share
    inputs = [torch.empty(rows, 16) for _ in range(10)]
    before, after = divided(function, torch.empty(16, 2), *inputs)
    assert (len(before), len(after)) == (10, parts)


OPTIMIZERS: dict[str, Optimizer] = {
    "AdamW": lambda values: torch.optim.AdamW(values, lr=0.1, foreach=True),
    "SGD": lambda values: torch.optim.SGD(values, lr=0.1, momentum=0.9, foreach=True),
    "RMSprop": lambda values: torch.optim.RMSprop(values, lr=0.1, foreach=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("shared", [False, True])
def test_a_step_of_an_optimizer_is_one_call(name: str, shared: bool) -> None:
    """Parameters may also be parts of one buffer."""
    ours, theirs = (parameters(shared) for _ in range(2))
    step = OPTIMIZERS[name](ours).step
    torch.compiler.reset()
    dynamo.clear_reports()
    compiled = torch.compile(step, backend="fuser")
    eager = OPTIMIZERS[name](theirs).step
    for _ in range(3):
        compiled()
        eager()
        torch.testing.assert_close(ours, theirs)
    assert all(len(report.partitions) == 1 for report in dynamo.reports())


def parameters(shared: bool) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = [(8, 3), (5,), (8, 3), (2, 2, 2), (5,)]
    room = torch.randn(80, generator=generator)
    places = zip((0, 24, 32, 56, 64), sizes, strict=True)
    parts = [room[start : start + math.prod(size)].view(size) for start, size in places]
    values = [part.detach() if shared else part.clone() for part in parts]
    for value in values:
        value.requires_grad_()
        value.grad = torch.randn(value.shape, generator=generator)
    return values
