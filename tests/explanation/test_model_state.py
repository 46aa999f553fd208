"""A model that was run for a report is as it was."""

from __future__ import annotations

import functools
import random

import numpy as np
import pytest
import torch
from torch import nn

import fuser
from fuser.explanation.model_state import untouched


class Counting(nn.Module):
    """Changes all that a module can: a buffer, attributes, a container, random states."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.calls = 0
        self.seen: list[int] = []
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.append(self.calls)
        self.last = x.detach().sum(0)
        self.train(not self.training)
        return nn.functional.dropout(self.norm(self.linear(x))) * random.random()


def state_of(model: nn.Module) -> list[object]:
    tensors = [t.clone() for t in (*model.parameters(), *model.buffers())]
    grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    return [tensors, grads, dict(model.__dict__), list(model.seen)]  # pyright: ignore


def generators() -> list[object]:
    return [torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()]  # pyright: ignore


def same(one: object, other: object) -> bool:
    match one, other:
        case torch.Tensor(), torch.Tensor():
            return torch.equal(one, other)
        case list() | tuple(), list() | tuple():
            return len(one) == len(other) and all(map(same, one, other))
        case dict(), dict():
            return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
        case _:
            return one is other or one == other


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin")
def test_explaining_leaves_no_trace_in_the_model() -> None:
    model, x = Counting(), torch.randn(5, 4, requires_grad=True)
    model(x).sum().backward()
    kept = [p.grad for p in (*model.parameters(), x)]
    before, random_before = state_of(model), generators()
    fuser.explain(model, x)
    assert same(state_of(model), before)
    assert generators() == random_before
    assert all(p.grad is g for p, g in zip((*model.parameters(), x), kept, strict=True))
    model(x)
    assert not same(state_of(model), before)  # the comparison sees what a call changes


def test_a_pending_backward_still_runs() -> None:
    norm, x = nn.BatchNorm1d(4).eval(), torch.randn(5, 4)
    loss = norm(x).sum()
    fuser.explain(norm.train(), x)
    loss.backward()
    assert norm.weight.grad is not None


def test_the_graph_of_an_argument_is_left_to_its_own_backward() -> None:
    weight = torch.randn(5, 4, requires_grad=True)
    x = weight.exp()
    report = fuser.explain(nn.Linear(4, 4), x)
    assert report.graphs[-1].name == "graph 0 backward"
    x.sum().backward()
    assert weight.grad is not None


def test_an_expanded_tensor_of_what_is_no_number_can_be_put_back() -> None:
    x = torch.full((1, 3), torch.nan).expand(2, 3)
    assert fuser.explain(torch.exp, x).graphs
    assert x.isnan().all()


def test_everything_is_put_back_when_the_model_raises() -> None:
    model, x = nn.BatchNorm1d(4), torch.randn(5, 4)

    def failing(x: torch.Tensor) -> torch.Tensor:
        model(x).sum().backward()
        raise ValueError("no")

    before = generators()
    with pytest.raises(ValueError, match="no"):
        fuser.explain(failing, x)
    assert model.weight.grad is None
    assert model.num_batches_tracked == 0
    assert generators() == before


@pytest.mark.parametrize("shape", ["argument", "closure", "partial", "method", "container"])
def test_tensors_are_found_where_functions_hold_them(shape: str) -> None:
    held = torch.zeros(3)

    def add(to: torch.Tensor) -> torch.Tensor:
        return to.add_(1)

    function = {
        "argument": lambda: (add, (held,)),
        "closure": lambda: ((lambda: add(held)), ()),
        "partial": lambda: (functools.partial(add, held), ()),
        "method": lambda: (Held(held).add, ()),
        "container": lambda: ((lambda d: add(d["x"][0])), ({"x": [held]},)),
    }[shape]
    run, args = function()
    version = held._version
    with untouched(run, args):
        run(*args)
        assert held.sum() == 3
    assert held.sum() == 0
    assert held._version == version


class Held(nn.Module):
    def __init__(self, held: torch.Tensor) -> None:
        super().__init__()
        self.held = held

    def add(self) -> torch.Tensor:
        return self.held.add_(1)


def test_tensors_of_inference_mode_are_put_back() -> None:
    with torch.inference_mode():
        x = torch.zeros(3)
    with untouched(x), torch.inference_mode():
        x.add_(1)
    assert x.sum() == 0


def test_a_function_that_runs_its_own_backward_adds_to_no_gradient() -> None:
    w = torch.ones(3, requires_grad=True)
    w.grad = theirs = torch.full((3,), 5.0)

    def step() -> torch.Tensor:
        (w * 2).sum().backward()
        assert w.grad is not None
        return w.grad + 0

    fuser.explain(step)
    assert w.grad is theirs
    assert theirs.tolist() == [5.0, 5.0, 5.0]


def test_lazy_modules_are_made_by_it() -> None:
    lazy = nn.LazyLinear(3)
    fuser.explain(lazy, torch.randn(2, 5))
    assert lazy(torch.randn(2, 5)).shape == (2, 3)
