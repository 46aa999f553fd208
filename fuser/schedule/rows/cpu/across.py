"""Rows on a processor with lanes across rows, where memory is consecutive.

for each `strip` neighbouring rows: for each element of theirs: fold into a lane each
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

from fuser.ir.nodes import Value
from fuser.schedule.code.axes import replace_axes
from fuser.schedule.code.row_body import Code, RowBody, Sweep
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import Axis, lanes_of, of_axis
from fuser.schedule.rows.axes import lanes_across_rows
from fuser.schedule.rows.cpu.folds import widened_blocks
from fuser.schedule.rows.cpu.invariants import Movable, changes
from fuser.schedule.rows.cpu.power_sums import add_powers
from fuser.schedule.rows.cpu.scans import shared_out
from fuser.schedule.rows.cpu.spans import rows_in_spans
from fuser.schedule.rows.cpu.strip import Strip
from fuser.schedule.rows.cpu.strip_online import swept_online
from fuser.schedule.rows.cpu.sweeps import Ways
from fuser.schedule.rows.powers import powers_pair
from fuser.schedule.rows.scans import totals_of
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.expressions import Call
from fuser.schedule.tree.loop_tree import Loop, Node, Share, nested
from fuser.segmenter.refusal import Refusal


def as_across(body: RowBody, parameters: CpuRowParameters) -> RowBody | Refusal:
    """Rows in strips, if neighbouring rows are next in memory."""
    if lanes_across_rows(body):
        return rows_in_spans(body, parameters.processor.vector)
    return Refusal("neighbouring elements of a row, not rows, are next in memory")


def across_rows(body: RowBody, ways: Ways) -> tuple[Node, ...]:
    """Loops over strips of neighbouring rows, each with a lane of every fold. Strips of rows that
    are of groups are whole groups, and whole vectors."""
    parameters, group = ways.parameters, body.group
    unit = unit_of(group, parameters) if group > 1 else 1
    *outer, inner = body.rows
    if outer and unit == 1 and _have_own_kernel(inner.extent, parameters):
        binding, count = Binding.COLUMNS, inner.extent
        lane, _ = lanes_of(inner, count)
        moved = {inner: of_axis(lane)}
    else:
        binding, count = Binding.STRIP, _strip_rows(body, parameters, unit)
        lane, moved = lanes_of(inner, count)
    strip = Strip(lane, parameters, group, min(count, inner.extent))
    same, body = _same_in_rows(body, inner) if group == 1 else ((), body)
    nodes: list[Node] = [*same]
    before: set[str] = set()
    for stages in _together(body, online=group == 1 and strip.rows >= parameters.short_strip):
        sweep, *sums = (replace_axes(stage, moved) for stage in stages)
        if sums:
            nodes += swept_online(strip, sweep, *sums)
        else:
            nodes += strip.swept(sweep, before) if sweep.axes else strip.once_a_row(sweep)
        before.update(node.name for each in (sweep, *sums) for node in (*each.code, *each.folds))
    nodes += widened_blocks(body, parameters.row_block, outer, side_by_side=inner)
    loop = Loop(inner, binding, tuple(nodes), count, unit=unit)
    return nested(outer, Binding.PARALLEL, (loop,))


def _same_in_rows(body: RowBody, inner: Axis) -> tuple[tuple[Movable, ...], RowBody]:
    """What is done once a row, and the same for all along `inner`; and the body without it. What is
    read at such an index is a run of memory, where at one of each lane it would be gathered."""
    same: list[Movable] = []
    changing: set[str] = set()
    stages: list[Sweep] = []
    for stage in body.stages:
        left: list[Code] = []
        for node in stage.code:
            if stage.axes or not isinstance(node, Movable) or changes(node, {inner}, changing):
                left.append(node)
                changing.add(node.name)
            else:
                same.append(node)
        changing.update(fold.name for fold in stage.folds)
        stages.append(dataclasses.replace(stage, code=tuple(left)))
    return tuple(same), dataclasses.replace(body, stages=tuple(stages))


def _together(body: RowBody, *, online: bool) -> list[tuple[Sweep, ...]]:
    """The stages, in order, of which two may go through the strip together: what is done once
    between them is done after them then. Short strips are read again from the nearest cache, and
    what rows of a group share is not known in the lane of each. Nor where sums are not of what
    sweeps read: a compiler may round what they compute otherwise when it is computed again."""
    pair = powers_pair(body.stages) if online else None
    stages = add_powers(body).stages
    one_by_one = [(stage,) for stage in stages]
    if pair is None:
        return one_by_one
    at, end = map(body.stages.index, pair)
    together = (stages[at], stages[end])
    if not all(isinstance(fold.value, Call) for fold in stages[end].folds):
        return one_by_one
    return [*one_by_one[:at], together, *one_by_one[at + 1 : end], *one_by_one[end + 1 :]]


def shared_strip(sweep: Sweep, lane: Axis, count: int, parameters: CpuRowParameters) -> Share:
    """A sweep that scans `count` rows, a `lane` for each, in parts that threads share out."""
    strip = Strip(lane, parameters, 1, count)
    totals = strip.swept(totals_of(sweep), before=set())
    most = parameters.scanned_bytes // count
    return shared_out(sweep, totals, strip.scanned(sweep), most, columns=lane)


def unit_of(group: int, parameters: CpuRowParameters) -> int:
    """Rows that are whole groups of so many, and whole vectors."""
    return math.lcm(parameters.processor.vector, group)


def _have_own_kernel(rows: int, parameters: CpuRowParameters) -> bool:
    """Whether a kernel is compiled for so many rows, and not for any number of them."""
    whole_vectors = rows % parameters.processor.vector == 0
    return rows < (parameters.short_strip if whole_vectors else parameters.wide_line)


def _strip_rows(body: RowBody, parameters: CpuRowParameters, unit: int) -> int:
    """How many rows a strip has at most, so that what several sweeps read of it stays in a core's
    own cache, if it does so at all."""
    inner = body.rows[-1]
    sweeps: Counter[tuple[Value, int]] = Counter()
    swept: dict[tuple[Value, int], int] = {}
    for sweep in body.stages:
        # Slices of a tensor have one address.
        loads = [load for load in sweep.loads if load.at.coefficient(inner)]
        read = {(load.tensor, load.at.constant) for load in loads}
        sweeps.update(read)
        swept.update((slice_, point_count(sweep.axes)) for slice_ in read)
    again = [slice_ for slice_, count in sweeps.items() if count > 1]
    of_row = sum(swept[tensor, at] * tensor.dtype.itemsize for tensor, at in again)
    rows, fewest = parameters.strip, max(unit, parameters.shortest_strip)
    if fewest * of_row >= parameters.strip_bytes:
        return rows
    while rows // 2 >= fewest and rows * of_row > parameters.strip_bytes:
        rows //= 2
    return rows
