"""The ATen table: what of torch's operations a definition can hold, one row per overload."""

from __future__ import annotations

from collections.abc import Mapping

from fuser.integrations.aten import factories, indexing, pointwise, reductions, views
from fuser.integrations.aten.factories import RANDOM
from fuser.integrations.aten.row import Kind, Overload, Row

TABLE: Mapping[Overload, Row] = {
    row.overload: row
    for rows in (pointwise.ROWS, views.ROWS, reductions.ROWS, factories.ROWS, indexing.ROWS)
    for row in rows
}

__all__ = ["RANDOM", "TABLE", "Kind", "Row"]
