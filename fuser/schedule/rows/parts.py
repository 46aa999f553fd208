"""Sweeps in parts, between the places where pads and concatenations change what they read.

    for i < 128: T3 = i >= 64 ? x[clamped(i - 64)] : y[clamped(i)]; fold T3 into T4
->  for i < 64:           T3 = y[i]; fold T3 into T4
    for 64 <= i < 128:    T3 = x[i - 64]; fold T3 into T4

As in `code/pieces.py`, but that the parts share an axis, and the lanes of the folds. What is read
at a clamped index is gathered, lane by lane; what a part reads is a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fuser.schedule.code.axes import replace_axes, with_indices
from fuser.schedule.code.pieces import in_span, spans_along
from fuser.schedule.code.resolve import resolve
from fuser.schedule.code.row_body import Code, Sweep
from fuser.schedule.indices.index import Axis, Index, Variable, index_of, of_axis
from fuser.schedule.indices.rewrites import rewrite
from fuser.segmenter.machine import MOST_PARTS


@dataclass(frozen=True, slots=True)
class Part:
    """What a sweep does in a span of its innermost axis, or in all of it; `in_blocks`, a loop over
    blocks of the span is around it."""

    sweep: Sweep
    span: tuple[int, int] | None = None
    in_blocks: bool = False

    @property
    def own_span(self) -> tuple[int, int] | None:
        """The span of the loop over its elements, if that is not given by the loop around it."""
        return None if self.in_blocks else self.span

    @property
    def extent(self) -> int:
        """How many elements it has."""
        start, end = self.span or (0, self.sweep.axes[-1].extent)
        return end - start


@dataclass(frozen=True, slots=True)
class PartByNumber:
    """What is done `once`, and in a sweep, while a number is below `end`, and not in a part before
    this one."""

    end: int
    once: tuple[Code, ...]
    sweep: Sweep


def parts_of(sweep: Sweep, shortest: int) -> list[Part]:
    """The parts of the innermost loop of a sweep; all of it if nothing is decided along it, or a
    part had fewer elements than `shortest`."""
    inner = sweep.axes[-1]
    if sweep.draws or sweep.scans:
        return [Part(sweep)]
    spans = spans_along(inner, sweep.lets, sweep.indices())
    if not 1 < len(spans) <= MOST_PARTS or min(end - at for at, end in spans) < shortest:
        return [Part(sweep)]
    return [_part(sweep, inner, number, span) for number, span in enumerate(spans)]


def parts_by(number: Variable, once: Sequence[Code], sweep: Sweep, most: int) -> list[PartByNumber]:
    """What is done `once` and in a sweep, by a number that both read, such as that of a point, in
    up to `most` parts; for any number, if nothing depends on where it lies, or too much."""
    axis = Axis((-1,), number.extent)
    whole = replace(sweep, code=(*once, *sweep.code))
    whole = with_indices(whole, lambda index: _renumbered(index, number, axis))
    spans = spans_along(axis, whole.lets, whole.indices())
    if not 1 < len(spans) <= most:
        return [PartByNumber(number.extent, tuple(once), sweep)]
    names = {node.name for node in once}
    parts: list[PartByNumber] = []
    for at, span in enumerate(spans):
        own, place = in_span(axis, at, span)
        moved = resolve(replace_axes(whole, {axis: place}))
        moved = replace_axes(moved, {own: index_of(number) + Index(-span[0])})
        first = tuple(node for node in moved.code if node.name in names)
        rest = tuple(node for node in moved.code if node.name not in names)
        parts.append(PartByNumber(span[1], first, replace(moved, code=rest)))
    return parts


def _renumbered(index: Index, number: Variable, axis: Axis) -> Index:
    """An index with an axis in place of a number."""
    return rewrite(index, lambda term: of_axis(axis) if term == number else None)


def _part(sweep: Sweep, axis: Axis, number: int, span: tuple[int, int]) -> Part:
    """What a sweep does in a span of an axis. What that decides stays so for the axis itself."""
    own, place = in_span(axis, number, span)
    moved = resolve(replace_axes(sweep, {axis: place}))
    return Part(replace_axes(moved, {own: of_axis(axis) + Index(-span[0])}), span)
