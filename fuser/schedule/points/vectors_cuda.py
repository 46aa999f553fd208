"""What a CUDA thread does for its lanes at once: loads of neighbours, selections that all share.

    i: a multiple of 8;  T0 = load T0[clamped(64 + i + lane, 64)], read where i + lane < 64
    a vector from clamped(64 + i, 57), which is aligned, and one comparison for all lanes

Where a pad or a concatenation begins at a multiple of the lanes, a vector lies inside of an operand
or outside of it, and then it does not matter which one is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fuser.schedule.code.resolve import comparisons
from fuser.schedule.indices.index import Axis, Clamped, Index, clamp, of_axis
from fuser.schedule.tree.buffers import Buffers
from fuser.schedule.tree.expressions import IndexValue, refs
from fuser.schedule.tree.statements import Let, Load
from fuser.schedule.tree.vectors import aligned_lanes, step_along


def vector_load(buffers: Buffers, load: Load, inner: Axis, lanes: int) -> Load | None:
    """A load of `lanes` neighbours along `inner`, in pieces where memory is not aligned for all of
    them; None if they are not consecutive."""
    found = _first_of(load.at, inner, lanes)
    if found is None:
        return None
    at, unclamped = found
    piece = aligned_lanes(buffers, (load.tensor, unclamped), inner, lanes)
    return dataclasses.replace(load, at=at, lanes=lanes, piece=0 if piece == lanes else piece)


def shared_by_lanes(lets: Sequence[Let], inner: Axis, lanes: int) -> set[str]:
    """The lets that compare places with one outcome for all lanes, and those places."""
    readers: dict[str, set[str]] = {}
    for let in lets:
        for name in refs(let.expression):
            readers.setdefault(name, set()).add(let.name)
    decided = {
        name
        for name, comparison in comparisons(lets).items()
        if _in_vectors(comparison.index, comparison.threshold, inner, lanes)
    }
    places = {let.name for let in lets if isinstance(let.expression, IndexValue)}
    shared = {name for name in places if readers.get(name) and readers[name] <= decided}
    return shared.union(*(readers[name] for name in shared))


def _first_of(at: Index, inner: Axis, lanes: int) -> tuple[Index, Index] | None:
    """Where the first of the lanes is read, and the same without a clamp."""
    if step_along(at, inner) == 1:
        return at, at
    for term, factor in at.terms:
        if factor != 1 or not isinstance(term, Clamped):
            continue
        if step_along(term.of, inner) != 1 or not _in_vectors(term.of, term.extent, inner, lanes):
            continue
        rest = at.without(term)
        if step_along(rest, inner) == 0:
            return rest + clamp(term.of, term.extent - lanes + 1), rest + of_axis(inner)
    return None


def _in_vectors(index: Index, threshold: int, inner: Axis, lanes: int) -> bool:
    """Whether all lanes are on one side of a threshold, wherever a vector begins."""
    step = step_along(index, inner)
    starts = threshold % lanes == 0 and index.without(inner).is_multiple_of(lanes)
    return step == 0 or (step == 1 and starts)
