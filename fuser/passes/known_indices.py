"""Gathers whose indices are known to be in range check none of them.

T1 = fd.ops.iota(224, ...)                                    0 to 223
T2 = fd.ops.clamp(T1, S0, S1)      S0: 0, S1: 111
T4 = fd.ops.index_select(T3, T2, dim=1)                       T3: 112 columns
"""

from __future__ import annotations

import dataclasses

from fuser.ir.nodes import CheckIndex, Fusion, Gather, Operation, Statement, Value
from fuser.passes.bounds import KnownBounds
from fuser.passes.rewrite import Emitter, rewrite


def mark_known_indices(fusion: Fusion) -> Fusion:
    """`fusion` with gathers marked whose indices are all in range, and without checks of such."""
    bounds = KnownBounds()

    def rule(statement: Statement, emit: Emitter) -> Operation | Value | None:
        bounds.note(statement)
        match statement.op:
            case CheckIndex(arg, size) if bounds.are_within(arg, size):
                return arg
            case Gather(arg=arg, index=index, dim=dim) as op:
                in_range = bounds.are_within(index, arg.shape[dim])
                return dataclasses.replace(op, in_range=True) if in_range else None
            case _:
                return None

    return rewrite(fusion, rule)
