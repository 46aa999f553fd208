"""Bounds of elements, and what pointwise operations make of them.

    mul of [0, 223] and [1.5, 2]       [0, 446]       monotone in each operand: at the corners
    lt of [0, 223] and [224, 300]      [1, 1]         by the bounds of the difference, [-300, -1]

Rounding is not looked at here, nor whether integers wrap around: `bounds.py` widens what is found.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fuser.ir.dtypes import Category, DataType

Number = int | float

One = Callable[[Number], Number]

Two = Callable[[Number, Number], Number]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the largest that elements may be; none is NaN."""

    low: Number
    high: Number

    def within(self, low: Number, high: Number) -> bool:
        """Whether no element is outside of others."""
        return low <= self.low and self.high <= high

    def joined(self, other: Bounds) -> Bounds:
        """The bounds of elements of which each has one bounds or the other."""
        return Bounds(min(self.low, other.low), max(self.high, other.high))


_ONE: dict[str, One] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "neg": lambda x: -x,
    "relu": lambda x: max(x, 0),
    "round": round,
    "segment_set": lambda x: x,
    "set": lambda x: x,
    "trunc": math.trunc,
}
"""Monotone functions."""

_TWO: dict[str, Two] = {
    "add": lambda x, y: x + y,
    "maximum": max,
    "minimum": min,
    "mul": lambda x, y: x * y,
    "sub": lambda x, y: x - y,
}
"""Functions that are monotone in each operand, whatever the other is."""

_OF_TRUTH: dict[str, Two] = {
    "bitwise_and": lambda x, y: bool(x) & bool(y),
    "bitwise_or": lambda x, y: bool(x) | bool(y),
    "bitwise_xor": lambda x, y: bool(x) ^ bool(y),
    "logical_and": lambda x, y: bool(x) & bool(y),
    "logical_or": lambda x, y: bool(x) | bool(y),
}
"""Functions of truth values, which have no others than their bounds."""

_SHIFTS: dict[str, Two] = {
    "bitwise_left_shift": lambda x, y: int(x) << int(y),
    "bitwise_right_shift": lambda x, y: int(x) >> int(y),
}
"""Monotone in each operand, where all places are ones of 64."""

DECIDED: dict[str, Callable[[Number, Number], bool | None]] = {
    "eq": lambda low, high: True if low == high == 0 else False if low > 0 or high < 0 else None,
    "ne": lambda low, high: False if low == high == 0 else True if low > 0 or high < 0 else None,
    "lt": lambda low, high: True if high < 0 else False if low >= 0 else None,
    "le": lambda low, high: True if high <= 0 else False if low > 0 else None,
    "gt": lambda low, high: True if low > 0 else False if high <= 0 else None,
    "ge": lambda low, high: True if low >= 0 else False if high < 0 else None,
}
"""What a comparison comes to by the bounds of the difference, if that is the same everywhere."""


def of_operation(op: str, dtype: DataType, args: list[Bounds]) -> Bounds | None:
    """The bounds of a row of the pointwise table, given those of its operands."""
    match args:
        case [x]:
            return _of_one(op, dtype, x)
        case [x, y]:
            return _of_two(op, dtype, x, y)
        case [x, low, high] if op == "clamp":
            return _of_two("minimum", dtype, at_corners(max, x, low), high)
        case _:
            return None


def _of_one(op: str, dtype: DataType, x: Bounds) -> Bounds | None:
    if op in _ONE:
        low, high = sorted((_ONE[op](x.low), _ONE[op](x.high)))
        return Bounds(low, high)
    if op == "abs":
        return Bounds(max(x.low, -x.high, 0), max(-x.low, x.high))
    if op in ("bitwise_not", "logical_not") and dtype is DataType.Bool and x.within(0, 1):
        return Bounds(not x.high, not x.low)
    return None


def _of_two(op: str, dtype: DataType, x: Bounds, y: Bounds) -> Bounds | None:
    if op in _TWO:
        return at_corners(_TWO[op], x, y)
    if op in DECIDED:
        outcome = DECIDED[op](x.low - y.high, x.high - y.low)
        return None if outcome is None else Bounds(outcome, outcome)
    if op in _OF_TRUTH and dtype is DataType.Bool and x.within(0, 1) and y.within(0, 1):
        return at_corners(_OF_TRUTH[op], x, y)
    if op == "bitwise_and" and max(x.low, y.low) >= 0:
        return Bounds(0, min(arg.high for arg in (x, y) if arg.low >= 0))
    if op in _SHIFTS and y.within(0, 63):
        return at_corners(_SHIFTS[op], x, y)
    return _divided(op, x, y, dtype.category is Category.INTEGER) if y.low > 0 else None


def _divided(op: str, x: Bounds, y: Bounds, whole: bool) -> Bounds | None:
    """The bounds of quotients and rests of `whole` numbers, or others, by numbers above 0."""
    most = y.high - whole
    match op:
        case "floor_divide":
            return at_corners(lambda a, b: a // b, x, y)
        case "div" if whole:
            return at_corners(lambda a, b: a // b if a >= 0 else -(-a // b), x, y)
        case "truediv" | "div":
            return at_corners(lambda a, b: a / b, x, y)
        case "remainder" | "mod" | "fmod" if x.low >= 0 and x.high < y.low:
            return x
        case "remainder":
            return Bounds(0, most)
        case "mod" | "fmod":
            return Bounds(max(min(x.low, 0), -most), min(max(x.high, 0), most))
        case _:
            return None


def at_corners(function: Two, x: Bounds, y: Bounds) -> Bounds:
    """The bounds of a function that is monotone in each operand."""
    corners = itertools.product((x.low, x.high), (y.low, y.high))
    found = [function(*corner) for corner in corners]
    return Bounds(min(found), max(found))


def joined(parts: Iterable[Bounds | None]) -> Bounds | None:
    """The bounds of elements that are each of one of these parts."""
    known = list(parts)
    found = [bounds for bounds in known if bounds is not None]
    return functools.reduce(Bounds.joined, found) if len(found) == len(known) > 0 else None
