"""Each test compiles anew, and sees the reports of its own graphs only. The arguments of every
graph that is divided into partitions are checked, and what it says of its views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from torch.fx import Graph, Node

from fuser.integrations import dynamo
from fuser.integrations.partitions.support import Support
from tests.integrations.graphs import check_arguments, check_views
from tests.integrations.outer.hoisting import hoisted_and_checked


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FUSER_STRICT", "1")
    monkeypatch.setattr(dynamo, "support", _checked(dynamo.support))
    monkeypatch.setattr(dynamo, "hoisted", hoisted_and_checked)
    torch._dynamo.reset()
    dynamo.clear_reports()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def _checked(support: Callable[[Graph], Mapping[Node, Support]]) -> Callable[[Graph], Any]:
    def checked(graph: Graph) -> Mapping[Node, Support]:
        check_arguments(graph)
        check_views(graph)
        return support(graph)

    return checked
