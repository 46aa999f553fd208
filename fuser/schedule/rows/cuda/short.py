"""Short rows: how many lanes of a warp, or threads of a column, find enough to do in one.

[n, 8]       one thread, by vectors             [n, 21, pixels]   one thread, 21 loads
[n, 21]      8 lanes, up to 4 elements each     [n, 64, pixels]   a column of 4 threads
[n, 64]      4 lanes, up to 4 vectors each      windows of 2 x 2  one thread
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from fuser.schedule.code.row_body import RowBody
from fuser.schedule.cuda_parameters import WARP, CudaRowParameters
from fuser.schedule.indices.index import Axes, Axis
from fuser.schedule.rows.vectors import Vectors
from fuser.schedule.tree.buffers import ACCESS_BYTES
from fuser.schedule.tree.counts import ceil_div, point_count, power_of_two
from fuser.schedule.tree.statements import Load
from fuser.schedule.tree.vectors import step_along


def lanes_along(
    body: RowBody, vectors: Mapping[Axes, Vectors], parameters: CudaRowParameters
) -> int:
    """Lanes for a row that is consecutive; 0 if a whole warp is not too much for it."""
    longest = body.longest
    if longest > parameters.lane_elements:
        return 0
    if longest <= parameters.thread_elements or _has_windows(body):
        return int(_unrolled(body) <= parameters.unrolled)
    accesses = (
        ceil_div(point_count(axes), each.lanes) * _accesses_of_vector(body, axes[-1], each.lanes)
        for axes, each in vectors.items()
    )
    lanes = max(power_of_two(max(accesses, default=1)) // parameters.lane_accesses, 1)
    return lanes if lanes < WARP else 0


def lanes_across(body: RowBody, parameters: CudaRowParameters, *, keeps: bool) -> int:
    """1 if a thread does well to take a row of its own, beside those of its neighbours, else 0."""
    if _unrolled(body) <= parameters.unrolled:
        return 1
    many = point_count(body.rows) >= parameters.crowded * parameters.resident
    short = body.longest <= parameters.warp_elements
    return int(many and short and not keeps and not _has_windows(body))


def threads_of_column(body: RowBody, parameters: CudaRowParameters) -> int:
    """Threads for each column: if these are many, as few as have enough loads on their way."""
    threads = power_of_two(body.longest) // parameters.column_elements
    threads = min(max(threads, 2), parameters.column_threads)
    many = point_count(body.rows) * threads >= parameters.crowded * parameters.resident
    return threads if many else parameters.column_threads


def _accesses_of_vector(body: RowBody, axis: Axis, lanes: int) -> int:
    """Accesses that a thread makes for its neighbours along an axis, of the widest of the tensors:
    beside one of 8 bits, float32 takes two. Neighbouring threads are as far apart."""
    loads = (node for node in body.code if isinstance(node, Load))
    sizes = [load.dtype.itemsize for load in loads if step_along(load.at, axis) == 1]
    return ceil_div(lanes * max(sizes, default=1), ACCESS_BYTES)


def _has_windows(body: RowBody) -> bool:
    """Whether a row has several axes."""
    return any(len(sweep.axes) > 1 for sweep in body.stages)


def _unrolled(body: RowBody) -> int:
    """Points of the longest sweep, if all of its rounds are in the text."""
    sweeps = ([power_of_two(axis.extent) for axis in sweep.axes] for sweep in body.stages)
    return max(map(math.prod, sweeps), default=1)
