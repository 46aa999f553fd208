"""Rows on a processor with lanes along the row.

for each row: for each `lanes` elements of it: fold each into its lane; join the lanes
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from fuser.schedule.counts import point_count
from fuser.schedule.heuristics import CpuRowParameters
from fuser.schedule.index import ZERO, Axis
from fuser.schedule.lane_calls import VECTOR, made_both_ways, with_lane_calls, worth_phases
from fuser.schedule.loop_tree import (
    Accumulate,
    Binding,
    Call,
    Finish,
    Keep,
    Literal,
    Loop,
    Node,
    Partial,
    Raise,
    Ref,
    Region,
    RowArray,
    RowOfTile,
    RowTile,
    nested,
)
from fuser.schedule.names import block_name
from fuser.schedule.row_axes import turned_axes
from fuser.schedule.row_batches_cpu import are_batched, batches
from fuser.schedule.row_body import RowBody, Sweep
from fuser.schedule.row_buffers import keep_in_row
from fuser.schedule.row_folds_cpu import (
    accumulated,
    accumulated_in_lanes,
    folded_in_lanes,
    lane_parts,
    thread_partial,
    to_one_place,
    wide,
    widened_blocks,
    without_repeats,
)
from fuser.schedule.row_memory import (
    ask_ahead,
    ask_for,
    chunks,
    consecutive,
    in_chunks,
    store_last,
)
from fuser.schedule.row_online import online_pair
from fuser.schedule.row_parts import Part, parts_of
from fuser.schedule.row_scans import carry_of, independent, is_turned, totals_of
from fuser.schedule.row_scans_cpu import scan_loop, scanned_in_turn, shared_out
from fuser.schedule.together import done_in_vectors, loads_together


@dataclass(frozen=True, slots=True)
class Ways:
    """How sweeps may be done: whether elements `may_repeat`, and the names that are made `in_turn`,
    lane by lane, though there is a call for all lanes."""

    parameters: CpuRowParameters
    may_repeat: bool
    in_turn: AbstractSet[str] = frozenset()


def along_rows(
    body: RowBody, parameters: CpuRowParameters, may_repeat: bool, alone: bool
) -> tuple[Node, ...]:
    """Loops over rows, and over neighbouring elements of each, some of which are done again where
    they `may_repeat`.

    Rows `alone` are shared out over the threads one by one: see `rows_alone`.
    """
    if any(map(is_turned, body.stages)):
        body = turned_axes(body, body.rows)
    ways = Ways(parameters, may_repeat)
    while True:
        nodes = _along_rows(body, ways, alone)
        if not (both := made_both_ways(nodes)):
            return nodes
        ways = dataclasses.replace(ways, in_turn=ways.in_turn | both)


def _along_rows(body: RowBody, ways: Ways, alone: bool) -> tuple[Node, ...]:
    parameters, may_repeat = ways.parameters, ways.may_repeat
    batched = may_repeat and not alone and not body.tiles and are_batched(body, parameters)
    done_together = parameters.batch if batched else 1
    if not alone:
        body = keep_in_row(store_last(body), parameters.kept_bytes // done_together)
    together = may_repeat and not alone and online_pair(body, parameters)
    if together and len(parts_of(together[0], parameters.shortest_part)) > 1:
        together = None
    if not together:
        body = ask_ahead(body, parameters, alone, done_together)
    kept = [node for sweep in body.stages for node in sweep.code if isinstance(node, Keep)]
    arrays = [RowArray(node.name, node.dtype, node.axis, outer=node.outer) for node in kept]
    if batched:
        stages = [(sweep, _stage_of_batch(sweep, ways)) for sweep in body.stages]
        return batches(body, arrays, stages, parameters)
    nodes: list[Node] = [*arrays]
    for sweep in body.stages:
        if together and sweep in together:
            nodes += _online(*together, ways) if sweep is together[0] else ()
        else:
            nodes += _stage(sweep, ways, alone)
    nodes += widened_blocks(body, parameters.row_block, body.rows)
    if body.tiles:
        nodes = _after_tiles(body.tiles, body.rows[-1], nodes)
        return nested(body.rows[:-1], Binding.PARALLEL, tuple(nodes))
    return nested(body.rows, Binding.SERIAL if alone else Binding.PARALLEL, tuple(nodes))


def _after_tiles(tiles: Sequence[RowTile], row: Axis, of_row: Sequence[Node]) -> list[Node]:
    """What is done of each row that the tiles have, after these are made."""
    lines = (RowOfTile(tile.name, tile.tensor.dtype, row) for tile in tiles)
    return [*tiles, Loop(row, Binding.SERIAL, (*lines, *of_row))]


def rows_alone(body: RowBody, parameters: CpuRowParameters) -> bool:
    """Whether rows are so few that each is shared out over the threads."""
    in_parts = all(_scans_in_parts(sweep) for sweep in body.stages)
    return point_count(body.rows) < parameters.few_rows and not body.folds_over_rows and in_parts


def _scans_in_parts(sweep: Sweep) -> bool:
    """Whether threads may scan a part of a sweep each, if it is scanned."""
    return not sweep.scans or (len(sweep.axes) == 1 and not sweep.folds and independent(sweep))


def _stage(sweep: Sweep, ways: Ways, alone: bool) -> list[Node]:
    """The loops of one stage: by one thread, or, of a row `alone`, by all of them. Where no element
    may be done again, there are no chunks and no lanes are moved back."""
    parameters = ways.parameters
    if not sweep.axes:
        return _point(sweep)
    if sweep.scans:
        return _scan_along(sweep, parameters, alone)
    *outer, inner = sweep.axes
    if alone and not sweep.folds_of_row:
        parts = parts_of(sweep, parameters.shortest_part)
        loops = tuple(_plain_loop(part) for part in parts)
        return [*nested(outer, Binding.PARALLEL, loops)]
    if ways.may_repeat and not alone and in_chunks(sweep, parameters):
        loops = chunks(sweep, parameters.processor.chunk, ways.in_turn)
        return [*nested(outer, Binding.SERIAL, loops)]
    is_long = point_count(sweep.axes) > parameters.block
    widens = any(wide(fold) is not fold.dtype for fold in sweep.folds_of_row)
    if alone or (is_long and widens and inner.extent >= parameters.long_run):
        if alone and sweep.stores:  # else lanes are moved into another thread's block
            ways = dataclasses.replace(ways, may_repeat=False)
        return _sweep_in_blocks(sweep, ways, alone)
    parts = parts_of(sweep, parameters.shortest_part)
    return sweep_along(sweep, ways, narrow=not is_long, parts=parts)


def _stage_of_batch(sweep: Sweep, ways: Ways) -> list[Node]:
    """The loops of one stage of a row in a batch, in as many lanes as there are rows in it."""
    if not sweep.axes:
        return _point(sweep)
    lanes = ways.parameters.batch
    return sweep_along(sweep, ways, narrow=True, lanes=lanes, parts=parts_of(sweep, lanes))


def _sweep_in_blocks(sweep: Sweep, ways: Ways, alone: bool) -> list[Node]:
    """A long sweep: folded within a block in the type of the fold, over blocks in a wider one.

    Of a row `alone`, each thread folds its blocks, then the folds of the threads are joined.
    """
    *outer, inner = sweep.axes
    parameters, partials = ways.parameters, _partials(sweep)
    loops: list[Node] = []
    for part in parts_of(sweep, parameters.shortest_part):
        swept = _blocks_of(part, partials, ways)
        if part.span or inner.extent > parameters.block or (alone and not outer):
            swept = (Loop(inner, Binding.BLOCKS, swept, parameters.block, span=part.span),)
        loops += swept
    nodes = nested(outer, Binding.PARALLEL if alone else Binding.SERIAL, tuple(loops))
    finished = tuple(Finish(partial, ZERO) for partial in partials)
    return [Region(partials, nodes, finished, threaded=alone)]


def _partials(sweep: Sweep) -> tuple[Partial, ...]:
    """What is kept of the folds of a row while its blocks are swept."""
    return tuple(thread_partial(dataclasses.replace(fold, slots=1)) for fold in sweep.folds_of_row)


def _blocks_of(part: Part, partials: tuple[Partial, ...], ways: Ways) -> tuple[Node, ...]:
    """A block of a part of a long sweep, joined to `partials`."""
    sweep = part.sweep
    folds = tuple(
        fold if fold.slots else dataclasses.replace(fold, dtype=wide(fold)) for fold in sweep.folds
    )
    one = dataclasses.replace(sweep, axes=sweep.axes[-1:], folds=folds)
    parts = [dataclasses.replace(part, sweep=one, in_blocks=True)]
    swept = sweep_along(one, ways, narrow=True, parts=parts)
    return *swept, *(Accumulate(p, ZERO, Ref(p.name, p.kept)) for p in partials)


def _online(largest: Sweep, sums: Sweep, ways: Ways) -> list[Node]:
    """Two sweeps over a row as one, block by block: see `row_online.py`."""
    parameters = ways.parameters
    (axis,) = sums.axes
    (fold,) = largest.folds
    block = dataclasses.replace(fold, name=block_name(fold.name))
    (held,), sums_held = _partials(largest), _partials(sums)
    found = dataclasses.replace(largest, folds=(block,), ahead=())
    risen = Raise(fold.name, held, Ref(block.name, held.kept), sums_held)
    summed = dataclasses.replace(sums, ahead=tuple(ask_for(largest, parameters.online_block)))
    loops = (
        *sweep_along(found, ways, narrow=True),
        risen,
        Loop(
            axis,
            Binding.BLOCKS,
            _blocks_of(Part(summed), sums_held, ways),
            parameters.block,
        ),
    )
    # Without any finite number a row has no sum.
    none = Call("mul", (Literal(0, held.kept), Ref(fold.name, held.kept)), held.kept)
    finished = (
        Finish(held, ZERO),
        *(Accumulate(partial, ZERO, none) for partial in sums_held),
        *(Finish(partial, ZERO) for partial in sums_held),
    )
    blocks = Loop(axis, Binding.BLOCKS, loops, parameters.online_block)
    return [Region((held, *sums_held), (blocks,), finished, threaded=False)]


def _point(sweep: Sweep) -> list[Node]:
    """What is done once a row."""
    assert not sweep.folds_of_row, "a fold needs points"
    return [*sweep.code, *accumulated(sweep.folds_over_rows), *sweep.stores]


def sweep_along(
    sweep: Sweep,
    ways: Ways,
    narrow: bool,
    lanes: int | None = None,
    parts: Sequence[Part] = (),
) -> list[Node]:
    """A sweep, in `parts` if there are some, folded in lanes; `narrow` lanes are of the folded
    values' own type. `lanes` is by default what joining them is worth."""
    outer = sweep.axes[:-1]
    parts = parts or (Part(sweep),)
    own = [*sweep.folds_of_row, *to_one_place(sweep)]
    if lanes is None or not own:
        narrow_reads = any(load.tensor.dtype.itemsize < 4 for load in consecutive(sweep))
        arrays = sum(len(lane_parts(fold, fold.dtype)) for fold in own)
        extent = min(part.extent for part in parts)
        joined = _joined_after(sweep)
        lanes = ways.parameters.lanes_for(extent, arrays, joined, narrow=narrow_reads)
    before, _, after = folded_in_lanes(sweep.folds_of_row, lanes, narrow)
    first, _, last = accumulated_in_lanes(sweep, lanes, narrow)
    loops = (_part_along(part, ways, narrow, lanes) for part in parts)
    return [*before, *nested(outer, Binding.SERIAL, (*first, *loops, *last)), *after]


