"""Short innermost axes of costly functions: lanes go along the axis around them.

    for i < 262144: for j < 3: for k < 10: out[i, j, k] = sin(x[i, j] * f[k])
->  for each 64 of i: for j < 3: for k < 10: out[i, j, k] = sin of 64 lanes

A vector has more elements than such an axis, and what is left of one is done one by one, at the
price of the function. What lanes read and store far apart costs less than that, and stays in the
cache from one k to the next.
"""

from __future__ import annotations

import dataclasses

from fuser.schedule.code.body import Body
from fuser.schedule.code.lane_calls import lane_calls_in, with_lane_calls
from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.points.common import with_lanes
from fuser.schedule.points.loops_cpu import Row
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.loop_tree import Loop, nested
from fuser.schedule.tree.statements import draws


def around_short_axes(body: Body, parameters: CpuParameters) -> Row | None:
    """Blocks of the axis that lanes go along, with loops over the short axes inside; None
    where the innermost axis fills a vector, or no function is called."""
    short = _short_axes(body, parameters)
    if short is None or draws(body.code) or not lane_calls_in(body.lets):
        return None
    *outer, along = body.axes[: -len(short)]
    count = parameters.processor.chunk
    turned = dataclasses.replace(body, axes=(*outer, *short, along))
    lane, shifted = with_lanes(turned, count)
    work = (*shifted.code, *shifted.stores)
    held, phases = with_lane_calls(work, count, Loop(lane, Binding.SIMD, ()))
    inside = nested(short, Binding.SERIAL, (*held, *phases))
    return Row(tuple(outer), Loop(along, Binding.CHUNKS, inside, count), short)


def _short_axes(body: Body, parameters: CpuParameters) -> tuple[Axis, ...] | None:
    """The innermost axes that are no vector, if the one around them has many blocks of lanes."""
    if len(body.axes) < 2 or body.axes[-1].extent >= parameters.processor.vector:
        return None
    for count in range(1, len(body.axes)):
        along, *short = body.axes[-count - 1 :]
        if point_count(short) > parameters.short_points:
            return None
        if along.extent >= parameters.least_chunks * parameters.processor.chunk:
            return tuple(short)
    return None
