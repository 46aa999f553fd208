"""CUDA kernels that report an index out of range, as those of a processor always do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fuser import debug


@pytest.fixture
def checks_indices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FUSER_CHECK", "index")
    debug.reload()
    yield
    monkeypatch.undo()
    debug.reload()
