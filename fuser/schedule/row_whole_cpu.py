"""Rows of a few elements on a processor: neighbouring rows in lanes, all of a row in each.

    means of T0 [1000, 4]     for i0 < 1000: T1 = T0[4 i0] + T0[4 i0 + 1] + ...; store T1 / 4

Nothing is kept in memory between sweeps, and what two of them compute is computed once.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from fuser.schedule.counts import point_count
from fuser.schedule.cpu_parameters import CpuRowParameters
from fuser.schedule.emit import convert
from fuser.schedule.folds import neutral
from fuser.schedule.index import Axis, Index
from fuser.schedule.loop_tree import (
    Binding,
    Call,
    CheckedIndex,
    Expression,
    Let,
    Load,
    Loop,
    Node,
    Ref,
    Running,
    Store,
    nested,
)
from fuser.schedule.row_along_cpu import Ways, sweep_along
from fuser.schedule.row_axes import replace_axes
from fuser.schedule.row_body import Code, Fold, RowBody, Sweep
from fuser.schedule.row_folds_cpu import widened_blocks
from fuser.schedule.straight_line import MOST_STATEMENTS, Line, StraightLine
from fuser.schedule.vectors import step_along


def whole_order(body: RowBody, parameters: CpuRowParameters) -> RowBody | None:
    """`body` with rows in an order in which each lane does a whole row; None if there is none."""
    for inner in reversed(body.rows):
        outer = tuple(axis for axis in body.rows if axis != inner)
        ordered = dataclasses.replace(body, rows=(*outer, inner))
        if _are_whole(ordered, parameters):
            return ordered
    return None


def _are_whole(body: RowBody, parameters: CpuRowParameters) -> bool:
    """Whether rows are short, and near each other in memory."""
    if not body.rows or body.rows[-1].extent < parameters.whole_rows:
        return False
    inner, most = body.rows[-1], parameters.whole_row
    if sum(point_count(s.axes) * len(s.code) for s in body.stages) > MOST_STATEMENTS:
        return False
    return any(sweep.axes for sweep in body.stages) and all(
        point_count(sweep.axes) <= most
        and all(isinstance(node, Load | Let | CheckedIndex | Running) for node in sweep.code)
        and all(_is_near(access, inner, most) for access in sweep.accesses)
        and all(_is_near(fold, inner, most) for fold in sweep.folds)
        for sweep in body.stages
    )


def whole_rows(body: RowBody, parameters: CpuRowParameters, may_repeat: bool) -> tuple[Node, ...]:
    """Loops over rows, the innermost over lanes. As one sweep, neighbouring rows fold into what is
    folded over the rows; where they `may_repeat`, the last ones are moved back to end in range."""
    *outer, inner = body.rows
    rows = _straight(body)
    if not rows.folds:
        loop = Loop(inner, Binding.SIMD, (*rows.code, *rows.stores))
        return nested(outer, Binding.PARALLEL, (loop,))
    swept = sweep_along(rows, Ways(parameters, may_repeat), narrow=True)
    nodes = (*swept, *widened_blocks(body, parameters.row_block, outer, together=inner))
    blocks = Loop(inner, Binding.BLOCKS, nodes, parameters.block)
    return nested(outer, Binding.PARALLEL, (blocks,))


def _straight(body: RowBody) -> Sweep:
    """All stages as a sweep over neighbouring rows, without loops inside."""
    line, places = StraightLine(), dict[tuple[str, Index], Fold]()
    for sweep in body.stages:
        for fold in sweep.folds_of_row:
            line.let(fold.name, fold.dtype, neutral(fold.operation, fold.dtype))
        for scan in sweep.scans:
            line.let(scan.carry, scan.dtype, neutral(scan.operation, scan.dtype))
        for point in _points(sweep):
            line.add(itertools.chain.from_iterable(map(_scanned, point.code)), point.stores)
            for fold in point.folds_of_row:
                line.let(fold.name, fold.dtype, _joined(fold, Ref(fold.name, fold.dtype)))
            for fold in point.folds_over_rows:
                more = dataclasses.replace(fold, value=line.read(fold.value))
                held = places.get((fold.name, fold.at))
                if held is not None:
                    more = dataclasses.replace(more, value=_joined(more, held.value))
                places[fold.name, fold.at] = more
    return Sweep(body.rows[-1:], tuple(line.code), tuple(places.values()), tuple(line.stores))


def _scanned(node: Code) -> Iterator[Line]:
    """A node of a point; of a scan, what it comes to there."""
    if isinstance(node, Load | Let | CheckedIndex):
        yield node
    elif isinstance(node, Running):
        held = Ref(node.carry, node.dtype)
        operands = held, convert(node.value, node.dtype)
        yield Let(held.name, held.dtype, Call(node.operation, operands, held.dtype))
        yield Let(node.name, node.dtype, held)


def _joined(fold: Fold, held: Expression) -> Call:
    operands = convert(held, fold.dtype), convert(fold.value, fold.dtype)
    return Call(fold.operation, operands, fold.dtype)


def _is_near(access: Load | Store | Fold, inner: Axis, most: int) -> bool:
    """Whether an access, or what rows are added to, takes short steps from row to row, or goes
    where an index says."""
    step = step_along(access.at, inner)
    is_drawn = isinstance(access, Load) and access.drawn is not None
    return not is_drawn and step is not None and 0 <= step <= most


def _points(sweep: Sweep) -> Iterator[Sweep]:
    """A sweep at each of its points, in order; what is done once a row has one."""
    for place in itertools.product(*(range(axis.extent) for axis in sweep.axes)):
        yield replace_axes(sweep, dict(zip(sweep.axes, map(Index, place), strict=True)))
