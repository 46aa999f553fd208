"""Statements bind values to operations; a fusion is statements with inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from fuser.errors import UnknownMemberError
from fuser.ir.operands import operands
from fuser.ir.operations import Operation
from fuser.ir.values import Value


@dataclass(frozen=True, slots=True)
class Statement:
    """`outs = op`."""

    outs: tuple[Value, ...]
    op: Operation

    @property
    def out(self) -> Value:
        """The result of an operation that has one."""
        (out,) = self.outs
        return out


@dataclass(frozen=True, slots=True)
class Output:
    """A value handed back, or, with `alias_of`, written into that input and not handed back.

    What is handed back is the memory of input `shown_in`, if that is given, after all updates.
    """

    value: Value
    alias_of: Value | None = None
    shown_in: Value | None = None


LEFT_OUT = {
    "id": "fd.id() is its number",
    "exprs": "its statements are in order",
    "print": "str(fd) is the definition",
    "print_kernel": "fd.cuda_code_for(inputs) is the code of its kernels",
    "print_math": "str(fd) is the definition, fd.scheduled_fusion_ir_for(inputs) its loop nests",
    "vals": "values are its inputs, and the outs of its statements",
}
"""What nvFuser's Fusion has, by its name there, and what to use instead."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """Statements in an order where every operand is defined before it is used.

    `numbered` counts the numbers that a definition gave to values: what passes add has others, so
    that no name means two things, whatever was removed.
    """

    inputs: tuple[Value, ...] = ()
    statements: tuple[Statement, ...] = ()
    outputs: tuple[Output, ...] = ()
    numbered: int = field(default=0, compare=False)

    @property
    def output_values(self) -> tuple[Value, ...]:
        return tuple(output.value for output in self.outputs)

    @property
    def fresh_id(self) -> int:
        """A number above those of all values, and of those that there were."""
        values = (*self.inputs, *(out for statement in self.statements for out in statement.outs))
        return max(self.numbered, 1 + max((value.id for value in values), default=-1))

    if not TYPE_CHECKING:  # a checker of types need not believe that it has any member

        def __getattr__(self, name: str) -> NoReturn:
            """Raises UnknownMemberError, which is an AttributeError."""
            hint = f"; {LEFT_OUT[name]}" if name in LEFT_OUT else ""
            raise UnknownMemberError(owner="Fusion", name=name, hint=hint)

    @property
    def updated(self) -> tuple[int, ...]:
        """The positions of inputs that outputs are written into."""
        into = {output.alias_of for output in self.outputs}
        return tuple(number for number, value in enumerate(self.inputs) if value in into)

    def shown_in(self) -> tuple[Value | None, ...]:
        """The inputs as which outputs are handed back: updated ones, or ones they are written into.

        So that who asks for an updated input, or for what is written into one, gets that input.
        """
        into = {o.value: o.alias_of for o in reversed(self.outputs) if o.alias_of is not None}
        handed = into | {value: value for value in into.values()}
        return tuple(handed.get(o.value) if o.alias_of is None else None for o in self.outputs)

    def definitions(self) -> dict[Value, Statement]:
        """The statement that defines each computed value."""
        return {out: statement for statement in self.statements for out in statement.outs}

    def uses(self) -> dict[Value, list[Statement]]:
        """The statements that read each value, in order; each statement once."""
        readers: dict[Value, list[Statement]] = {}
        for statement in self.statements:
            for operand in dict.fromkeys(operands(statement.op)):
                readers.setdefault(operand, []).append(statement)
        return readers
