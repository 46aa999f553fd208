"""Rows cut where pads and concatenations change what they read: each piece is mapped by itself.

    for i < 128: out[i] = norm of (i >= 64 ? x[clamped(i - 64)] : y[clamped(i)])
->  for i < 64:  out[i] = norm of y[i]
    for j < 64:  out[64 + j] = norm of x[j]

As `code/pieces.py` does with points; `rows/parts.py` cuts what is along a row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from fuser.schedule.code.axes import replace_axes
from fuser.schedule.code.pieces import cut_up, in_span, spans_along
from fuser.schedule.code.resolve import decided, with_known
from fuser.schedule.code.row_body import RowBody, Sweep, contents, indices_of, names_in, nodes_read
from fuser.schedule.indices.index import Axis, of_axis
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.tree.statements import Let


def row_pieces(body: RowBody, most: int) -> list[RowBody]:
    """Bodies over parts of the rows that together are `body`, in the order of its axes; the body
    itself where they are more than `most`, something is folded over the rows, or a row draws
    numbers or is scanned."""
    if body.folds_over_rows or body.epilogue:
        return [body]
    if any(sweep.draws or sweep.scans for sweep in body.stages):
        return [body]
    done = cut_up(body, _cut, most)
    if done is None or len(done) == 1:
        return [body]
    return [arrange_rows(_apart(piece, number)) for number, piece in enumerate(done)]


def _apart(piece: RowBody, number: int) -> RowBody:
    """A piece with axes that no other one has: what a kernel calls them is told by their path."""
    own = {axis: Axis((-number, *axis.path), axis.extent) for axis in piece.axes}
    places = {axis: of_axis(renamed) for axis, renamed in own.items()}
    stages = (
        dataclasses.replace(replace_axes(s, places), axes=tuple(map(own.__getitem__, s.axes)))
        for s in piece.stages
    )
    return dataclasses.replace(
        piece, rows=tuple(map(own.__getitem__, piece.rows)), stages=tuple(stages)
    )


def _cut(piece: RowBody) -> list[RowBody]:
    """The parts of a piece, along the outermost of its rows that decides something; none if none
    does."""
    lets = [let for stage in piece.stages for let in stage.lets]
    indices = indices_of(piece.stages)
    for axis in piece.rows:
        spans = spans_along(axis, lets, indices)
        if len(spans) > 1:
            return [_part(piece, axis, *part) for part in enumerate(spans)]
    return []


def _part(piece: RowBody, axis: Axis, number: int, span: tuple[int, int]) -> RowBody:
    """A piece where `axis` is in a span, without the selections that this decides."""
    own, place = in_span(axis, number, span)
    rows = tuple(own if each == axis else each for each in piece.rows)
    stages = [replace_axes(stage, {axis: place}) for stage in piece.stages]
    return dataclasses.replace(piece, rows=rows, stages=_read_of(_resolved(stages)))


def _resolved(stages: Iterable[Sweep]) -> Iterator[Sweep]:
    """Stages without the selections that their axes decide. Sweeps make what they read themselves,
    or read what was made once a row before."""
    once: list[Let] = []
    for stage in stages:
        yield with_known(stage, *decided([*once, *stage.lets]))
        once += () if stage.axes else stage.lets


def _read_of(stages: Iterable[Sweep]) -> tuple[Sweep, ...]:
    """The stages without what nothing reads that comes after it."""
    needed: set[str] = set()
    read: list[Sweep] = []
    for stage in reversed(list(stages)):
        folds = tuple(fold for fold in stage.folds if fold.name in needed)
        needed.update(names_in((*folds, *stage.stores)))
        code = nodes_read(stage.code, needed)
        if code or folds or stage.stores:
            read.append(dataclasses.replace(stage, code=code, folds=folds))
        needed.update(names_in(contents(read[-1:])))
    return tuple(reversed(read))
