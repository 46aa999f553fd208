"""The walk that passes share: statements in order, operands replaced as earlier rules decided."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from fuser.ir.nodes import Fusion, Operation, Output, Statement, Value, map_operands

Definitions = dict[Value, Statement]
Rule = Callable[[Statement, Definitions], Operation | Value | None]
"""What becomes of a statement with one result: another operation, an earlier value that it equals,
or None for no change. The definitions are those rewritten so far."""


def rewrite(fusion: Fusion, rule: Rule) -> Fusion:
    """`fusion` with `rule` applied to each statement once, in order."""
    replaced: dict[Value, Value] = {}
    definitions: Definitions = {}
    statements: list[Statement] = []
    for original in fusion.statements:
        op = map_operands(original.op, lambda value: replaced.get(value, value))
        statement = original if op == original.op else Statement(original.outs, op)
        change = rule(statement, definitions)
        if isinstance(change, Value):
            replaced[statement.out] = change
            continue
        if change is not None:
            statement = Statement(statement.outs, change)
        statements.append(statement)
        definitions.update((out, statement) for out in statement.outs)
    outputs = tuple(Output(replaced.get(o.value, o.value), o.alias_of) for o in fusion.outputs)
    return dataclasses.replace(fusion, statements=tuple(statements), outputs=outputs)
