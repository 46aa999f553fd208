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
from collections.abc import Mapping

from fuser.ir.nodes import Cat, Pad, Statement, static
from fuser.segmenter.atoms import Dimension
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.places import HERE, Place, Places
from fuser.segmenter.profit import Machine, size_in_text
from fuser.segmenter.rows import Refusal

At = Mapping[int, set[int]]
"""By node: the places, by their numbers, at which a kernel computes it."""


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
    """Where the nodes of a graph, if they pad or concatenate, cut the dimensions of their results."""

    def __init__(self, operations: OperationGraph, places: Places) -> None:
        self._operations = operations
        self._places = places
        self._cuts: dict[int, list[tuple[Dimension, tuple[int, ...]]]] = {}
        for number, statement in enumerate(operations.nodes):
            for dim, at in joints(statement).items():
                dimension = operations.atoms.factors(statement.out)[dim]
                if at and dimension:
                    self._cuts.setdefault(number, []).append((dimension, at))

    def refusal(self, at: At, machine: Machine) -> Refusal | None:
        """Why nodes, computed at these places, are no kernel: their domain would be cut into too
        many pieces, or these would be too much text.

        Where one of them has as many pieces of its own, nothing is won by kernels for the others.
        """
        if self._cuts.keys().isdisjoint(at):
            return None
        cuts, most = self._of(at), machine.most_pieces
        pieces = _pieces(cuts)
        if any(_pieces(self._of({member: {HERE}})) > most for member in at):
            return None
        if pieces > most:
            return Refusal(f"it would be cut into {pieces} pieces")
        text = sum(
            size_in_text(self._operations.nodes[member].op, machine)
            * sum(_pieces(cuts, self._places[number]) for number in numbers)
            for member, numbers in at.items()
        )
        if pieces > 1 and text > machine.most_in_pieces:
            return Refusal(f"it would be cut into {pieces} pieces, of {text} operations together")
        return None

    def _of(self, at: At) -> dict[Dimension, set[int]]:
        """Where a kernel cuts each dimension of what it stores."""
        found = defaultdict[Dimension, set[int]](set)
        for member in self._cuts.keys() & at.keys():
            for number, (dimension, cuts) in itertools.product(at[member], self._cuts[member]):
                place = self._places[number]
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
    spans = {} if place is None else place.spans
    return math.prod(
        1 + (sum(spans[d][0] < cut < spans[d][1] for cut in own) if d in spans else len(own))
        for d, own in cuts.items()
    )
