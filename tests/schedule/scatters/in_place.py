"""Scatters in place, as segments."""

from __future__ import annotations

from unittest.mock import patch

import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.passes import scatter_forms
from fuser.segmenter import Segment, segment
from tests.definitions import Define, defined
from tests.segmented import concrete, memory_of

PLACES = torch.tensor([0, 4, 1, 4, 0, 0, 3, 4, 1])


def rows(columns: int) -> tuple[torch.Tensor, ...]:
    """Data, an index with a place for several points, and a source."""
    return torch.randn(5, columns), PLACES, torch.randn(9, columns)


ROWS = rows(16)
ELEMENTS = torch.randn(5, 16), torch.stack([PLACES.roll(n) for n in range(16)], 1), ROWS[2]
"""Each column with an index of its own."""
APART = (ROWS[0], torch.stack([torch.randperm(5) for _ in range(16)], 1), ROWS[2])
"""No two points at one place."""


def added(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
    return fd.ops.index_add(x, index, source, 0)


def added_columns(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
    """Points along the last dimension of the data."""
    return fd.ops.index_add(x, index, fd.ops.slice(source, [0, 0], [5, 9]), 1)


def added_elements(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
    return fd.ops.scatter_add(x, index, source, 0)


def added_tables(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
    """Points that an index of two dimensions numbers."""
    return fd.ops.index_put_accumulate(x, index, source)


def added_weighted(
    fd: FusionDefinition, x: Handle, index: Handle, source: Handle, weights: Handle
) -> Handle:
    """Each point has a weight."""
    return added(fd, x, index, source * fd.ops.broadcast(weights, [False, True]))


def overwritten(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
    return fd.ops.scatter(x, index, source, 0)


def scatter_segment(define: Define, *inputs: torch.Tensor) -> Segment:
    """The kernel with the scatter, which changes the data in place; no columns are few enough for
    lists."""
    fusion = concrete(defined(define, *inputs).fusion, inputs)
    with patch.object(scatter_forms, "MOST_COLUMNS", 0):
        fusion = scatter_forms.choose_scatter_forms(fusion, in_order=False, repeatable=False)
    *_, last = segment(fusion, memory_of(fusion, inputs)).segments
    return last
