"""Scans along a row on a processor: chunk by chunk, and where rows are few, part by part.

    row    for each `chunk`: compute it; scan it in vectors, from the carry; store it
    short  for each element: join it to the carry; store that
    part   each thread: the total of a part; then, from the totals before, a scan of it

All threads do parts that follow each other at once, so that what is read twice comes from a cache.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fuser.schedule.code.row_body import Sweep
from fuser.schedule.indices.index import ZERO, Axis
from fuser.schedule.rows.scans import carry_of, is_turned, scanned_lanes
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import Ref, convert
from fuser.schedule.tree.loop_tree import Loop, Node, Region, Share, nested
from fuser.schedule.tree.row_statements import Accumulate, Finish, Partial, Running
from fuser.schedule.tree.statements import Let, reads_in
from fuser.schedule.tree.vectors import step_along, unrounded


def scan_loop(sweep: Sweep, within: Sequence[Node], count: int) -> Loop:
    """The innermost loop of a sweep that scans, `count` elements at a time; each does `within`."""
    inner = sweep.axes[-1]
    turned = is_turned(sweep)
    along = -1 if turned else 1
    whole = [store for store in sweep.stores if step_along(store.at, inner) == along]
    single = (store for store in sweep.stores if store not in whole)
    moved = [dataclasses.replace(s, source=unrounded(s, sweep.code)) for s in whole]
    ahead = (dataclasses.replace(asked, lanes=count) for asked in sweep.ahead)

    each = Loop(inner, Binding.SIMD, (), count)
    lanes = scanned_lanes(sweep, (*within, *single), moved, count, each, filled=False)
    return Loop(inner, Binding.SCAN, (*ahead, *lanes), count, turned=turned)


def scanned_in_turn(sweep: Sweep, within: Sequence[Node]) -> Region:
    """A sweep that scans one point after the other; each does `within`. Processors do several short
    rows at a time so, by themselves."""
    inside: list[Node] = []
    carries: list[Partial] = []
    for node in sweep.code:
        if not isinstance(node, Running):
            inside.append(node)
            continue
        carry = carry_of(node)
        held = Partial(carry.name, carry.dtype, carry.dtype, carry.operation, 1, carry.fill)
        carries.append(held)
        result = Let(node.name, node.dtype, convert(Ref(carry.name, carry.dtype), node.dtype))
        inside += (Accumulate(held, ZERO, node.value), Finish(held, ZERO), result)
    points = nested(sweep.axes, Binding.SERIAL, (*inside, *within, *sweep.stores))
    return Region(tuple(carries), points, (), threaded=False)


def shared_out(
    sweep: Sweep,
    totals: Sequence[Node],
    loop: Loop,
    most_bytes: int,
    unit: int = 1,
    columns: Axis | None = None,
) -> Share:
    """A sweep of one row, or of `columns`, on all threads, which read up to so many bytes, of one
    column, before they meet: see `Share`."""
    read = sum(load.dtype.itemsize for load in reads_in(sweep.code))
    carries, step = tuple(map(carry_of, sweep.scans)), max(1, most_bytes // max(1, read))
    return Share(sweep.axes[-1], carries, tuple(totals), (loop,), step, unit, columns)
