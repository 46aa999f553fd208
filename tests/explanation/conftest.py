"""Each test compiles anew, and a partition that fails is an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from fuser.integrations import dynamo


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FUSER_STRICT", "1")
    torch._dynamo.reset()
    dynamo.clear_reports()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
