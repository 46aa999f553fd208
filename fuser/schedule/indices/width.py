"""The type a CUDA kernel computes its indices in."""

from __future__ import annotations

from collections.abc import Iterable

from fuser.ir.dtypes import DataType
from fuser.schedule.indices.index import Index
from fuser.schedule.indices.rewrites import affine_parts
from fuser.segmenter import Segment

_LARGEST = 2**31 - 2**27
"""Loop variables may step past their end by all threads of the grid."""


def index_dtype(segment: Segment, indices: Iterable[Index], *counts: int) -> DataType:
    """Int32 where every offset, every index and every count of what loops number fits."""
    offsets = [memory.last_offset for memory in segment.memory.values()]
    parts = [part for index in indices for part in affine_parts(index)]
    bounds = [abs(bound) for part in parts for bound in (part.constant, *part.bounds())]
    return DataType.Int32 if max(*offsets, *bounds, *counts) < _LARGEST else DataType.Int
