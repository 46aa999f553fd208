"""Scalar expressions of the loop tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

import torch

from fuser.ir.dtypes import DataType, of_literal
from fuser.ir.nodes import Number
from fuser.schedule.indices.index import Index
from fuser.schedule.indices.rewrites import variables_of


@dataclass(frozen=True, slots=True)
class Ref:
    """A named value: a load's or let's result, or a scalar parameter."""

    name: str
    dtype: DataType


REPEATED = Ref("repeated", DataType.Bool)
"""In a loop over rounds: whether this lane was done before. Its last lanes are moved back to end in
range, so that they are vectors too, and what they repeat must not change what was folded."""


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A number of the text. A zero is not equal to the negative zero."""

    value: Number
    dtype: DataType

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        is_negative_zero = self.value == 0 and str(self.value).startswith("-")
        return self.value, is_negative_zero, self.dtype


@dataclass(frozen=True, slots=True)
class Convert:
    of: Expression
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A row of the pointwise table on operands that have its compute types.

    `alike`: no other function may stand for it, as other kernels make it too.
    """

    op: str
    args: tuple[Expression, ...]
    dtype: DataType
    alike: bool = False


@dataclass(frozen=True, slots=True)
class SizeValue:
    """A number that follows from sizes: a parameter, not part of the text."""

    number: int
    dtype: DataType


@dataclass(frozen=True, slots=True)
class IndexValue:
    """An index as a number."""

    index: Index
    dtype: DataType


Leaf = Ref | Literal | SizeValue | IndexValue

Expression = Leaf | Convert | Call


def leaves(expression: Expression) -> Iterator[Leaf]:
    """What an expression is made of, from left to right."""
    rest = [expression]
    while rest:
        match part := rest.pop():
            case Ref() | Literal() | SizeValue() | IndexValue():
                yield part
            case Call():
                rest.extend(reversed(part.args))
            case Convert():
                rest.append(part.of)
            case _:
                assert_never(part)


def refs(expression: Expression) -> Iterator[str]:
    """The names that an expression reads."""
    return (leaf.name for leaf in leaves(expression) if isinstance(leaf, Ref))


def names_of(expression: Expression) -> Iterator[str]:
    """The names that an expression reads, its indices too."""
    for leaf in leaves(expression):
        match leaf:
            case Ref():
                yield leaf.name
            case IndexValue():
                yield from variable_names(leaf.index)
            case Literal() | SizeValue():
                pass
            case _:
                assert_never(leaf)


def variable_names(index: Index) -> Iterator[str]:
    """The names of the variables that an index is made of."""
    return (variable.name for variable in variables_of(index))


def convert(expression: Expression, dtype: DataType) -> Expression:
    """An expression as a number of `dtype`; a literal is converted right away."""
    if expression.dtype is dtype:
        return expression
    if isinstance(expression, Literal) and not isinstance(expression.value, complex):
        return Literal(_number_as(expression, dtype), dtype)
    return Convert(expression, dtype)


_ADDED = {"exp_nonpositive": "plus_exp", "exp_nonpositive_narrow": "plus_exp_narrow"}
"""The rows of the table that add what these make."""


def join(operation: str, held: Ref, value: Expression) -> Call:
    """`held` with one more value, by a pointwise operation on numbers of its type.

    Of truth values it is a choice by the one that comes: g++ vectorizes no other form.
    """
    more = convert(value, held.dtype)
    if operation == "add" and isinstance(more, Call) and more.op in _ADDED:
        return Call(_ADDED[more.op], (held, *more.args), held.dtype)
    if held.dtype is not DataType.Bool:
        return Call(operation, (held, more), held.dtype)
    if operation in ("logical_or", "maximum"):
        return Call("where", (more, Literal(True, held.dtype), held), held.dtype)
    return Call("where", (more, held, Literal(False, held.dtype)), held.dtype)


def _number_as(literal: Literal, dtype: DataType) -> bool | int | float | complex:
    """A literal in another type, as torch converts it."""
    given = literal.dtype if literal.dtype is DataType.UInt64 else of_literal(literal.value)
    return torch.tensor(literal.value, dtype=given.torch, device="cpu").to(dtype.torch).item()
