"""Several neighbouring elements of a row for one thread, moved by vector accesses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from fuser.schedule.index import Axis, lanes_of
from fuser.schedule.loop_tree import (
    Accumulate,
    Binding,
    Keep,
    Kept,
    Load,
    Loop,
    Node,
)
from fuser.schedule.row_axes import replace_axes
from fuser.schedule.row_body import Fold, Sweep
from fuser.schedule.row_vectors import Vectors, divided
from fuser.schedule.vectors import lanes_to_store, step_along


def in_lanes(
    sweep: Sweep, accumulate: Callable[[Fold, Sweep], Accumulate], inner: Axis, vectors: Vectors
) -> tuple[Node, ...]:
    """What a thread does at neighbouring points of a sweep, from one along `inner`."""
    lanes = vectors.lanes
    if lanes == 1:
        folds = (accumulate(fold, sweep) for fold in sweep.folds)
        return (*sweep.code, *folds, *sweep.stores)
    lane, replaced = lanes_of(inner, lanes)
    moved = replace_axes(sweep, replaced)
    same, together, _ = divided(sweep.code, inner)
    once = {node.name for node in (*same, *together)}
    before: list[Node] = [*same, *(widened(node, vectors) for node in together)]
    within: list[Node] = [node for node in moved.code if node.name not in once]
    within += [accumulate(fold, moved) for fold in moved.folds]
    after: list[Node] = []
    for store, shifted in zip(sweep.stores, moved.stores, strict=True):
        if step_along(store.at, inner) != 1:
            within.append(shifted)
            continue
        array, fill, whole = lanes_to_store(store, store.source, lanes)
        before.append(array)
        within.append(fill)
        piece = vectors.pieces.get((store.tensor, store.at), 0)
        after.append(dataclasses.replace(whole, piece=piece))
    each = [Loop(lane, Binding.LANES, tuple(within))] if within else []
    return (*before, *each, *after)


def widened(node: Load | Keep | Kept, vectors: Vectors) -> Load | Keep | Kept:
    """A node that moves neighbouring elements at once."""
    if isinstance(node, Load):
        piece = vectors.pieces.get((node.tensor, node.at), 0)
        return dataclasses.replace(node, lanes=vectors.lanes, piece=piece)
    return dataclasses.replace(node, lanes=vectors.lanes)
