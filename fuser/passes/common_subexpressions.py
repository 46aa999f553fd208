"""Equal operations on equal operands are computed once.

    T1 = fd.ops.exp(T0)
    T2 = fd.ops.exp(T0)         ->     T1 = fd.ops.exp(T0)
    T3 = fd.ops.add(T1, T2)            T3 = fd.ops.add(T1, T1)

The state of torch's generator is another each time, so random numbers are equal where their seed
and offset are given. `segment_set` marks a place. Neither it nor a state is merged.
"""

from __future__ import annotations

from fuser.ir import externs
from fuser.ir.nodes import (
    Fusion,
    GeneratorState,
    Operation,
    Pointwise,
    Statement,
    Value,
)
from fuser.passes.rewrite import rebuilt, renamed


def merge_common_subexpressions(fusion: Fusion) -> Fusion:
    """`fusion` with the later of two equal statements replaced by the earlier."""
    first: dict[Operation, tuple[Value, ...]] = {}
    replaced: dict[Value, Value] = {}
    statements: list[Statement] = []
    for original in fusion.statements:
        statement = renamed(original, replaced)
        op = statement.op
        if _is_pure(op) and op in first:
            replaced.update(zip(statement.outs, first[op], strict=True))
            continue
        first[op] = statement.outs
        statements.append(statement)
    return rebuilt(fusion, statements, replaced)


def _is_pure(op: Operation) -> bool:
    match op:
        case GeneratorState() | Pointwise(op="segment_set"):
            return False
        case _:
            return not externs.draws(op)
