"""Few rows on a processor: one after the other, each shared out over the threads.

sum of T0 [2, 1 << 24]
  for each row: blocks over threads: fold T0 into the thread's part of it     join the parts
"""

from __future__ import annotations

from fuser.schedule.code.row_body import RowBody, Sweep
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.rows.cpu.folds import wide
from fuser.schedule.rows.cpu.interleave import interleave_rows
from fuser.schedule.rows.cpu.memory import ask_soon
from fuser.schedule.rows.cpu.scans import scan_loop, shared_out
from fuser.schedule.rows.cpu.sweeps import (
    Ways,
    in_blocks,
    in_one_way,
    once_a_row,
    plain_loop,
    sweep_along,
)
from fuser.schedule.rows.parts import parts_of
from fuser.schedule.rows.scans import scans_in_parts, totals_of, turned_with_scans
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.loop_tree import Node, nested
from fuser.segmenter.refusal import Refusal


def as_alone(body: RowBody, parameters: CpuRowParameters) -> RowBody | Refusal:
    """Rows that are shared out over the threads each, if there are so few."""
    count = point_count(body.rows)
    if count >= parameters.few_rows:
        return Refusal(f"{count} rows are {parameters.few_rows} or more")
    if body.folds_over_rows:
        return Refusal("something is folded over the rows")
    if not all(map(scans_in_parts, body.stages)):
        return Refusal("a row is scanned, and not in parts")
    return interleave_rows(body, parameters)


def rows_alone(body: RowBody, ways: Ways) -> tuple[Node, ...]:
    """Loops over rows, and in them over threads."""
    body = ask_soon(turned_with_scans(body), ways.parameters)

    def loops(ways: Ways) -> tuple[Node, ...]:
        nodes = (node for sweep in body.stages for node in _stage(sweep, ways))
        return nested(body.rows, Binding.SERIAL, tuple(nodes))

    return in_one_way(loops, ways)


def _stage(sweep: Sweep, ways: Ways) -> list[Node]:
    """The loops of one stage."""
    if not sweep.axes:
        return once_a_row(sweep)
    if sweep.scans:
        return [_scanned(sweep, ways.parameters)]
    if sweep.folds_of_row:
        return [in_blocks(sweep, ways, threaded=True)]
    loops = map(plain_loop, parts_of(sweep, ways.parameters.shortest_part))
    return [*nested(sweep.axes[:-1], Binding.PARALLEL, tuple(loops))]


def _scanned(sweep: Sweep, parameters: CpuRowParameters) -> Node:
    """Each thread scans its parts of the row, from what the parts before come to."""
    chunk = parameters.processor.chunk
    loop = scan_loop(sweep, (), chunk)
    totals = sweep_along(totals_of(sweep), Ways(parameters, may_repeat=False), wide)
    return shared_out(sweep, totals, loop, parameters.scanned_bytes, unit=chunk)
