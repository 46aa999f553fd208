"""Neighbouring rows cut where pads and concatenations along them change what they read.

    for i < 128, a lane each: T3 = i >= 64 ? x[clamped(i - 64, 64)] : y[clamped(i, 64)]
->  for i < 2: for j < 64, a lane each: T3 = 64 i + j >= 64 ? x[j] : y[j]

As `rows/parts.py` does along a row, but that the lanes are the rows themselves. What is read at a
clamped index is gathered, lane by lane; of rows that lie on one side of every place where something
changes, all or none are clamped, so that a run of memory is read.
"""

from __future__ import annotations

import dataclasses
import math

from fuser.schedule.code.axes import replace_axes
from fuser.schedule.code.pieces import spans_along
from fuser.schedule.code.row_body import RowBody, Sweep, indices_of
from fuser.schedule.indices.index import (
    Axis,
    Clamped,
    Index,
    Term,
    clamp,
    compose,
    index_of,
    of_axis,
)
from fuser.schedule.indices.rewrites import rewrite
from fuser.schedule.tree.statements import Load


def rows_in_spans(body: RowBody, shortest: int) -> RowBody:
    """`body` with its innermost rows in spans of one length, `shortest` at the least, that end
    where other memory is read; as it is where there are no such spans."""
    *outer, inner = body.rows
    spans = spans_along(inner, (), indices_of(body.stages))
    span = math.gcd(*(end for _, end in spans))
    if span < shortest:
        return body
    rows, stages = body.rows, body.stages
    if span < inner.extent:
        number, within = inner.split(span)
        rows = (*outer, number, within)
        at = compose((number, within))
        stages = tuple(replace_axes(stage, {inner: at}) for stage in stages)
    stages = tuple(_in_runs(stage, rows[-1]) for stage in stages)
    return dataclasses.replace(body, rows=rows, stages=stages)


def _in_runs(sweep: Sweep, within: Axis) -> Sweep:
    """A sweep that loads, for all of an axis, from where the nearest run of its length begins."""

    def run(term: Term) -> Index:
        return _clamped_run(term, within) if isinstance(term, Clamped) else index_of(term)

    code = tuple(
        dataclasses.replace(node, at=rewrite(node.at, run)) if isinstance(node, Load) else node
        for node in sweep.code
    )
    return dataclasses.replace(sweep, code=code)


def _clamped_run(term: Clamped, within: Axis) -> Index:
    """What is read in place of a clamped index, if runs begin and end where what is read does."""
    length, start = within.extent, term.of.without(within)
    if term.of.coefficient(within) != 1 or term.extent % length or not start.is_multiple_of(length):
        return index_of(term)
    number = Index(start.constant // length, tuple((t, c // length) for t, c in start.terms))
    return clamp(number, term.extent // length) * length + of_axis(within)