def _part_along(part: Part, ways: Ways, narrow: bool, lanes: int) -> Loop:
    """The loop over a part of a sweep. If elements may repeat, the last lanes are moved back to end
    in range. Where there is nothing to do for several lanes together, long loops are left to the
    compiler."""
    sweep, inner = part.sweep, part.sweep.axes[-1]
    parameters = ways.parameters
    readers = (*sweep.folds, *sweep.stores)
    drawn, code = loads_together(sweep.code, inner, lanes, readers, drawn_only=True)
    in_range = min(part.extent, parameters.block)
    rounds = ways.may_repeat and not drawn and in_range >= lanes
    calls = rounds and lanes % VECTOR == 0 and worth_phases(sweep.code, ways.in_turn)
    together = bool(sweep.folds_of_row or to_one_place(sweep) or drawn or sweep.ahead or calls)
    plain = ways.may_repeat and not together
    if plain and done_in_vectors(sweep.code, sweep.stores, inner, parameters.processor):
        together, lanes = True, parameters.processor.vector
        rounds = in_range >= lanes
    if not together:
        return _plain_loop(part)
    if rounds:
        drawn, code = loads_together(sweep.code, inner, lanes, readers)
        sweep = without_repeats(sweep)
    _, within, _ = folded_in_lanes(sweep.folds_of_row, lanes, narrow)
    _, to_rows, _ = accumulated_in_lanes(sweep, lanes, narrow)
    ahead = (dataclasses.replace(asked, lanes=lanes) for asked in sweep.ahead)
    inside = (*code, *within, *to_rows, *sweep.stores)
    if calls:
        held, phases = with_lane_calls(
            inside, lanes, lambda body: Loop(inner, Binding.SIMD, body, lanes), ways.in_turn
        )
        inside = (*held, *phases) if held else inside
    binding = Binding.ROUNDS if rounds else Binding.SWEEP
    span = None if part.in_blocks else part.span
    return Loop(inner, binding, (*ahead, *drawn, *inside), lanes, span=span)


