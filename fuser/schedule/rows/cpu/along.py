"""Rows on a processor with lanes along the row.

for each row: for each `lanes` elements of it: fold each into its lane; join the lanes
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.schedule.code.row_body import RowBody, Sweep
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.rows.buffers import keep_in_row
from fuser.schedule.rows.cpu.batches import batches
from fuser.schedule.rows.cpu.folds import (
    accumulated,
    accumulated_in_lanes,
    folded_in_lanes,
    in_own_type,
    wide,
    widened_blocks,
)
from fuser.schedule.rows.cpu.interleave import interleave_rows
from fuser.schedule.rows.cpu.memory import (
    ask_ahead,
    chunks,
    in_chunks,
    in_chunks_anywhere,
    store_last,
)
from fuser.schedule.rows.cpu.online import keep_or_sum_online, swept_online
from fuser.schedule.rows.cpu.ranks import fold_ranks
from fuser.schedule.rows.cpu.scans import scan_loop, scanned_in_turn
from fuser.schedule.rows.cpu.sweeps import (
    Ways,
    in_blocks,
    in_one_way,
    lanes_drawn,
    once_a_row,
    sweep_along,
)
from fuser.schedule.rows.cpu.variances import sum_variances_at_once
from fuser.schedule.rows.parts import parts_of
from fuser.schedule.rows.scans import carry_of, turned_with_scans
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.loop_tree import IfPastCache, Loop, Node, nested
from fuser.schedule.tree.row_statements import DrainRows, Keep, RowArray, RowOfTile, RowTile


def as_along(body: RowBody, parameters: CpuRowParameters) -> RowBody:
    """Rows with lanes along each, which fits all."""
    return interleave_rows(body, parameters)


def along_rows(body: RowBody, ways: Ways) -> tuple[Node, ...]:
    """Loops over rows, and over neighbouring elements of each, some of which are done again where
    they may be."""
    parameters = ways.parameters
    if not body.tiles:
        body = sum_variances_at_once(body)
    body = store_last(turned_with_scans(body))
    if ways.may_repeat:
        body, online = keep_or_sum_online(body, parameters)
    else:
        body, online = keep_in_row(body, parameters.kept_bytes), None
    if not online:
        body = ask_ahead(fold_ranks(body), parameters)

    def loops(ways: Ways) -> tuple[Node, ...]:
        nodes: list[Node] = [*_row_arrays(body)]
        for sweep in body.stages:
            if not online or sweep not in online:
                nodes += _stage(sweep, ways)
            elif sweep is online[0]:
                nodes += swept_online(*online, ways)
        nodes += widened_blocks(body, parameters.row_block, body.rows)
        if not body.tiles:
            return nested(body.rows, Binding.PARALLEL, tuple(nodes))
        tiles = _after_tiles(body.tiles, body.rows[-1], nodes)
        return nested(body.rows[:-1], Binding.PARALLEL, tiles)

    return in_one_way(loops, ways)


def batched_rows(body: RowBody, ways: Ways) -> tuple[Node, ...]:
    """Loops over batches of rows, and over neighbouring elements of each row, some of which are
    done again. Lanes are as many as a batch has rows, or as are drawn at once."""
    parameters, count = ways.parameters, ways.parameters.batch
    body = sum_variances_at_once(body)
    body = keep_in_row(store_last(body), parameters.kept_bytes // count)
    body = ask_ahead(body, parameters, rows_at_once=count)

    def of_row(sweep: Sweep, ways: Ways) -> list[Node]:
        if not sweep.axes:
            return once_a_row(sweep)
        lanes = max(count, lanes_drawn(sweep, sweep.axes[-1].extent, parameters))
        return sweep_along(sweep, ways, in_own_type, lanes, parts_of(sweep, lanes))

    def loops(ways: Ways) -> tuple[Node, ...]:
        stages = [(sweep, of_row(sweep, ways)) for sweep in body.stages]
        return batches(body, _row_arrays(body), stages, parameters)

    return in_one_way(loops, ways)


def _row_arrays(body: RowBody) -> list[RowArray]:
    """Room for what sweeps keep of a row, but in tiles."""
    kept = (node for node in body.code if isinstance(node, Keep))
    tiled = {tile.name for tile in body.tiles}
    return [RowArray(node.name, node.dtype, node.axes) for node in kept if node.name not in tiled]


def _after_tiles(tiles: Sequence[RowTile], row: Axis, of_row: Sequence[Node]) -> tuple[Node, ...]:
    """What is done of each row that the tiles have, after these are made; then some are stored."""
    drained = (DrainRows(tile) for tile in tiles if tile.stored)
    return *tiles, Loop(row, Binding.SERIAL, (*map(RowOfTile, tiles), *of_row)), *drained


def _stage(sweep: Sweep, ways: Ways) -> list[Node]:
    """The loops of one stage of a row. Where no element may be done again, there are no chunks and
    no lanes are moved back."""
    given = ways.parameters
    if not sweep.axes:
        return once_a_row(sweep)
    if sweep.scans:
        return _scanned(sweep, given)
    *outer, inner = sweep.axes
    chunked: tuple[Node, ...] = ()
    if ways.may_repeat and in_chunks(sweep, given):
        loops = chunks(sweep, given.processor.chunk, ways.alike)
        chunked = nested(outer, Binding.SERIAL, loops)
        if in_chunks_anywhere(sweep):
            return [*chunked]
    is_long = point_count(sweep.axes) > given.block
    widens = any(wide(fold) is not fold.dtype for fold in sweep.folds_of_row)
    if is_long and widens and inner.extent >= given.long_run:
        return [in_blocks(sweep, ways, threaded=False)]
    kept = wide if is_long else in_own_type
    swept = sweep_along(sweep, ways, kept, parts=parts_of(sweep, given.shortest_part))
    return [IfPastCache(chunked, tuple(swept))] if chunked else swept


def _scanned(sweep: Sweep, parameters: CpuRowParameters) -> list[Node]:
    """A sweep that scans, chunk by chunk in the order of the row; of a row that is shorter than a
    chunk, point by point."""
    chunk = parameters.processor.chunk
    if sweep.axes[-1].extent < chunk and not sweep.folds_of_row:
        return [scanned_in_turn(sweep, accumulated(sweep.folds_over_rows))]
    before, within, after = folded_in_lanes(sweep.folds_of_row, chunk, wide)
    first, to_rows, last = accumulated_in_lanes(sweep, chunk, wide)
    loop = scan_loop(sweep, [*within, *to_rows], chunk)
    carries = map(carry_of, sweep.scans)
    loops = nested(sweep.axes[:-1], Binding.SERIAL, (*first, loop, *last))
    return [*carries, *before, *loops, *after]
