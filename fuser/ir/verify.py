"""`verify(fusion)`: the invariants every pass must keep."""

from __future__ import annotations

from fuser.errors import VerifyError
from fuser.ir.infer import infer
from fuser.ir.nodes import Fusion, Statement, Value, operands
from fuser.ir.printer import print_statement
from fuser.ir.types import ValueType


def verify(fusion: Fusion, stage: str) -> None:
    """Raises VerifyError, naming `stage`, unless `fusion` is well formed.

    Every operand is an input or defined earlier, every id is used once, every recorded type is the
    inferred one, and every output is defined.
    """
    defined: dict[int, Value] = {}

    def define(value: Value, statement: Statement | None = None) -> None:
        if value.id in defined:
            where = "inputs" if statement is None else print_statement(statement)
            raise VerifyError(stage=stage, statement=where, reason=f"{value} is defined twice")
        defined[value.id] = value

    for value in fusion.inputs:
        define(value)
    for statement in fusion.statements:
        for operand in operands(statement.op):
            if defined.get(operand.id) != operand:
                reason = f"{operand} is used before it is defined, or with another type"
                raise VerifyError(stage=stage, statement=print_statement(statement), reason=reason)
        inferred = infer(statement.op)
        recorded = tuple(out.type for out in statement.outs)
        if inferred != recorded:
            reason = f"recorded type {_words(recorded)}, inferred {_words(inferred)}"
            raise VerifyError(stage=stage, statement=print_statement(statement), reason=reason)
        for out in statement.outs:
            define(out, statement)
    for value in fusion.output_values:
        if defined.get(value.id) != value:
            raise VerifyError(stage=stage, statement="outputs", reason=f"{value} is not defined")


def _words(types: tuple[ValueType, ...]) -> str:
    return ", ".join(map(str, types))