def _plain_loop(part: Part) -> Loop:
    """The loop over a part of which each element is done by itself, left to the compiler."""
    sweep = part.sweep
    inside = (*sweep.code, *accumulated(sweep.folds_over_rows), *sweep.stores)
    span = None if part.in_blocks else part.span
    return Loop(sweep.axes[-1], Binding.SIMD, inside, span=span)


def _joined_after(sweep: Sweep) -> int:
    """The points after which lanes are joined."""
    if to_one_place(sweep):
        return sweep.axes[-1].extent
    return point_count(sweep.axes)


def _scan_along(sweep: Sweep, parameters: CpuRowParameters, alone: bool) -> list[Node]:
    """A sweep that scans: chunk by chunk in the order of the row, by one thread, or part by part by
    all of them; a row that is shorter than a chunk, point by point."""
    *outer, inner = sweep.axes
    own = sweep.folds_of_row
    if inner.extent < parameters.processor.chunk and not (own or alone):
        return [scanned_in_turn(sweep, accumulated(sweep.folds_over_rows))]
    before, within, after = folded_in_lanes(own, parameters.processor.chunk, narrow=False)
    first, to_rows, last = accumulated_in_lanes(sweep, parameters.processor.chunk, narrow=False)
    loop = scan_loop(sweep, [*within, *to_rows], parameters.processor.chunk)
    if alone:
        totals = sweep_along(totals_of(sweep), Ways(parameters, may_repeat=False), narrow=False)
        return [shared_out(sweep, totals, loop, parameters.scanned_block)]
    carries = map(carry_of, sweep.scans)
    return [*carries, *before, *nested(outer, Binding.SERIAL, (*first, loop, *last)), *after]
