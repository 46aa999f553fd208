"""The loop axes of a body: ordered by the stores' memory, and merged where every access allows."""

from __future__ import annotations

import dataclasses

from fuser.schedule.body import Body
from fuser.schedule.index import Axis, Index, affine_parts, substitute
from fuser.schedule.loop_tree import IndexValue, Let, Load, Store


def arrange(body: Body) -> Body:
    """`body` with axes from the slowest to the fastest in the last store's memory, coalesced."""
    at = body.stores[-1].at
    by_stride = sorted(body.axes, key=lambda axis: -at.coefficient(axis))
    return coalesce(dataclasses.replace(body, axes=tuple(by_stride)))


def coalesce(body: Body) -> Body:
    """`body` with neighbouring axes merged that every access walks as one."""
    position = len(body.axes) - 2
    while position >= 0:
        outer, inner = body.axes[position : position + 2]
        if all(walks_as_one(index, outer, inner) for index in body.indices()):
            merged = Axis(outer.path, outer.extent * inner.extent)
            replacements = {outer: Index(), inner: Index(0, ((merged, 1),))}
            axes = (*body.axes[:position], merged, *body.axes[position + 2 :])
            body = dataclasses.replace(map_indices(body, replacements), axes=axes)
        position -= 1
    return body


def map_indices(body: Body, replacements: dict[Axis, Index]) -> Body:
    """`body` with axes replaced in every index."""

    def access(node: Load) -> Load:
        return dataclasses.replace(node, at=substitute(node.at, replacements))

    def let(node: Let) -> Let:
        if not isinstance(node.expression, IndexValue):
            return node
        index = substitute(node.expression.index, replacements)
        expression = dataclasses.replace(node.expression, index=index)
        return dataclasses.replace(node, expression=expression)

    def store(node: Store) -> Store:
        return dataclasses.replace(node, at=substitute(node.at, replacements))

    return dataclasses.replace(
        body,
        loads=tuple(map(access, body.loads)),
        lets=tuple(map(let, body.lets)),
        stores=tuple(map(store, body.stores)),
    )


def walks_as_one(index: Index, outer: Axis, inner: Axis) -> bool:
    """Whether stepping past the end of `inner` is one step of `outer`, wherever either appears."""
    return all(
        part.coefficient(outer) == part.coefficient(inner) * inner.extent
        for part in affine_parts(index)
    )
