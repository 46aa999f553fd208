"""Which scheduler makes loops for a segment."""

from __future__ import annotations

from enum import Enum

from fuser.ir.nodes import (
    Cat,
    CheckIndex,
    Gather,
    MetadataOperation,
    Operation,
    Pad,
    Reduce,
    Scan,
    Scatter,
    operands,
)
from fuser.ir.pointwise import FOLDS
from fuser.segmenter import Segment
from fuser.segmenter.graph import POINT_OPERATIONS


class Scheduler(Enum):
    """How a kernel iterates: over points, over rows and what is swept in them, or over points that
    an index puts in their places."""

    POINTWISE = "pointwise"
    ROWS = "rows"
    SCATTER = "scatter"


def scheduler_of(segment: Segment) -> Scheduler | None:
    """The scheduler that takes every operation of a segment; None if none does."""
    ops = [s.op for s in segment.fusion.statements if s.outs[0].is_tensor]
    if all(map(_is_pointwise, ops)):
        return Scheduler.POINTWISE
    values = [out for s in segment.fusion.statements for out in (*s.outs, *operands(s.op))]
    if any(value.elements == 0 for value in values):
        return None  # what there is of it is a neutral element: nothing to write loops for
    ops = [op for op in ops if not isinstance(op, Pad | Cat)]
    if any(map(_is_scatter, ops)):
        others = [op for op in ops if not _is_scatter(op)]
        fits = all(_is_pointwise(op) or isinstance(op, Gather | CheckIndex) for op in others)
        return Scheduler.SCATTER if fits and len(others) == len(ops) - 1 else None
    if all(map(_is_pointwise, ops)):
        return Scheduler.POINTWISE
    return Scheduler.ROWS if all(_is_pointwise(op) or _is_of_rows(op) for op in ops) else None


def _is_pointwise(op: Operation) -> bool:
    return isinstance(op, POINT_OPERATIONS | MetadataOperation)


def _is_scatter(op: Operation) -> bool:
    return isinstance(op, Scatter) and op.in_kernel


def _is_of_rows(op: Operation) -> bool:
    match op:
        case Reduce():
            return op.op in FOLDS and not op.arg.dtype.is_complex
        case Scan():
            return not op.arg.dtype.is_complex
        case Gather():
            return op.arg.shape[op.dim] > 0
        case CheckIndex():
            return op.size > 0
        case _:
            return False
