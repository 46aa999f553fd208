"""Numbers of points and of elements."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fuser.schedule.index import Axis


def point_count(axes: Iterable[Axis]) -> int:
    """How many points axes have."""
    return math.prod(axis.extent for axis in axes)


def power_of_two(count: int) -> int:
    """The smallest that is not below `count`."""
    return 1 << max(count - 1, 0).bit_length()
