"""The loop axes of a sweep: ordered by the stores' memory, and merged where every access allows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from fuser.ir.shapes import places
from fuser.schedule.code.body import Body
from fuser.schedule.code.row_body import AnySweep
from fuser.schedule.indices.index import Axis, Index, index_of
from fuser.schedule.indices.rewrites import affine_parts, substitute, substitution
from fuser.schedule.tree.expressions import IndexValue
from fuser.schedule.tree.loop_tree import Node
from fuser.schedule.tree.statements import Let, Load, Prefetch, Store

Moved = TypeVar("Moved", bound=Node)


def arrange(body: Body) -> Body:
    """`body` with axes from the slowest to the fastest in the last store's memory, coalesced."""
    at = body.stores[-1].at
    by_stride = sorted(body.axes, key=lambda axis: -at.coefficient(axis))
    return coalesce(dataclasses.replace(body, axes=tuple(by_stride)))


def coalesce(sweep: AnySweep) -> AnySweep:
    """A sweep with neighbouring axes merged that all of its indices walk as one."""
    axes, replaced = merge_axes(sweep.axes, sweep.indices())
    return dataclasses.replace(replace_axes(sweep, replaced), axes=axes)


def merge_axes(
    axes: Sequence[Axis], indices: Sequence[Index]
) -> tuple[tuple[Axis, ...], dict[Axis, Index]]:
    """Neighbouring axes merged that all indices walk as one, and what each axis has become."""
    left = [axis for axis in axes if axis.extent != 1]
    replaced: dict[Axis, Index] = {}
    position, now = len(left) - 2, set(indices)
    while position >= 0:
        outer, inner = left[position : position + 2]
        if all(_walks_as_one(index, outer, inner) for index in now):
            merged = Axis(outer.path, outer.extent * inner.extent)
            change = {outer: Index(), inner: index_of(merged)}
            replaced = {axis: substitute(at, change) for axis, at in replaced.items()} | change
            now = set(map(substitution(change), now))
            left[position : position + 2] = [merged]
        position -= 1
    return tuple(left), replaced


def later(axes: Sequence[Axis], points: float) -> tuple[Axis, int]:
    """The axis along which, in so many steps, come those about `points` later in nested loops over
    `axes`: not one that ends before."""
    *outer, axis = axes
    if outer and points >= axis.extent:
        return later(outer, points / axis.extent)
    return axis, math.ceil(points)


def places_along(axes: Sequence[Axis]) -> Iterator[dict[Axis, Index]]:
    """Each place along some axes, in order; one where there are none."""
    for place in places([axis.extent for axis in axes]):
        yield dict(zip(axes, map(Index, place), strict=True))


def replace_axes(sweep: AnySweep, replaced: Mapping[Axis, Index]) -> AnySweep:
    """A sweep with axes replaced in every index."""
    if not replaced:
        return sweep
    return with_indices(sweep, substitution(replaced))


def with_indices(sweep: AnySweep, change: Callable[[Index], Index]) -> AnySweep:
    """A sweep with every index changed."""
    return dataclasses.replace(
        sweep,
        code=tuple(with_index(node, change) for node in sweep.code),
        folds=tuple(dataclasses.replace(fold, at=change(fold.at)) for fold in sweep.folds),
        stores=tuple(with_index(store, change) for store in sweep.stores),
        ahead=tuple(with_index(asked, change) for asked in sweep.ahead),
    )


def moved(node: Moved, replacements: Mapping[Axis, Index]) -> Moved:
    """A node with axes replaced in its index, if it has one."""
    return with_index(node, lambda index: substitute(index, replacements))


def with_index(node: Moved, change: Callable[[Index], Index]) -> Moved:
    """A node with its index changed, if it has one."""
    if isinstance(node, Load | Store | Prefetch):
        at = change(node.at)
        return node if at == node.at else dataclasses.replace(node, at=at)
    if isinstance(node, Let) and isinstance(node.expression, IndexValue):
        index = change(node.expression.index)
        expression = dataclasses.replace(node.expression, index=index)
        return dataclasses.replace(node, expression=expression)
    return node


def _walks_as_one(index: Index, outer: Axis, inner: Axis) -> bool:
    """Whether stepping past the end of `inner` is one step of `outer`, wherever either appears."""
    return all(
        part.coefficient(outer) == part.coefficient(inner) * inner.extent
        for part in affine_parts(index)
    )
