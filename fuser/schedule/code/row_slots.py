"""Folds on several threads: where each thread may keep them, so that none is in another's way.

A fold over the rows has slots; a thread owns those that its points go to. Sweeps are shared out
along axes that number the slots, and repeated where two folds have none of these in common.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fuser.schedule.code.row_body import Fold, Sweep
from fuser.schedule.indices.index import Axes, Axis, of_axis
from fuser.schedule.tree.folds import neutral
from fuser.schedule.tree.row_statements import Partial


def team_partial(fold: Fold) -> Partial:
    """What teams of threads keep of a fold over the rows, in the type of the fold."""
    assert fold.slots is not None
    fill = neutral(fold.operation, fold.dtype)
    return Partial(fold.name, fold.dtype, fold.dtype, fold.operation, fold.slots, fill)


def row_partial(fold: Fold) -> Partial:
    """What the threads of a team keep of a fold, until the row is done."""
    name = fold.name if fold.slots is None else f"{fold.name}_row"
    return team_partial(dataclasses.replace(fold, name=name, slots=1))


def slots_along(stages: Sequence[Sweep]) -> Axis | None:
    """The axis that numbers all slots of folds over the rows, as they are: a thread that has the
    same of its points in every row has the same slots, and may keep them."""
    found = [(f, sweep) for sweep in stages for f in sweep.folds if f.slots not in (None, 1)]
    axes = {sweep.axes for _, sweep in found}
    if len(axes) != 1 or len(of_all := axes.pop()) != 1:
        return None
    (axis,) = of_all
    if any(fold.at != of_axis(axis) or fold.slots != axis.extent for fold, _ in found):
        return None
    return axis


def is_of_row(fold: Fold, sweep: Sweep) -> bool:
    """Whether the points of a sweep fold to one result, and other rows may have another."""
    return fold.slots is None or (fold.slots > 1 and not _slot_axes(fold, sweep))


def folds_of_row(sweep: Sweep) -> list[Fold]:
    """The folds of which each row has a result, until it is done at least."""
    return [fold for fold in sweep.folds if is_of_row(fold, sweep)]


def _slot_axes(fold: Fold, sweep: Sweep) -> Axes:
    """The axes of a sweep that say to which slot of a fold over the rows a value goes."""
    return tuple(axis for axis in sweep.axes if fold.at.coefficient(axis))


def numbering_axes(sweep: Sweep) -> Axes:
    """The axes of a sweep along which every fold over the rows has slots of its own."""
    arrays = [_slot_axes(fold, sweep) for fold in sweep.folds]
    return tuple(axis for axis in sweep.axes if all(axis in axes for axes in arrays if axes))


def conflict_free(sweep: Sweep) -> list[Sweep]:
    """A sweep, repeated if folds over the rows have slots along different axes."""
    parts = [dataclasses.replace(sweep, folds=())]
    for fold in sweep.folds:
        tried = [dataclasses.replace(part, folds=(*part.folds, fold)) for part in parts]
        fitting = [number for number, part in enumerate(tried) if numbering_axes(part)]
        if fitting or not sweep.axes:
            number = fitting[0] if fitting else 0
            parts[number] = tried[number]
        else:
            parts.append(dataclasses.replace(sweep, folds=(fold,), stores=()))
    return parts
