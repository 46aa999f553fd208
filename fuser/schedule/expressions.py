"""Scalar expressions of the loop tree."""

from __future__ import annotations

from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Number
from fuser.schedule.index import Index


@dataclass(frozen=True, slots=True)
class Ref:
    """A named value: a load's or let's result, or a scalar parameter."""

    name: str
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Literal:
    value: Number
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Convert:
    of: Expression
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A row of the pointwise table on operands that have its compute types."""

    op: str
    args: tuple[Expression, ...]
    dtype: DataType


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


Expression = Ref | Literal | SizeValue | Convert | Call | IndexValue
