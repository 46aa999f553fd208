"""Several neighbouring elements of a row for one thread, moved by vector accesses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from fuser.schedule.axes import moved, replace_axes
from fuser.schedule.bindings import Binding
from fuser.schedule.index import Axis, Index, lanes_of, of_axis
from fuser.schedule.loop_tree import Loop, Node
from fuser.schedule.row_body import Fold, Sweep
from fuser.schedule.row_statements import Accumulate, Keep, Kept
from fuser.schedule.row_vectors import Vectors, divided
from fuser.schedule.statements import Load
from fuser.schedule.vectors import lanes_to_store, step_along


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A sweep at neighbouring points: what is done `once` for all, and at `each`, a `lane`; and the
    sweep at the `first` of them in memory."""

    lane: Axis
    once: tuple[Node, ...]
    each: Sweep
    first: Sweep


def neighbours(
    sweep: Sweep, inner: Axis, lanes: int, vectors: Vectors | None, *, turned: bool = False
) -> Neighbours:
    """A sweep at `lanes` points along `inner`, or if `turned`, along it from the last of them to
    the first; memory is read in vectors if there are some."""
    lane, replaced = lanes_of(inner, lanes)
    to_first: dict[Axis, Index] = {}
    if turned:
        last = of_axis(inner) + Index(lanes - 1)
        to_first, replaced = {inner: last}, {inner: last + of_axis(lane) * -1}
    each, first = replace_axes(sweep, replaced), replace_axes(sweep, to_first)
    same, moving = divided(sweep.code, inner, along=-1 if turned else 1)
    wide = [_widened(moved(node, to_first), vectors) for node in moving] if vectors else []
    once = (*same, *wide)
    names = {node.name for node in once}
    code = tuple(node for node in each.code if node.name not in names)
    return Neighbours(lane, once, dataclasses.replace(each, code=code), first)


def in_lanes(
    sweep: Sweep, accumulate: Callable[[Fold, Sweep], Accumulate], inner: Axis, vectors: Vectors
) -> tuple[Node, ...]:
    """What a thread does at neighbouring points of a sweep, from one along `inner`."""
    lanes = vectors.lanes
    if lanes == 1:
        folds = (accumulate(fold, sweep) for fold in sweep.folds)
        return (*sweep.code, *folds, *sweep.stores)
    taken = neighbours(sweep, inner, lanes, vectors)
    before: list[Node] = [*taken.once]
    within: list[Node] = [*taken.each.code]
    within += [accumulate(fold, taken.each) for fold in taken.each.folds]
    after: list[Node] = []
    for store, shifted in zip(sweep.stores, taken.each.stores, strict=True):
        if step_along(store.at, inner) != 1:
            within.append(shifted)
            continue
        array, fill, whole = lanes_to_store(store, store.source, lanes)
        before.append(array)
        within.append(fill)
        piece = vectors.pieces.get((store.tensor, store.at), 0)
        after.append(dataclasses.replace(whole, piece=piece))
    each = [Loop(taken.lane, Binding.LANES, tuple(within))] if within else []
    return (*before, *each, *after)


def _widened(node: Load | Keep | Kept, vectors: Vectors) -> Load | Keep | Kept:
    """A node that moves neighbouring elements at once."""
    if isinstance(node, Load):
        piece = vectors.pieces.get((node.tensor, node.at), 0)
        return dataclasses.replace(node, lanes=vectors.lanes, piece=piece)
    return dataclasses.replace(node, lanes=vectors.lanes)
