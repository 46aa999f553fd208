"""Small tensors, stored as large ones are."""

from __future__ import annotations

import pytest

from fuser.schedule import CpuParameters
from tests.mapped_by import PAST_CACHE, map_by


@pytest.fixture
def past_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every output as larger than the cache."""
    map_by(monkeypatch, CpuParameters(PAST_CACHE))
