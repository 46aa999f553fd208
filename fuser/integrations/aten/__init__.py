"""The ATen table: what of torch's operations a definition can hold, one row per overload."""

from __future__ import annotations

from collections.abc import Mapping

from fuser.integrations.aten import (
    complex_views,
    diagonals,
    factories,
    indexing,
    moves,
    pointwise,
    reductions,
    views,
)
from fuser.integrations.aten.factories import RANDOM
from fuser.integrations.aten.row import Kind, Overload, Row

_MODULES = (
    pointwise,
    complex_views,
    views,
    moves,
    diagonals,
    reductions,
    factories,
    indexing,
)

TABLE: Mapping[Overload, Row] = {row.overload: row for module in _MODULES for row in module.ROWS}

__all__ = ["RANDOM", "TABLE", "Kind", "Row"]
