"""Scalar expressions of the loop tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Number
from fuser.schedule.index import Index


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
            case Convert():
                rest.append(part.of)
            case Call():
                rest.extend(reversed(part.args))
            case Ref() | Literal() | SizeValue() | IndexValue():
                yield part
            case _:
                assert_never(part)


def refs(expression: Expression) -> Iterator[str]:
    """The names that an expression reads."""
    return (leaf.name for leaf in leaves(expression) if isinstance(leaf, Ref))
