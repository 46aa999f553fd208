"""At which places a kernel computes and reads what it does, for each element it stores.

    T2 = T1[:-2] + T1[1:-1] + T1[2:]                     T1 at i, i + 1 and i + 2
    T3 = T2[:, :-2] + T2[:, 1:-1] + T2[:, 2:]            T2 at three, T1 at nine
    T4 = cat([T3, T3])                                   T3 at i below n, and at i - n from n on

Each place is code of its own: sums of slices one after the other, as in the gradient of an image
that was resized in three dimensions, would be thousands of loads, and steps of a simulation that
each read the neighbours of the last would compute the first of them at hundreds of places.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fuser.ir.nodes import Value
from fuser.segmenter.atoms import Dimension
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.moves import Move, Path
from fuser.segmenter.refusal import Refusal

MOST_PLACES = 128
"""Loads of a kernel for an element. Of two passes over an image, each of ten reads, there are 100.
"""

MOST_ANYWHERE = 8 * MOST_PLACES
"""Loads of a kernel in all pieces of its domain."""

ALL = 1 << 16
"""What shares of all that is stored are counted in."""

HERE = 0
"""The number of the place at which the kernel stores."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Line:
    """Element `scale * i + shift`, of element i along a dimension of what is stored."""

    dimension: Dimension
    scale: int
    shift: int

    def from_(self, place: int) -> int:
        """The first i from which on the element is `place` or beyond it; on a line that goes
        backwards, from which on it is before."""
        if self.scale > 0:
            return -((self.shift - place) // self.scale)
        return (self.shift - place) // -self.scale + 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is computed for an element that is stored.

    Along a dimension that has a line, it is there, along others at the same coordinate. `spans` of
    dimensions of what is stored are all that it is computed for. `unknown` are reads on the way at
    places that are not known.
    """

    lines: Mapping[Dimension, Line]
    spans: Mapping[Dimension, Span]
    unknown: tuple[int, ...] = ()

    def line(self, dimension: Dimension) -> Line:
        """Where along a dimension it is."""
        return self.lines.get(dimension) or Line(dimension, 1 if dimension else 0, 0)

    def key(self) -> object:
        """What is equal for equal places."""
        return frozenset(self.lines.items()), frozenset(self.spans.items()), self.unknown

    def shape(self, own: Iterable[Dimension]) -> object:
        """What is equal where something of these dimensions is the same, one element after the
        other, for as many that are stored: parts of a stack that are made of the same."""
        lengths = frozenset((d, end - start) for d, (start, end) in self.spans.items())
        lines = frozenset((d, self._from_start(self.line(d))) for d in own)
        return lines, lengths, self.unknown

    def _from_start(self, line: Line) -> Line:
        """A line, counted from where its span starts."""
        start, _ = self.spans.get(line.dimension, (0, 0))
        return replace(line, shift=line.shift + line.scale * start)


@dataclass(frozen=True, slots=True)
class Spread:
    """At which places, by their numbers, a kernel computes each of its nodes, and reads what it
    does not make."""

    computed: Mapping[int, set[int]]
    loaded: Collection[tuple[Value, int]]


class Places:
    """The places of an operation graph, by their numbers."""

    def __init__(self, operations: OperationGraph) -> None:
        self._operations = operations
        here = Place({}, {})
        self._known = [here]
        self._shares = [ALL]
        """Of all that is stored, what each place is computed for."""
        self._numbers = {here.key(): HERE}
        self._moved: dict[tuple[int, Path], int | None] = {}
        self._dimensions: dict[Value, frozenset[Dimension]] = {}
        outs = (out for node in operations.nodes for out in node.outs)
        self._innermost = {operations.atoms.factors(out)[-1] for out in outs if out.shape}
        self._shapes: dict[object, int] = {}
        self._alike: dict[tuple[int, frozenset[Dimension]], int] = {}
        """By a place and the dimensions of what is there: see `_one_of_stack`."""
        self._stands_for: dict[int, set[int]] = {}
        self._shifting = [
            [read.value for read in reads if any(read.paths)] for reads in operations.reads
        ]

    def __getitem__(self, number: int) -> Place:
        return self._known[number]

    def alike_to(self, number: int) -> Iterable[Place]:
        """The places that one stands for."""
        return map(self._known.__getitem__, self._stands_for.get(number, {number}))

    def are_several(self, members: Sequence[int]) -> bool:
        """Whether some of these nodes are read by others of them at other places than their own."""
        inside, node_of = frozenset(members), self._operations.node_of
        return any(node_of(value) in inside for m in members for value in self._shifting[m])

    def of(self, members: Sequence[int], *, cut: bool) -> Spread | Refusal:
        """The places of a kernel of these nodes, in the fusion's order; or why they are none: they
        would read at too many. Where its domain is `cut` into pieces, each has what is read there
        only."""
        inside, reads = frozenset(members), self._operations.reads
        if not any(map(self._shifting.__getitem__, members)):
            at_own = (read.value for member in members for read in reads[member])
            loaded = {(v, HERE) for v in at_own if self._operations.node_of(v) not in inside}
            if len(loaded) <= MOST_PLACES:
                return Spread({member: {HERE} for member in reversed(members)}, loaded)
        at: dict[Value, set[int]] = {}
        found: dict[int, set[int]] = {}
        loads = set[tuple[Value, int]]()
        for_each = 0
        for member in reversed(members):
            outs = self._operations.nodes[member].outs
            own = found[member] = set[int]().union(*(at.get(out, ()) for out in outs)) or {HERE}
            for read in reads[member]:
                places = at.setdefault(read.value, set())
                for path in read.paths:
                    there = self._through(own, path)
                    places.update(self._one_of_stack(there, read.value) if cut else there)
                read_here = self.share(places)
                if self._operations.node_of(read.value) not in inside:
                    new = {(read.value, number) for number in places}.difference(loads)
                    loads |= new
                    for_each += sum(self._shares[number] for _, number in new)
                if _are_too_many(max(len(places), len(loads)), max(read_here, for_each), cut):
                    reason = f"with {read.value} it would read at more than {MOST_PLACES} places"
                    return Refusal(reason)
        return Spread(found, loads)

    def elements(self, places: Iterable[int], value: Value) -> int:
        """How often elements of a value are computed at some places, its own as often as they are
        at one of them: that a place has a span of another dimension changes nothing."""
        factors = self._operations.atoms.factors(value)
        own = [dimension for dimension in factors if dimension]
        found = 0
        for place in map(self._known.__getitem__, places):
            along = {place.line(dimension).dimension for dimension in own}
            spans = {d: span for d, span in place.spans.items() if d in along}
            found += self._share(spans, value.elements)
        return found

    def share(self, places: Iterable[int]) -> int:
        """Of all that is stored, what something is computed for at some places."""
        return sum(self._shares[number] for number in places)

    def extent(self, dimension: Dimension) -> int:
        """The number of elements along a dimension."""
        return self._operations.atoms.elements(frozenset(dimension))

    def _share(self, spans: Mapping[Dimension, Span], elements: int) -> int:
        """How many of so many elements are in spans of their dimensions."""
        done = math.prod(end - start for start, end in spans.values())
        return elements * done // math.prod(map(self.extent, spans))

    def _through(self, numbers: set[int], path: Path) -> Iterable[int]:
        """Where is read what is read on a path, from some places."""
        if not path:
            return numbers
        return [to for number in numbers if (to := self._number(number, path)) is not None]

    def _number(self, number: int, path: Path) -> int | None:
        """The number of the place that a path leads to; None if it leads nowhere."""
        key = number, path
        if key not in self._moved:
            place: Place | None = self._known[number]
            for move in path:
                place = place and self._step(place, move)
            self._moved[key] = None if place is None else self._numbered(place)
        return self._moved[key]

    def _one_of_stack(self, numbers: Iterable[int], value: Value) -> Iterable[int]:
        """The places of a value, each one of those that are the same for parts of a stack: pieces
        of a domain that read the same are one loop."""
        if value not in self._dimensions:
            factors = self._operations.atoms.factors(value)
            self._dimensions[value] = frozenset(filter(None, factors))
        own = self._dimensions[value]
        return (self._first_alike(number, own) for number in numbers)

    def _first_alike(self, number: int, own: frozenset[Dimension]) -> int:
        place = self._known[number]
        if not place.spans or any(self._is_one_wide(d, s) for d, s in place.spans.items()):
            return number
        if (number, own) not in self._alike:
            first = self._shapes.setdefault((own, place.shape(own)), number)
            self._alike[number, own] = first
            self._stands_for.setdefault(first, {first}).add(number)
        return self._alike[number, own]

    def _is_one_wide(self, dimension: Dimension, span: Span) -> bool:
        """Whether a span has one element of an innermost dimension: neighbours that are stacked are
        done one after the other only where they are few."""
        return span[1] - span[0] == 1 and dimension in self._innermost

    def _numbered(self, place: Place) -> int:
        number = self._numbers.setdefault(place.key(), len(self._known))
        if number == len(self._known):
            self._known.append(place)
            self._shares.append(self._share(place.spans, ALL))
        return number

    def _step(self, place: Place, move: Move | int) -> Place | None:
        if isinstance(move, int):
            return replace(place, unknown=(*place.unknown, move))
        line = place.line(move.reader)
        spans = dict(place.spans)
        if line.scale:
            extent = self.extent(line.dimension)
            start, end = spans.pop(line.dimension, (0, extent))
            first, last = sorted(map(line.from_, (move.low, move.high)))
            span = max(start, first), min(end, last)
            if span != (0, extent):
                spans[line.dimension] = span
            nowhere = span[0] >= span[1]
        else:
            nowhere = not move.low <= line.shift < move.high
        if nowhere:
            return None
        lines = dict(place.lines)
        there = Line(line.dimension, move.scale * line.scale, move.scale * line.shift + move.shift)
        if there == Line(move.operand, 1, 0):
            lines.pop(move.operand, None)
        elif move.operand:
            lines[move.operand] = there
        return replace(place, lines=lines, spans=spans)


def _are_too_many(places: int, for_each: int, cut: bool) -> bool:
    """Whether a kernel would load so often: all of it for each element, or in its pieces."""
    if not cut:
        return places > MOST_PLACES
    return places > MOST_ANYWHERE or for_each > MOST_PLACES * ALL
