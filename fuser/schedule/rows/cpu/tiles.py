"""Rows of which a tensor is read or stored across its lines of memory: on a processor, tiles of
some rows.

    sum of T0 * T1 over pixels for each channel; T1 has its channels last
      for each channel: over all pixels: fold T0 * T1              a line of T1 for each element
    ->
      for 256 pixels, 16 channels: for each channel: over the pixels: fold T0 * T1    256 lines

A line of memory is still in the cache when the next row reads it. What lies so is turned as it is
read, or stored, where rows are whole blocks of vectors, instead of gathered or scattered for each
row. What a row folds becomes a fold over the rows, to a place for each.

    norm of T0 over channels, stored with its channels last; T0 has them first
      for each pixel: mean, variance, store           a line of T0 for each channel, three times
    ->
      for 16 pixels: all channels of T0, turned; for each pixel: mean, variance, store

Rows that are swept several times are in such tiles as a whole, whatever is folded over them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

from fuser.ir.nodes import Value
from fuser.schedule.code.axes import replace_axes
from fuser.schedule.code.row_body import Code, RowBody, Sweep
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import ZERO, Axis, compose
from fuser.schedule.indices.rewrites import substitute, variables_of
from fuser.schedule.tree.counts import point_count, power_of_two
from fuser.schedule.tree.row_statements import Keep, Kept, RowTile
from fuser.schedule.tree.statements import Load, Store
from fuser.schedule.tree.vectors import step_along
from fuser.segmenter.refusal import Refusal


def as_tiles(body: RowBody, parameters: CpuRowParameters) -> RowBody | Refusal:
    """`body` tile by tile, if that is worth it."""
    swept = [number for number, sweep in enumerate(body.stages) if sweep.axes]
    if len(swept) != 1:
        return Refusal(f"a row is swept {len(swept)} times")
    if not body.rows:
        return Refusal("there is one row only")
    if body.folds_over_rows or body.epilogue:
        return Refusal("something is folded over the rows")
    (at,) = swept
    before, sweep = body.stages[:at], body.stages[at]
    row, inner = body.rows[-1], sweep.axes[-1]
    turned = _turned_blocks(row.extent, inner.extent, parameters)
    rows, elements = turned or (
        _divisor(row.extent, parameters.tile_rows),
        _divisor(inner.extent, parameters.tile_elements),
    )
    if not _is_turned(sweep, row, inner, parameters.line_bytes):
        return Refusal("no tensor has neighbouring rows on one line of memory")
    is_short = turned is None and inner.extent < parameters.tile_elements
    if rows * elements < parameters.smallest_tile or is_short:
        return Refusal(f"tiles of {rows} x {elements} elements are too small")
    if not all(map(_is_simple, (*before, sweep))) or any(stage.stores for stage in before):
        return Refusal("points of a row have an order")
    if not 0 < point_count(body.rows) <= parameters.most_places:
        return Refusal(f"{point_count(body.rows)} rows are more than {parameters.most_places}")
    tiled = _in_order_of_tiles(body, at, rows, elements)
    return _with_tiles(tiled, at, parameters, parameters.tile_elements) if turned else tiled


def as_whole_tiles(body: RowBody, parameters: CpuRowParameters) -> RowBody | Refusal:
    """`body` with tiles that have some rows as a whole, which sweeps read as often as they like, if
    rows lie across the lines of one tensor, and along those of another."""
    sweeps = body.swept
    if len(sweeps) < 2 or not body.rows:
        return Refusal("a row is swept once, or the only one")
    axes = sweeps[0].axes
    if len(axes) != 1 or any(sweep.axes != axes for sweep in sweeps):
        return Refusal("sweeps of a row are not over one axis")
    row, (inner,) = body.rows[-1], axes
    rows, extent = _divisor(row.extent, parameters.tile_rows), inner.extent
    if rows < parameters.fewest_turned or not rows <= extent <= parameters.whole_tile:
        return Refusal(f"{row.extent} rows of {extent} elements make no tiles")
    if not all(map(_is_simple, body.stages)):
        return Refusal("points of a row have an order")
    accesses = [access for sweep in sweeps for access in sweep.accesses]
    across = [a for a in accesses if _lies_across(a, row, inner, parameters.line_bytes)]
    along = [a for a in accesses if step_along(a.at, inner) == 1 and step_along(a.at, row)]
    if not across or not along:
        return Refusal("all tensors have a row along their lines of memory, or all across them")
    many, few = row.split(rows)
    places = {row: compose((many, few))}
    body = dataclasses.replace(
        body,
        rows=(*body.rows[:-1], many, few),
        stages=tuple(replace_axes(stage, places) for stage in body.stages),
    )
    room = power_of_two(extent)  # as other lengths have, whose text is the same then
    for number, stage in enumerate(body.stages):
        body = _with_tiles(body, number, parameters, room) if stage.axes else body
    return body if body.tiles else Refusal("tiles of rows are too large")


def _in_order_of_tiles(body: RowBody, at: int, rows: int, elements: int) -> RowBody:
    """`body`, whose only sweep is stage `at`, over tiles of `rows` x `elements`. What rows fold has
    a place for each of them, and what follows from that is done when all tiles are."""
    before, sweep, after = body.stages[:at], body.stages[at], body.stages[at + 1 :]
    row, inner = body.rows[-1], sweep.axes[-1]
    (many_rows, few_rows), (blocks, block) = row.split(rows), inner.split(elements)
    places = {row: compose((many_rows, few_rows)), inner: compose((blocks, block))}
    count, place = point_count(body.rows), compose(body.rows)
    folds = tuple(dataclasses.replace(fold, slots=count, at=place) for fold in sweep.folds)
    stages = (*before, dataclasses.replace(sweep, axes=(block,), folds=folds))
    finished = Sweep(
        body.rows,
        tuple(node for stage in (*before, *after) for node in stage.code),
        folds,
        tuple(store for stage in after for store in stage.stores),
    )
    return RowBody(
        rows=(*body.rows[:-1], *sweep.axes[:-1], blocks, many_rows, few_rows),
        prologue=body.prologue,
        stages=tuple(replace_axes(stage, places) for stage in stages),
        epilogue=(finished,) if folds else (),
    )


def _turned_blocks(
    row_count: int, extent: int, parameters: CpuRowParameters
) -> tuple[int, int] | None:
    """Rows, and elements of each, that are turned at once in blocks of vectors. Blocks of elements
    are whole if they can be; else the last one is moved back."""
    rows = math.gcd(row_count, parameters.tile_rows)
    if rows < parameters.fewest_turned or extent < rows:
        return None
    if extent % rows:
        elements = _divisor(extent, parameters.tile_elements)
    else:
        elements = rows * _divisor(extent // rows, parameters.tile_elements // rows)
    worth = elements >= rows and rows * elements >= parameters.smallest_tile
    return (rows, elements) if worth else None


def _with_tiles(body: RowBody, at: int, parameters: CpuRowParameters, most: int) -> RowBody:
    """What stage `at` reads or stores across its lines of memory goes by tiles, of up to `most`
    elements of each row. What an earlier stage reads so is there."""
    sweep, row = body.stages[at], body.rows[-1]
    (axis,) = sweep.axes
    turned = [
        node
        for node in sweep.accesses
        if _is_plain(node, sweep)
        and not variables_of(node.at)
        and _lies_across(node, row, axis, parameters.line_bytes)
    ]
    there = {tile.name for tile in body.tiles}
    known = [node for node in turned if isinstance(node, Load) and node.name in there]
    new = [node for node in turned if node not in known]
    taken = sum(_tile_bytes(tile.tensor, row, most) for tile in body.tiles)
    totals = itertools.accumulate(_tile_bytes(node.tensor, row, most) for node in new)
    room = parameters.kept_bytes - taken
    new = [node for node, added in zip(new, totals, strict=True) if added <= room]
    code: list[Code] = list(sweep.code)
    tiles = list(body.tiles)
    for node in new:
        first, stored = substitute(node.at, {row: ZERO}), isinstance(node, Store)
        name = f"{node.tensor}_stored" if isinstance(node, Store) else node.name
        tiles.append(RowTile(name, node.tensor, first, row, axis, most, stored))
        if isinstance(node, Store):
            code.append(Keep(name, node.dtype, sweep.axes, source=node.source))
    for node in (*known, *new):
        if isinstance(node, Load):
            code[code.index(node)] = Kept(node.name, node.dtype, sweep.axes)
    stores = tuple(store for store in sweep.stores if store not in new)
    stages = list(body.stages)
    stages[at] = dataclasses.replace(sweep, code=tuple(code), stores=stores)
    return dataclasses.replace(body, stages=tuple(stages), tiles=tuple(tiles))


def _is_plain(node: Load | Store, sweep: Sweep) -> bool:
    """Whether elements lie in memory, and are all that a sweep stores of their tensor."""
    if isinstance(node, Load):
        return node.drawn is None
    stored = [store for store in sweep.stores if store.tensor == node.tensor]
    return node.joins is None and len(stored) == 1


def _tile_bytes(tensor: Value, row: Axis, most: int) -> int:
    return row.extent * most * tensor.dtype.itemsize


def _divisor(extent: int, most: int) -> int:
    return max(part for part in range(1, most + 1) if extent % part == 0)


def _is_simple(sweep: Sweep) -> bool:
    """Whether its points may be done in any order, and again."""
    return not sweep.scans and not sweep.checks


def _is_turned(sweep: Sweep, row: Axis, inner: Axis, line_bytes: int) -> bool:
    """Whether neighbouring rows, but not neighbouring elements of a row, are on one line."""
    return any(_lies_across(access, row, inner, line_bytes) for access in sweep.accesses)


def _lies_across(access: Load | Store, row: Axis, inner: Axis, line_bytes: int) -> bool:
    step = step_along(access.at, inner) or 0
    is_far = abs(step) * access.dtype.itemsize >= line_bytes
    return is_far and step_along(access.at, row) == 1
