"""Moves: where what a statement reads lies, against where it computes.

    T1 = T0[3:9]             element i is element i + 3 of T0
    T2 = flip(T1)            element i is element 5 - i of T1
    T3 = cat([T0, T2])       element i, from 10 up to 16, is element i - 10 of T2

A path is the moves from a node, through metadata, to a value that it reads. Two paths of the same
moves lead to the same places.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from fuser.ir.nodes import Cat, Flip, Gather, Pad, Slice, Statement, Value, static
from fuser.segmenter.atoms import Atoms, Dimension


@dataclass(frozen=True, slots=True)
class Move:
    """Along a dimension, element i of the `reader` is element `scale * i + shift` of the operand,
    if it is one from `low` up to `high`; the others are none of the operand's."""

    reader: Dimension
    operand: Dimension
    scale: int
    shift: int
    low: int
    high: int


Path = tuple[Move | int, ...]
"""Moves one after the other; a number stands for a read at places that are not known."""


def moves_of(statement: Statement, number: int, operand: Value, atoms: Atoms) -> Path:
    """How a statement reads one of its operands, which has this number; empty where it does so at
    equal coordinates."""
    op, out = statement.op, statement.outs[0]
    sizes = out.shape

    def move(dim: int, scale: int, shift: int, low: int, high: int) -> Move:
        dims = atoms.factors(out)[dim], atoms.factors(operand)[dim]
        return Move(*dims, scale, shift, low, high)

    match op:
        case Slice():
            spans = enumerate(zip(static(op.starts), static(op.steps), strict=True))
            return tuple(
                move(dim, step, start, 0, sizes[dim])
                for dim, (start, step) in spans
                if sizes[dim] != operand.shape[dim]
            )
        case Flip():
            return tuple(move(dim, -1, sizes[dim] - 1, 0, sizes[dim]) for dim in op.dims)
        case Pad() if operand is op.arg:
            widths = enumerate(map(static, op.widths))
            return tuple(
                move(dim, 1, -before, max(before, 0), sizes[dim] - max(after, 0))
                for dim, (before, after) in widths
                if before or after
            )
        case Cat():
            ends = [0, *itertools.accumulate(value.shape[op.dim] for value in op.args)]
            low, high = ends[number], ends[number + 1]
            return (move(op.dim, 1, -low, low, high),)
        case _ if atoms.misplaced(out, operand):
            return (out.id if isinstance(op, Gather) else operand.id,)
        case _:
            return ()
