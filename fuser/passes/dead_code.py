"""Statements that no output needs are dropped.

T1 = fd.ops.exp(T0)
T2 = fd.ops.mul(T0, S0)     ->     T1 = fd.ops.exp(T0)
fd.add_output(T1)                  fd.add_output(T1)

What advances torch's generator stays: later numbers depend on it.
"""

from __future__ import annotations

import dataclasses

from fuser.ir import externs
from fuser.ir.nodes import Fusion, GeneratorState, Statement, Value, operands


def remove_dead_code(fusion: Fusion) -> Fusion:
    """`fusion` without statements whose results are never read. Inputs all stay."""
    needed: set[Value] = set(fusion.output_values)
    kept: list[Statement] = []
    for statement in reversed(fusion.statements):
        op = statement.op
        advances = isinstance(op, GeneratorState) or externs.draws(op)
        if needed.isdisjoint(statement.outs) and not advances:
            continue
        kept.append(statement)
        needed.update(operands(op))
    return dataclasses.replace(fusion, statements=tuple(reversed(kept)))
