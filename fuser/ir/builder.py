"""Appending statements one at a time, with types inferred as they come."""

from __future__ import annotations

from fuser.ir.infer import infer
from fuser.ir.nodes import Fusion, Operation, Output, Statement, Value
from fuser.ir.types import ValueType


class FusionBuilder:
    """A fusion under construction, which may go on from another one.

    Values are numbered in the order they are made.
    """

    def __init__(self, begun: Fusion | None = None) -> None:
        begun = begun or Fusion()
        self._inputs = dict.fromkeys(begun.inputs)
        self._statements = list(begun.statements)
        self._outputs = list(begun.outputs)
        self._updated = {output.alias_of for output in begun.outputs}
        self._next_id = begun.fresh_id

    def input(self, type_: ValueType) -> Value:
        """Declare the next input."""
        value = self._new(type_)
        self._inputs[value] = None
        return value

    def add(self, op: Operation) -> tuple[Value, ...]:
        """Append `op` and return its results. Raises what `infer` raises; nothing is added then."""
        outs = tuple(self._new(type_) for type_ in infer(op))
        self._statements.append(Statement(outs, op))
        return outs

    def output(self, value: Value, alias_of: Value | None = None) -> None:
        """Declare the next output."""
        self._outputs.append(Output(value, alias_of))
        self._updated.add(alias_of)

    def is_input(self, value: Value) -> bool:
        """Whether a value is an input."""
        return value in self._inputs

    def is_updated(self, value: Value) -> bool:
        """Whether an output is written into an input."""
        return value in self._updated

    @property
    def fusion(self) -> Fusion:
        return Fusion(tuple(self._inputs), tuple(self._statements), tuple(self._outputs))

    def _new(self, type_: ValueType) -> Value:
        value = Value(self._next_id, type_)
        self._next_id += 1
        return value
