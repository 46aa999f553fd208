"""Rows of which one tensor is read across its lines of memory: on a processor, tiles of some rows.

    sum of T0 * T1 over pixels for each channel; T1 has its channels last
      for each channel: over all pixels: fold T0 * T1              a line of T1 for each element
    ->
      for 16 channels, 256 pixels: for each channel: over the pixels: fold T0 * T1    256 lines

A line of memory is still in the cache when the next row reads it. What a row folds becomes a fold
over the rows, to a place for each.
"""

from __future__ import annotations

import dataclasses

from fuser.schedule.counts import point_count
from fuser.schedule.heuristics import CpuRowParameters
from fuser.schedule.index import Axis, Index, compose, of_axis
from fuser.schedule.loop_tree import CheckedIndex
from fuser.schedule.row_axes import replace_axes
from fuser.schedule.row_body import RowBody, Sweep
from fuser.schedule.vectors import step_along


def in_tiles(body: RowBody, parameters: CpuRowParameters) -> RowBody | None:
    """`body` tile by tile, if that is worth it."""
    swept = [number for number, sweep in enumerate(body.stages) if sweep.axes]
    if len(swept) != 1 or not body.rows or body.folds_over_rows or body.epilogue:
        return None
    (at,) = swept
    before, sweep, after = body.stages[:at], body.stages[at], body.stages[at + 1 :]
    row, inner = body.rows[-1], sweep.axes[-1]
    rows = _divisor(row.extent, parameters.tile_rows)
    elements = _divisor(inner.extent, parameters.tile_elements)
    if (
        rows * elements < parameters.smallest_tile
        or inner.extent < parameters.tile_elements
        or not _is_turned(sweep, row, inner, parameters.line_bytes)
        or not _is_simple(sweep)
        or any(stage.stores or not _is_simple(stage) for stage in before)
        or not 0 < point_count(body.rows) <= parameters.most_places
    ):
        return None
    (many_rows, few_rows), (blocks, block) = row.split(rows), inner.split(elements)
    places = {row: _joined(many_rows, few_rows), inner: _joined(blocks, block)}
    place = compose(body.rows)
    folds = tuple(
        dataclasses.replace(fold, slots=point_count(body.rows), at=place) for fold in sweep.folds
    )
    stages = (
        *before,
        dataclasses.replace(sweep, axes=(block,), folds=folds),
    )
    finished = Sweep(
        body.rows,
        tuple(node for stage in (*before, *after) for node in stage.code),
        folds,
        tuple(store for stage in after for store in stage.stores),
    )
    return RowBody(
        rows=(*body.rows[:-1], many_rows, *sweep.axes[:-1], blocks, few_rows),
        prologue=body.prologue,
        stages=tuple(replace_axes(stage, places) for stage in stages),
        epilogue=(finished,) if folds else (),
    )


def _divisor(extent: int, most: int) -> int:
    return max(part for part in range(1, most + 1) if extent % part == 0)


def _joined(outer: Axis, inner: Axis) -> Index:
    return of_axis(outer) * inner.extent + of_axis(inner)


def _is_simple(sweep: Sweep) -> bool:
    """Whether its points may be done in any order, and again."""
    return not sweep.scans and not any(isinstance(node, CheckedIndex) for node in sweep.code)


def _is_turned(sweep: Sweep, row: Axis, inner: Axis, line_bytes: int) -> bool:
    """Whether neighbouring rows, but not neighbouring elements of a row, are on one line."""
    return any(
        step_along(access.at, row) == 1
        and abs(step_along(access.at, inner) or 0) * access.tensor.dtype.itemsize >= line_bytes
        for access in sweep.accesses
    )
