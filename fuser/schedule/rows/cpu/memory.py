"""How sweeps on a processor treat memory: what is read next is asked for, and results that no cache
holds are written past it.

    sweep   load T0; T1 folds it                        sweep   load T0; T1 folds it
    sweep   load T0; T3 = exp(T0 - T1); fold T3   ->    sweep   ask for T0 of the next row; ...
    sweep   store T5                                    sweep   chunks of T5 past the cache

The first sweep of a row waits for memory, and later ones find the row in the cache and compute. So
that both happen at once, the most costly of these asks for the next row.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence

from fuser.schedule.code.axes import later
from fuser.schedule.code.lane_calls import ANY_WAY, Alike, gains_by_chunks
from fuser.schedule.code.lane_stores import stored_at_once
from fuser.schedule.code.row_body import RowBody, Sweep, names_in, without_dead_code
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.indices.rewrites import substitute, variables_of
from fuser.schedule.rows.parts import Part, parts_of
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.folds import is_extreme
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.statements import Load, Prefetch, reads_in
from fuser.schedule.tree.vectors import step_along

_WORD = 4
"""Bytes of the shortest elements whose folds wait for memory: shorter ones take longer to widen
than a line of them does to arrive."""


def store_last(body: RowBody) -> RowBody:
    """`body` with what a sweep stores stored by a later one which has it too and folds nothing:
    only that can write past the cache. What the sweep made for nothing else, it no longer makes."""
    stages = list(body.stages)
    for early, late in itertools.combinations(range(len(stages)), 2):
        sweep, other = stages[early], stages[late]
        if other.axes != sweep.axes or other.folds or not sweep.folds:
            continue
        made = {node.name for node in other.code}
        moved = tuple(store for store in sweep.stores if made.issuperset(names_in((store,))))
        kept = tuple(store for store in sweep.stores if store not in moved)
        if moved:
            stages[early] = without_dead_code(dataclasses.replace(sweep, stores=kept))
        stages[late] = dataclasses.replace(other, stores=(*moved, *other.stores))
    return dataclasses.replace(body, stages=tuple(stages))


def ask_ahead(body: RowBody, parameters: CpuRowParameters, rows_at_once: int = 1) -> RowBody:
    """`body` with a sweep that asks for what the first one reads of a later row, of those after the
    ones that are done at once; if that is the only one, for what it reads soon after. A first sweep
    that folds over the rows, and so reads and writes what it adds to, asks for what it reads soon
    itself, unless a later one takes much longer; of long rows, whose next one does not come soon,
    the later one asks as well."""
    sweeps = body.swept
    again = [sweep for sweep in sweeps[1:] if sweep.axes == sweeps[0].axes]
    if not again or not body.rows:
        return ask_soon(body, parameters)
    first, costly = sweeps[0], max(again, key=lambda sweep: sweep.cost)
    if first.folds_over_rows and costly.cost <= 2 * first.cost:
        soon = _of_a_later_row(first, body.rows, parameters, rows_at_once, soon=True)
        body = _asking(body, first, soon)
        if _longest_read(first) < 2 * parameters.ahead_bytes:
            return body
    ahead = _of_a_later_row(first, body.rows, parameters, rows_at_once, soon=False)
    return _asking(body, costly, ahead)


def _longest_read(sweep: Sweep) -> int:
    """The bytes that a sweep reads of one tensor."""
    widest = max((load.dtype.itemsize for load in _placed(sweep)), default=0)
    return point_count(sweep.axes) * widest


def ask_soon(body: RowBody, parameters: CpuRowParameters) -> RowBody:
    """`body` with a first sweep that asks for what it reads soon after."""
    if not body.swept:
        return body
    first = body.swept[0]
    return _asking(body, first, _soon_after(first, body.rows, parameters))


def _asking(body: RowBody, asking: Sweep, ahead: Iterable[Prefetch]) -> RowBody:
    changed = dataclasses.replace(asking, ahead=tuple(ahead))
    stages = tuple(changed if sweep is asking else sweep for sweep in body.stages)
    return dataclasses.replace(body, stages=stages)


def _of_a_later_row(
    sweep: Sweep,
    rows: Sequence[Axis],
    parameters: CpuRowParameters,
    rows_at_once: int,
    *,
    soon: bool,
) -> Iterator[Prefetch]:
    """If `soon`, of rows that follow each other, what follows in memory."""
    points = point_count(sweep.axes)
    loads = [load for load in _placed(sweep) if load.at.coefficient(rows[-1])]
    read = sum(load.dtype.itemsize for load in loads) * points * point_count(rows)
    row = max((points * load.dtype.itemsize for load in loads), default=0)
    pays = None if row > parameters.ahead_bytes else read >= parameters.later_from_bytes
    for load in loads:
        if soon and load.at.coefficient(rows[-1]) == points:
            yield Prefetch(load.name, load.tensor, load.at, 1, pays=pays)
        else:
            between = parameters.ahead_bytes / (points * load.dtype.itemsize)
            axis, steps = later(rows, max(between, rows_at_once))
            at = substitute(load.at, {axis: Index(steps, ((axis, 1),))})
            yield Prefetch(load.name, load.tensor, at, 1, there=True, pays=pays)


def _soon_after(
    sweep: Sweep, rows: tuple[Axis, ...], parameters: CpuRowParameters
) -> Iterator[Prefetch]:
    """Where rows follow each other in memory, or are so long that their ends do not matter. Only
    for sums of words of one tensor, and only of more than caches hold: nothing else is faster by
    it."""
    loads, points = _placed(sweep), point_count(sweep.axes)
    if not loads or sweep.stores or any(is_extreme(fold.operation) for fold in sweep.folds):
        return
    load, places = loads[0], [load.at.constant for load in loads]
    if len({load.tensor for load in loads}) > 1 or max(places) - min(places) >= points:
        return
    size = load.dtype.itemsize
    is_long = points * size >= 4 * parameters.ahead_bytes
    if size >= _WORD and (is_long or (rows and load.at.coefficient(rows[-1]) == points)):
        pays = points * point_count(rows) * size >= parameters.ahead_from_bytes
        yield Prefetch(load.name, load.tensor, load.at, 1, pays=pays)


def ask_for(sweep: Sweep, ahead: int) -> Iterator[Prefetch]:
    """What a sweep reads so many elements later."""
    inner = sweep.axes[-1]
    for load in _placed(sweep):
        at = substitute(load.at, {inner: Index(ahead, ((inner, 1),))})
        yield Prefetch(load.name, load.tensor, at, 1, there=True)


def consecutive(sweep: Sweep) -> list[Load]:
    """The loads of neighbouring elements of a row."""
    return [load for load in reads_in(sweep.code) if step_along(load.at, sweep.axes[-1]) == 1]


def _placed(sweep: Sweep) -> list[Load]:
    """Those of known places: what is gathered lies where the index of a later row says."""
    return [load for load in consecutive(sweep) if not variables_of(load.at)]


def in_chunks(sweep: Sweep, parameters: CpuRowParameters) -> bool:
    """Whether a sweep that folds nothing writes long runs of consecutive elements."""
    inner = sweep.axes[-1]
    consecutive = all(step_along(store.at, inner) == 1 for store in sweep.stores)
    least = parameters.narrow_run if _is_narrow(sweep) else parameters.chunked_run
    return bool(sweep.stores) and not sweep.folds and consecutive and inner.extent >= least


def in_chunks_anywhere(sweep: Sweep) -> bool:
    """Whether a sweep goes by chunks also where its results stay in the cache: narrow results are
    rounded as a whole. Others wait for each chunk to be stored (`benchmarks/before_after.py`, short
    results)."""
    return _is_narrow(sweep) or gains_by_chunks(sweep.code)


def _is_narrow(sweep: Sweep) -> bool:
    """Whether all that is stored has 8 or 16 bits."""
    return all(store.dtype.itemsize < 4 for store in sweep.stores)


def chunks(sweep: Sweep, count: int, alike: Alike = ANY_WAY) -> tuple[Loop, ...]:
    """The innermost loop of a sweep, or one for each part of it: chunks computed in registers, then
    stored at once; `alike`: how names are made in all loops."""
    return tuple(_chunks_of(part, count, alike) for part in parts_of(sweep, count))


def _chunks_of(part: Part, count: int, alike: Alike) -> Loop:
    sweep, inner = part.sweep, part.sweep.axes[-1]
    ahead = (dataclasses.replace(asked, lanes=count) for asked in sweep.ahead)
    inside = (*ahead, *lanes_stored(sweep, count, alike))
    return Loop(inner, Binding.CHUNKS, inside, count, span=part.span)


def lanes_stored(sweep: Sweep, count: int, alike: Alike) -> list[Node]:
    """`count` neighbours of a sweep that folds nothing, stored at once."""
    lanes = Loop(sweep.axes[-1], Binding.SIMD, (), count)
    return stored_at_once(sweep, count, lanes, alike=alike)
