"""What both targets do with the points of a body: one by one, or neighbours in lanes."""

from __future__ import annotations

from collections import defaultdict

from fuser.schedule.code.axes import replace_axes
from fuser.schedule.code.body import Body
from fuser.schedule.code.row_body import names_in
from fuser.schedule.indices.index import Axis, lanes_of
from fuser.schedule.tree.counts import arithmetic, point_count
from fuser.schedule.tree.loop_tree import Node
from fuser.schedule.tree.statements import Let, Load, Store


def scalar_nodes(body: Body) -> tuple[Node, ...]:
    """One point."""
    return (*body.code, *body.stores)


def in_turn(body: Body) -> tuple[Load | Let | Store, ...]:
    """A point whose values are loaded where they are first read, and stored where they are made: of
    many that a loop stores, few are held at a time."""
    loads = {load.name: load for load in body.loads}
    made = {node.name: number for number, node in enumerate((*body.loads, *body.lets))}
    stores = defaultdict[str, list[Store]](list)
    for store in body.stores:
        last = max(names_in((store,)), key=lambda name: made.get(name, -1), default="")
        stores[last if last in made else ""].append(store)
    done: list[Load | Let | Store] = [*stores.pop("", ())]

    def do(node: Load | Let) -> None:
        for name in names_in((node,)):
            if name in loads:
                do(loads.pop(name))
        done.append(node)
        done.extend(stores.pop(node.name, ()))

    for node in (*body.lets, *body.loads):
        if not isinstance(node, Load) or loads.pop(node.name, None):
            do(node)
    return tuple(done)


def with_lanes(body: Body, count: int) -> tuple[Axis, Body]:
    """A lane axis, and the body with it added to the innermost axis."""
    lane, replaced = lanes_of(body.axes[-1], count)
    return lane, replace_axes(body, replaced)


def work(body: Body) -> int:
    """Instructions for all points, roughly."""
    return point_count(body.axes) * (len(body.accesses) + arithmetic(body.code))
