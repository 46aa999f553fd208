"""What both targets do with the points of a body: one by one, or neighbours in lanes."""

from __future__ import annotations

from fuser.schedule.axes import replace_axes
from fuser.schedule.body import Body
from fuser.schedule.counts import arithmetic, point_count
from fuser.schedule.index import Axis, lanes_of
from fuser.schedule.loop_tree import Node


def scalar_nodes(body: Body) -> tuple[Node, ...]:
    """One point."""
    return (*body.code, *body.stores)


def with_lanes(body: Body, count: int) -> tuple[Axis, Body]:
    """A lane axis, and the body with it added to the innermost axis."""
    lane, replaced = lanes_of(body.axes[-1], count)
    return lane, replace_axes(body, replaced)


def elements(body: Body) -> int:
    """Points of the domain."""
    return point_count(body.axes)


def work(body: Body) -> int:
    """Instructions for all points, roughly."""
    return elements(body) * (len(body.accesses) + arithmetic(body.code))
