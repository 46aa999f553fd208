"""torch.compile does not look into definitions, nor into what runs them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
from torch._dynamo.utils import counters

from fuser import FusionDefinition


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def doubled() -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor([-1, -1], contiguity=True) * 2.0)
    return fd


def defining(x: torch.Tensor) -> torch.Tensor:
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.add(fd.ops.sum(-t, 1, keepdim=True), t))
    fd.plan([x])
    return fd.execute([x + 1])[0] * 3


def test_a_call_is_one_break_of_the_graph() -> None:
    fd = doubled()
    compiled = torch.compile(lambda x: fd.execute([x + 1])[0] * 3, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for sizes in ((3, 4), (5, 4), (7, 9), (1, 1), (0, 4)):
            x = torch.randn(sizes)
            assert torch.equal(compiled(x), (x + 1) * 2 * 3)
    assert (
        counters["frames"]["total"] <= 12
    )  # before and after the call, for several kinds of sizes
    assert all("Fusion.execute" in why for why in counters["graph_break"])


def test_a_definition_within_is_written_as_it_stands() -> None:
    x = torch.randn(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = torch.compile(defining, backend="eager")(x)
    torch.testing.assert_close(result, defining(x))
    assert counters["frames"]["total"] <= 20
