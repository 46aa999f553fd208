"""Where pads and concatenations change what they read, and the pieces that a domain is cut into.

    T2 = cat([T0, T1], 1)          2 pieces: left, right
    T3 = pad(T2, [0, 0, 1, 1])     6: above, beside and below the tensor, of each

Each piece is code of its own. An image that is resized in two dimensions, each by four neighbours,
would be 49 of them, but 7 are each of two kernels that do one dimension. What is cut and then read
at several places is cut at all of them: that is not counted, but the text of the pieces is bounded.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fuser.ir.nodes import Cat, Pad, Statement, static
from fuser.segmenter.atoms import Dimension
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.places import operations_at_all_places
from fuser.segmenter.profit import Machine
from fuser.segmenter.rows import Refusal


@dataclass(frozen=True, slots=True)
class Cut:
    """Places `at` which a dimension is cut; `line` numbers what it is a shifted part of."""

    line: int
    dimension: Dimension
    at: tuple[int, ...]


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


def cuts_of(operations: OperationGraph) -> dict[int, list[Cut]]:
    """The cuts of each node that pads or concatenates."""
    atoms, lines = operations.atoms, operations.atoms.lines()
    found: dict[int, list[Cut]] = {}
    for number, statement in enumerate(operations.nodes):
        for dim, at in joints(statement).items():
            dimension = atoms.factors(statement.out)[dim]
            if at and dimension:
                found.setdefault(number, []).append(Cut(lines[dimension[-1]], dimension, at))
    return found


def pieces_refusal(
    operations: OperationGraph,
    cuts: Mapping[int, Sequence[Cut]],
    members: Sequence[int],
    machine: Machine,
) -> Refusal | None:
    """Why nodes are no kernel: their domain would be cut into too many pieces, or these would be
    too much text.

    Where one of them has as many pieces of its own, nothing is won by kernels for the others.
    """
    pieces, most = _pieces(cuts, members), machine.most_pieces
    if pieces == 1 or any(_pieces(cuts, [member]) > most for member in members):
        return None
    if pieces > most:
        return Refusal(f"it would be cut into {pieces} pieces")
    text = pieces * operations_at_all_places(operations, members, machine)
    if text > machine.most_in_pieces:
        return Refusal(f"it would be cut into {pieces} pieces, of {text} operations together")
    return None


def _pieces(cuts: Mapping[int, Sequence[Cut]], members: Sequence[int]) -> int:
    """The pieces that the domain of some nodes is cut into.

    What is shifted against each other is cut at the places of all, and each of those pieces along
    the other dimensions.
    """
    places: dict[int, set[tuple[Dimension, int]]] = {}
    for member in members:
        for cut in cuts.get(member, ()):
            places.setdefault(cut.line, set()).update((cut.dimension, at) for at in cut.at)
    return math.prod(1 + len(own) for own in places.values())
