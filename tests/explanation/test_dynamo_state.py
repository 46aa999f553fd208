"""What was compiled before a report is still used after it, and nothing of it is left."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._dynamo import pgo
from torch._dynamo.eval_frame import _debug_get_cache_entry_list as _entries

import fuser


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.exp()
    torch._dynamo.graph_break()
    return y * 2


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return broken(x + 1) - 1


def entries() -> list[int]:
    """How much was compiled of a module's own code, and of what Dynamo breaks inside of it."""
    return [len(_entries(f.__code__)) for f in (Model.forward, broken)]


def test_nothing_is_left_in_the_cache() -> None:
    assert len(fuser.explain(Model(), torch.randn(7)).graphs) > 1
    assert entries() == [0, 0]


def test_a_compiled_model_is_not_compiled_again() -> None:
    compilations: list[int] = []

    def backend(module: Any, inputs: Any) -> Any:
        compilations.append(len(inputs))
        return module.forward

    model, x = Model(), torch.randn(4)
    compiled = torch.compile(model, backend=backend)
    expected = compiled(x)
    compiled_before = len(compilations)
    sizes = dict(pgo.get_code_state())
    counted = {key: dict(value) for key, value in torch._dynamo.utils.counters.items()}
    first = fuser.explain(model, torch.randn(7))
    assert len(first.graphs) > 1
    assert min(entries()) > 0
    assert dict(pgo.get_code_state()) == sizes
    assert {key: dict(value) for key, value in torch._dynamo.utils.counters.items()} == counted
    torch.testing.assert_close(compiled(x), expected)
    assert len(compilations) == compiled_before
    assert str(fuser.explain(model, torch.randn(7))) == str(first)


def test_a_model_past_its_recompile_limit_is_explained() -> None:
    with torch._dynamo.config.patch(recompile_limit=1, automatic_dynamic_shapes=False):
        compiled = torch.compile(doubled, backend="eager")
        for size in (2, 3, 4):
            compiled(torch.randn(size))
        assert len(fuser.explain(doubled, torch.randn(5)).graphs) == 1


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1
