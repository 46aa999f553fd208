"""Short innermost axes of a row: their elements are done one after the other, their neighbours in
lanes.

    sweep i1 < 64, i2 < 2: load T0[i1], T1[2 i1 + i2]; T3 folds T0 * T1
->  sweep i1 < 64: load T0[i1], T1[2 i1], T1[2 i1 + 1]; T3 folds T0 * T1 + T0 * T1_at_1

As `points/interleave.py` does with points: few iterations make no vectors, and what neighbours have
in common, such as the pixels of a window, is read and computed once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TypeGuard

from fuser.schedule.code.axes import places_along, replace_axes
from fuser.schedule.code.row_body import Code, RowBody, Sweep
from fuser.schedule.code.straight_line import Line, StraightLine
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.rows.straight import Places, add_folds
from fuser.schedule.tree.statements import CheckedIndex, Let, Load
from fuser.schedule.tree.vectors import SHORTEST_VECTOR


def interleave_rows(body: RowBody, parameters: CpuRowParameters) -> RowBody:
    """`body` with the elements of its innermost axes beside each other, if all sweeps have these
    and they are few; as it is where they are scanned, drawn or kept."""
    while _is_short(body, parameters):
        body = _interleaved(body, body.swept[0].axes[-1])
    return body


def _is_short(body: RowBody, parameters: CpuRowParameters) -> bool:
    inner = {sweep.axes[-1:] for sweep in body.swept}
    if len(inner) != 1 or body.tiles:
        return False
    ((axis,),) = inner
    plain = all(map(_is_line, body.code))
    statements = max(len(sweep.code) for sweep in body.swept) * axis.extent
    return (
        plain
        and axis.extent <= parameters.interleaved
        and statements <= parameters.interleaved_statements
        and not any(sweep.draws or sweep.ahead for sweep in body.stages)
        and all(
            len(sweep.axes) > 1 and sweep.axes[-2].extent >= SHORTEST_VECTOR for sweep in body.swept
        )
    )


def _is_line(node: Code) -> TypeGuard[Line]:
    return isinstance(node, Load | Let | CheckedIndex)


def _interleaved(body: RowBody, axis: Axis) -> RowBody:
    """What two sweeps make has one name in both, and one name stands for nothing else."""
    once: Iterable[Code] = (node for sweep in body.stages if not sweep.axes for node in sweep.code)
    folds = (fold for sweep in body.stages for fold in sweep.folds)
    line = StraightLine(node.name for node in (*body.prologue, *once, *folds))
    stages = (_side_by_side(sweep, axis, line) if sweep.axes else sweep for sweep in body.stages)
    return dataclasses.replace(body, stages=tuple(stages))


def _side_by_side(sweep: Sweep, axis: Axis, line: StraightLine) -> Sweep:
    line.restart()
    folds = Places()
    for place in places_along((axis,)):
        point = replace_axes(sweep, place)
        line.add(filter(_is_line, point.code), point.stores)
        add_folds(folds, point.folds, line)
    return dataclasses.replace(
        sweep,
        axes=sweep.axes[:-1],
        code=tuple(line.code),
        folds=tuple(folds.values()),
        stores=tuple(line.stores),
    )
