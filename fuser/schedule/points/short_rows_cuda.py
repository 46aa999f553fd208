"""Rows of a few elements as points: a GPU's thread takes several, which neighbour each other.

    means of T0 [64, 2, 64, 2] over windows    for i0 < 64: for i1 < 64: 4 loads, a store

One such row is less than a thread has to have on its way for memory to be busy.
"""

from __future__ import annotations

import math

from fuser.ir.nodes import Gather, Reduce, Scan, Value
from fuser.schedule.code.axes import arrange
from fuser.schedule.code.body import Body
from fuser.schedule.code.in_place import rows_refusal
from fuser.schedule.code.row_body import Sweep
from fuser.schedule.cuda_parameters import CudaParameters
from fuser.schedule.rows.cuda.mapping import refined_rows
from fuser.schedule.rows.straight import straight_row
from fuser.segmenter import Segment
from fuser.segmenter.atoms import NONE


def short_rows(segment: Segment, parameters: CudaParameters) -> tuple[Body, str | None] | None:
    """The points that rows are, and why these may not store where memory says; None if rows are
    longer, or more than loads and arithmetic."""
    if segment.rows is None or not _are_short(segment, parameters):
        return None
    rows = refined_rows(segment)
    if any(sweep.folds_over_rows or sweep.scans for sweep in rows.stages) or rows.epilogue:
        return None
    if any(_may_grow(sweep, parameters) for sweep in rows.stages):
        return None
    line = straight_row(rows)
    code = (*line.loads, *line.lets)
    if len(code) < len(line.code) or line.draws:
        return None
    body = arrange(Body(rows.rows, code, stores=line.stores, prologue=rows.prologue))
    return body, rows_refusal(segment, rows, by_team=True)


def _may_grow(sweep: Sweep, parameters: CudaParameters) -> bool:
    """Whether rows of other lengths are to have the same text: those of one axis, no windows."""
    return len(sweep.axes) == 1 and sweep.axes[0].extent > parameters.own_text


def _are_short(segment: Segment, parameters: CudaParameters) -> bool:
    """Whether a thread would have little of a row to load, and all of it in registers."""
    if any(isinstance(s.op, Gather | Scan) for s in segment.fusion.statements):
        return False
    reduced = [s.op.arg for s in segment.fusion.statements if isinstance(s.op, Reduce)]
    if any(_of_row(segment, value) > parameters.row_elements for value in reduced):
        return False
    own = [value for value in segment.loads if segment.atoms.of(value) & (segment.rows or NONE)]
    nbytes = sum(_of_row(segment, value) * value.dtype.itemsize for value in own)
    return nbytes < parameters.row_bytes


def _of_row(segment: Segment, value: Value) -> int:
    """Elements of a tensor that a row has."""
    rows = segment.rows or NONE
    return math.prod(map(segment.atoms.size, segment.atoms.of(value) - rows))
