"""Scatters on a GPU: memory itself adds, so that threads may meet at one element."""

from __future__ import annotations

import dataclasses

from fuser.schedule.heuristics import CudaRowParameters
from fuser.schedule.loop_tree import CheckedIndex, LoopNest
from fuser.schedule.names import kernel_name
from fuser.schedule.row_body import RowBody, Sweep
from fuser.schedule.row_cuda import map_rows
from fuser.schedule.scatter_trace import PointBody, trace_points
from fuser.schedule.vectors import Alignments
from fuser.segmenter import Segment


def schedule_scatter_cuda(
    segment: Segment, alignments: Alignments, parameters: CudaRowParameters
) -> LoopNest:
    """The loop nest of a segment with a scatter in place."""
    body = trace_points(segment)
    return _each_alone(segment, body, alignments, parameters)


def _each_alone(
    segment: Segment, body: PointBody, alignments: Alignments, parameters: CudaRowParameters
) -> LoopNest:
    """Every element of the points for itself, over the whole grid."""
    if any(isinstance(node, CheckedIndex) for node in body.sweep.code):
        parameters = dataclasses.replace(parameters, max_lane_bytes=1)  # neighbours go anywhere
    axes = (*body.outside, *body.points, *body.sweep.axes)
    sweep = Sweep(axes, (*body.code, *body.sweep.code), (), body.sweep.stores)
    rows = RowBody((), body.prologue, (sweep,), ())
    nest = map_rows(segment, rows, alignments, parameters)
    return dataclasses.replace(nest, name=kernel_name("scatter", segment))
