"""Where pads and concatenations change what they read, and the pieces that a domain is cut into.

    T2 = cat([T0, T1], 1)          2 pieces: left, right
    T3 = pad(T2, [0, 0, 1, 1])     6: above, beside and below the tensor, of each
    T4 = T3[1:] + T3[:-1]          10: above, two edges beside, and below

Each piece is code of its own. An image that is resized in two dimensions, each by four neighbours,
would be 49 of them, but 7 are each of two kernels that do one dimension.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from fuser.ir.nodes import Cat, Pad, Statement, static
from fuser.ir.pointwise import COSTLY
from fuser.segmenter.atoms import Dimension
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.machine import Machine
from fuser.segmenter.places import HERE, Place, Places, Spread
from fuser.segmenter.refusal import Refusal
from fuser.segmenter.work import operation_cost, size_in_text


def joints(statement: Statement) -> dict[int, tuple[int, ...]]:
    """The dimensions along which a pad or a concatenation reads now this, now that; of each, the
    places inside at which that changes."""
    op, shape = statement.op, statement.outs[0].shape
    match op:
        case Cat():
            sizes = [value.shape[op.dim] for value in op.args]
            ends = {op.dim: itertools.accumulate(sizes)}
        case Pad():
            widths = enumerate(map(static, op.widths))
            ends = {d: (pair[0], shape[d] - pair[1]) for d, pair in widths if any(pair)}
        case _:
            return {}
    return {dim: tuple(at for at in own if 0 < at < shape[dim]) for dim, own in ends.items()}


class Cuts:
    """Where the nodes of a graph that pad or concatenate cut the dimensions of their results."""

    def __init__(self, operations: OperationGraph, places: Places) -> None:
        self._operations = operations
        self._places = places
        self._cuts: dict[int, list[tuple[Dimension, tuple[int, ...]]]] = {}
        for number, statement in enumerate(operations.nodes):
            for dim, at in joints(statement).items():
                dimension = operations.atoms.factors(statement.out)[dim]
                if at and dimension:
                    self._cuts.setdefault(number, []).append((dimension, at))

    def refusal(self, spread: Spread, machine: Machine) -> Refusal | None:
        """Why nodes at these places are no kernel: their domain would be cut into too many pieces,
        or these would be too much text.

        Where one of them has as many pieces of its own, nothing is won by kernels for the others.
        """
        if not machine.cuts or self._cuts.keys().isdisjoint(spread.computed):
            return None
        cuts, most = self._of(spread.computed), machine.most_pieces
        pieces = _pieces(cuts)
        if pieces == 1 or any(_pieces(self._of({m: {HERE}})) > most for m in spread.computed):
            return None
        if pieces > most:
            return Refusal(f"it would be cut into {pieces} pieces")

        def times(numbers: Iterable[int]) -> int:
            return sum(_pieces(cuts, self._places[number]) for number in numbers)

        nodes = self._operations.nodes
        text = sum(
            size_in_text(nodes[m].op, machine) * times(p) for m, p in spread.computed.items()
        )
        operations = self._operations
        costs = ((operation_cost(operations, m, machine), p) for m, p in spread.computed.items())
        costly = sum(cost * times(p) for cost, p in costs if cost >= COSTLY)
        loads = times(number for _, number in spread.loaded)
        if text > machine.most_in_pieces:
            return Refusal(f"it would be cut into {pieces} pieces, of {text} operations together")
        if costly > machine.most_costly_in_pieces:
            functions = f"functions of {costly} instructions"
            return Refusal(f"it would be cut into {pieces} pieces, of {functions} together")
        if loads > machine.most_loads_in_pieces:
            return Refusal(f"it would be cut into {pieces} pieces, of {loads} loads together")
        return None

    def _of(self, at: Mapping[int, set[int]]) -> dict[Dimension, set[int]]:
        """Where a kernel cuts each dimension of what it stores."""
        found = defaultdict[Dimension, set[int]](set)
        for member in self._cuts.keys() & at.keys():
            places = itertools.chain.from_iterable(map(self._places.alike_to, at[member]))
            for place, (dimension, cuts) in itertools.product(places, self._cuts[member]):
                line = place.line(dimension)
                if line.scale:
                    start, end = self._span(place, line.dimension)
                    own = map(line.from_, cuts)
                    found[line.dimension].update(cut for cut in own if start < cut < end)
        return found

    def _span(self, place: Place, dimension: Dimension) -> tuple[int, int]:
        return place.spans.get(dimension) or (0, self._places.extent(dimension))


def _pieces(cuts: Mapping[Dimension, set[int]], place: Place | None = None) -> int:
    """The pieces that a domain is cut into; of one place, those in which something is there."""
    return math.prod(1 + _inside(dimension, own, place) for dimension, own in cuts.items())


def _inside(dimension: Dimension, cuts: Collection[int], place: Place | None) -> int:
    """How many cuts of a dimension are in the span of a place."""
    span = None if place is None else place.spans.get(dimension)
    return len(cuts) if span is None else sum(span[0] < cut < span[1] for cut in cuts)
