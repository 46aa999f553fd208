"""The axes of a row body: in the order of memory, and merged where every access allows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from fuser.schedule.axes import merge_axes, moved
from fuser.schedule.counts import point_count
from fuser.schedule.index import Axis, Index, of_axis, substitute
from fuser.schedule.loop_tree import Load
from fuser.schedule.row_body import RowBody, Sweep


def arrange_rows(body: RowBody) -> RowBody:
    """`body` with its rows and the axes of every sweep from the slowest to the fastest, merged."""
    stages = tuple(map(_arranged, body.stages))
    indices = [index for stage in stages for index in stage.indices()]
    reference = max((_reference(stage) for stage in stages), key=lambda at: len(at.terms))
    rows, replaced = merge_axes(_by_stride(body.rows, reference), indices)
    return dataclasses.replace(
        body,
        rows=rows,
        stages=tuple(replace_axes(stage, replaced) for stage in stages),
        epilogue=tuple(map(_arranged, body.epilogue)),
    )


def replace_axes(sweep: Sweep, replaced: dict[Axis, Index]) -> Sweep:
    """A sweep with axes replaced in every index."""
    if not replaced:
        return sweep

    folds = (dataclasses.replace(fold, at=substitute(fold.at, replaced)) for fold in sweep.folds)
    return dataclasses.replace(
        sweep,
        code=tuple(moved(node, replaced) for node in sweep.code),
        folds=tuple(folds),
        stores=tuple(moved(store, replaced) for store in sweep.stores),
        ahead=tuple(moved(asked, replaced) for asked in sweep.ahead),
    )


def turned_axes(body: RowBody, axes: Iterable[Axis]) -> RowBody:
    """`body` with axes walked the other way."""
    turned = {axis: Index(axis.extent - 1) + of_axis(axis) * -1 for axis in axes}
    stages = tuple(replace_axes(stage, turned) for stage in body.stages)
    return dataclasses.replace(body, stages=stages)


def lanes_across_rows(body: RowBody) -> bool:
    """Whether neighbouring rows, and not neighbouring elements of a row, are next in memory."""
    if not body.rows:
        return False
    along = across = 0
    for sweep in body.stages:
        for access in sweep.accesses if sweep.axes else ():
            walked = [a for a in (*body.rows, *sweep.axes) if access.at.coefficient(a)]
            elements = point_count(walked)
            along += elements * (access.at.coefficient(sweep.axes[-1]) == 1)
            across += elements * (access.at.coefficient(body.rows[-1]) == 1)
    return across > along


def _arranged(sweep: Sweep) -> Sweep:
    axes = sweep.axes
    if not sweep.scans:
        reference = _reference(sweep)
        axes = _by_stride(axes, reference)
        # Elements that are repeated are read again, rather than one by one for every repetition.
        axes.sort(key=lambda axis: reference.coefficient(axis) != 0)
    merged, replaced = merge_axes(axes, sweep.indices())
    return dataclasses.replace(replace_axes(sweep, replaced), axes=merged)


def _reference(sweep: Sweep) -> Index:
    """The access whose memory the axes follow: of those over the most axes, the last."""
    accesses = [store.at for store in sweep.stores]
    accesses = [node.at for node in sweep.code if isinstance(node, Load)] + accesses
    return max(reversed(accesses), key=lambda at: len(at.terms), default=Index())


def _by_stride(axes: Sequence[Axis], at: Index) -> list[Axis]:
    return sorted(axes, key=lambda axis: -abs(at.coefficient(axis)))
