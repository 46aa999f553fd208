"""Sweeps in parts, between the places where pads and concatenations change what they read.

    for i < 128: T3 = i >= 64 ? x[clamped(i - 64)] : y[clamped(i)]; fold T3 into T4
->  for i < 64:           T3 = y[i]; fold T3 into T4
    for 64 <= i < 128:    T3 = x[i - 64]; fold T3 into T4

As in `pieces.py`, but that the parts share an axis, and the lanes of the folds. What is read at a
clamped index is gathered, lane by lane; what a part reads is a run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fuser.schedule.expressions import Expression
from fuser.schedule.index import Axis, Index, of_axis
from fuser.schedule.pieces import in_span, spans_along
from fuser.schedule.resolve import decided, replaced
from fuser.schedule.row_axes import replace_axes
from fuser.schedule.row_body import Code, Sweep, variables_of, without_dead_code
from fuser.schedule.row_statements import Keep
from fuser.schedule.statements import CheckedIndex, Let
from fuser.segmenter.profit import MOST_PARTS


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


def parts_of(sweep: Sweep, shortest: int) -> list[Part]:
    """The parts of the innermost loop of a sweep; all of it if nothing is decided along it, or a
    part had fewer elements than `shortest`."""
    inner = sweep.axes[-1]
    if sweep.draws or sweep.scans:
        return [Part(sweep)]
    lets = [node for node in sweep.code if isinstance(node, Let)]
    spans = spans_along(inner, lets, sweep.indices())
    if not 1 < len(spans) <= MOST_PARTS or min(end - at for at, end in spans) < shortest:
        return [Part(sweep)]
    return [_part(sweep, inner, number, span) for number, span in enumerate(spans)]


def _part(sweep: Sweep, axis: Axis, number: int, span: tuple[int, int]) -> Part:
    """What a sweep does in a span of an axis. What that decides stays so for the axis itself."""
    own, place = in_span(axis, number, span)
    moved = replace_axes(sweep, {axis: place})
    known, lets = decided([node for node in moved.code if isinstance(node, Let)])
    moved = without_dead_code(with_known(moved, known, lets))
    return Part(replace_axes(moved, {own: of_axis(axis) + Index(-span[0])}), span)


def with_known(sweep: Sweep, known: Mapping[str, Expression], lets: Iterable[Let]) -> Sweep:
    """A sweep that reads what is `known` of names, and makes the others by these `lets`."""
    left = {let.name: let for let in lets}
    indexing = {variable.name for variable in variables_of(tuple(sweep.indices()))}
    code: list[Code] = []
    for node in sweep.code:
        match node:
            case Let() if node.name in left:
                code.append(left[node.name])
            case Let() if node.name in indexing:
                code.append(dataclasses.replace(node, expression=known[node.name]))
            case Let():
                pass
            case CheckedIndex():
                code.append(dataclasses.replace(node, value=replaced(node.value, known)))
            case Keep(source=source) if source is not None or node.name in known:
                kept = replaced(source, known) if source is not None else known[node.name]
                code.append(dataclasses.replace(node, source=kept))
            case _:
                code.append(node)
    folds = (dataclasses.replace(f, value=replaced(f.value, known)) for f in sweep.folds)
    stores = (dataclasses.replace(s, source=replaced(s.source, known)) for s in sweep.stores)
    return dataclasses.replace(sweep, code=tuple(code), folds=tuple(folds), stores=tuple(stores))
