"""The axes of a row body: in the order of memory, and merged where every access allows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from fuser.schedule.axes import walks_as_one
from fuser.schedule.index import Axis, Index, substitute
from fuser.schedule.loop_tree import IndexValue, Let, Load, Store
from fuser.schedule.row_body import Code, RowBody, Sweep


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


def merge_axes(
    axes: Sequence[Axis], indices: Sequence[Index]
) -> tuple[tuple[Axis, ...], dict[Axis, Index]]:
    """Neighbouring axes merged that all indices walk as one, and what each axis has become."""
    left = [axis for axis in axes if axis.extent != 1]
    replaced: dict[Axis, Index] = {}
    position = len(left) - 2
    while position >= 0:
        outer, inner = left[position : position + 2]
        now = [substitute(index, replaced) for index in indices]
        if all(walks_as_one(index, outer, inner) for index in now):
            merged = Axis(outer.path, outer.extent * inner.extent)
            change = {outer: Index(), inner: Index(0, ((merged, 1),))}
            replaced = {axis: substitute(at, change) for axis, at in replaced.items()} | change
            left[position : position + 2] = [merged]
        position -= 1
    return tuple(left), replaced


def replace_axes(sweep: Sweep, replaced: dict[Axis, Index]) -> Sweep:
    """A sweep with axes replaced in every index."""
    if not replaced:
        return sweep

    def code(node: Code) -> Code:
        if isinstance(node, Load):
            return dataclasses.replace(node, at=substitute(node.at, replaced))
        if isinstance(node, Let) and isinstance(node.expression, IndexValue):
            index = substitute(node.expression.index, replaced)
            expression = dataclasses.replace(node.expression, index=index)
            return dataclasses.replace(node, expression=expression)
        return node

    def moved(at: Index) -> Index:
        return substitute(at, replaced)

    folds = (dataclasses.replace(fold, at=moved(fold.at)) for fold in sweep.folds)
    stores = (dataclasses.replace(store, at=moved(store.at)) for store in sweep.stores)
    return dataclasses.replace(
        sweep, code=tuple(map(code, sweep.code)), folds=tuple(folds), stores=tuple(stores)
    )


def lanes_across_rows(body: RowBody) -> bool:
    """Whether neighbouring rows, and not neighbouring elements of a row, are next in memory."""
    if not body.rows or any(fold.slots for sweep in body.stages for fold in sweep.folds):
        return False
    along = across = 0
    for sweep in body.stages:
        for access in (*sweep.code, *sweep.stores):
            if isinstance(access, Load | Store) and sweep.axes:
                walked = [a for a in (*body.rows, *sweep.axes) if access.at.coefficient(a)]
                elements = math.prod(axis.extent for axis in walked)
                along += elements * (access.at.coefficient(sweep.axes[-1]) == 1)
                across += elements * (access.at.coefficient(body.rows[-1]) == 1)
    return across > along


def _arranged(sweep: Sweep) -> Sweep:
    axes = _by_stride(sweep.axes, _reference(sweep))
    merged, replaced = merge_axes(axes, sweep.indices())
    return dataclasses.replace(replace_axes(sweep, replaced), axes=merged)


def _reference(sweep: Sweep) -> Index:
    """The access whose memory the axes follow: of those over the most axes, the last."""
    accesses = [store.at for store in sweep.stores]
    accesses = [node.at for node in sweep.code if isinstance(node, Load)] + accesses
    return max(reversed(accesses), key=lambda at: len(at.terms), default=Index())


def _by_stride(axes: Sequence[Axis], at: Index) -> list[Axis]:
    return sorted(axes, key=lambda axis: -abs(at.coefficient(axis)))
