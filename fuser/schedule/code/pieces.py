"""Cutting a domain where pads and concatenations change what they read.

    for i < 128: out[i] = i >= 64 ? x[clamped(i - 64)] : y[clamped(i)]
->  for i < 64:  out[i] = y[i]
    for j < 64:  out[64 + j] = x[j]

An axis is cut at the places that decide a clamp or a selection, the outermost axis first, so that
all of what lies outside of an operand is one piece. A piece's axes are its own: without the clamp,
some walk as one that did not before, and then divisions may go away by a clean cut. Where a view
divides an axis by what is no divisor of its extent, the last row is cut off, which is no whole one:

    for i < 100: out[i] = i % 32 ? x[i / 32 * 31 + i % 32 - 1] : 0      32 columns, one of a pad
->  for i < 3: for j < 32: out[32 * i + j] = ..., and for i < 4: out[96 + i] = ...
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from fuser.schedule.code.axes import coalesce, replace_axes
from fuser.schedule.code.body import Body
from fuser.schedule.code.resolve import comparisons, resolve
from fuser.schedule.indices.cuts import clean_cut, ragged_cut
from fuser.schedule.indices.index import Axis, Clamped, Index, Quotient, compose, of_axis, total
from fuser.schedule.indices.rewrites import terms_in
from fuser.schedule.tree.statements import Let

Cut = TypeVar("Cut")


def pieces(body: Body, most: int) -> list[Body]:
    """Bodies over parts of the domain that together are `body`, in the order of its axes.

    None of them clamps or selects by a place that one axis decides. More than `most` would be too
    much text: then the body itself, which reads each operand at clamped indices.
    """
    return cut_up(resolve(body), _cut, most) or [body]


def cut_up(whole: Cut, parts_of: Callable[[Cut], list[Cut]], most: int) -> list[Cut] | None:
    """What is left when all is cut into its parts, and these into theirs, in order, until there are
    none; None where that would be more than `most`."""
    waiting, done = [whole], list[Cut]()
    while waiting:
        if len(waiting) + len(done) > most:
            return None
        piece = waiting.pop()
        parts = parts_of(piece)
        if parts:
            waiting += reversed(parts)
        else:
            done.append(piece)
    return done


def refined(piece: Body) -> Body:
    """A piece whose axes are merged and split anew, now that fewer indices are in the way."""
    piece = coalesce(resolve(piece))
    whole = piece
    while found := next(filter(None, map(clean_cut, dict.fromkeys(piece.indices()))), None):
        axis, inner = found
        halves = axis.split(inner)
        position = piece.axes.index(axis)
        axes = (*piece.axes[:position], *halves, *piece.axes[position + 1 :])
        piece = dataclasses.replace(replace_axes(piece, {axis: compose(halves)}), axes=axes)
    return piece if piece is whole else coalesce(resolve(piece))


def _cut(piece: Body) -> list[Body]:
    """The parts of a piece, along the outermost axis that decides something; none if none does."""
    indices = dict.fromkeys(piece.indices())
    found = dict.fromkeys(thresholds(piece.lets, indices))
    for axis in piece.axes:
        cuts = filter(None, (deciding(index, threshold, axis) for index, threshold in found))
        if points := next(cuts, None):
            if len(found) > _FEW and len(every := [points, *cuts]) > _FEW:
                points = [_middle(every)]
            return _parts(piece, axis, points)
    ragged = next(filter(None, map(ragged_cut, indices)), None)
    return [] if ragged is None else _parts(piece, *ragged)


def _parts(piece: Body, axis: Axis, points: Sequence[int]) -> list[Body]:
    """A piece cut at some points of an axis."""
    spans = itertools.pairwise([0, *points, axis.extent])
    return [refined(part_of(piece, axis, *part)) for part in enumerate(spans)]


_FEW = 16
"""Places at which something is decided, from which halves are cut: each cut looks at all that is
left, of which a stack of a hundred tensors has as many parts. Elsewhere what decides first is cut
first: of what is outside of it, nothing else is decided."""


def _middle(cuts: Sequence[Sequence[int]]) -> int:
    points = sorted(set(itertools.chain.from_iterable(cuts)))
    return points[len(points) // 2]


def thresholds(lets: Iterable[Let], indices: Iterable[Index]) -> Iterator[tuple[Index, int]]:
    """The indices on which something depends, each with a number: whether it is less."""
    for comparison in comparisons(lets).values():
        yield _undivided(comparison.index, comparison.threshold)
    for index in indices:
        for term in terms_in(index):
            if isinstance(term, Clamped):
                yield _undivided(term.of, 0)
                yield _undivided(term.of, term.extent)


def _undivided(index: Index, threshold: int) -> tuple[Index, int]:
    """A threshold of what is divided: y + x // d is below n where d * y + x is below d * n."""
    for term, factor in index.terms:
        if isinstance(term, Quotient) and factor == 1:
            whole = total([(index.without(term), term.divisor), (term.of, 1)])
            return _undivided(whole, threshold * term.divisor)
    return index, threshold


def deciding(index: Index, threshold: int, axis: Axis) -> list[int]:
    """Where to cut an axis so that each part, but for one of a single element, decides whether an
    index is below a threshold; nowhere if it does so uncut, or other axes have a say."""
    factor = index.coefficient(axis)
    if factor == 0:
        return []
    low, high = index.without(axis).bounds()
    if factor > 0:
        first, last = -((high - threshold) // factor), -((low - threshold) // factor)
    else:
        first, last = (low - threshold) // -factor + 1, (high - threshold) // -factor + 1
    inside = {point for point in (first, last) if 0 < point < axis.extent}
    return sorted(inside) if last - first <= 1 else []


def spans_along(axis: Axis, lets: Iterable[Let], indices: Iterable[Index]) -> list[tuple[int, int]]:
    """The spans of an axis in each of which is decided what depends on where it lies on this."""
    found = thresholds(lets, indices)
    places = {place for index, least in found for place in deciding(index, least, axis)}
    return list(itertools.pairwise([0, *sorted(places), axis.extent]))


def part_of(piece: Body, axis: Axis, number: int, span: tuple[int, int]) -> Body:
    """A piece where `axis` is in a span. `number` tells the parts of one axis apart."""
    own, place = in_span(axis, number, span)
    axes = tuple(own if each == axis else each for each in piece.axes)
    return dataclasses.replace(replace_axes(piece, {axis: place}), axes=axes)


def in_span(axis: Axis, number: int, span: tuple[int, int]) -> tuple[Axis, Index]:
    """The axis of a span of another one, and where on that it is."""
    start, end = span
    own = Axis((*axis.path, 2 + number), end - start)
    return own, of_axis(own) + Index(start)
