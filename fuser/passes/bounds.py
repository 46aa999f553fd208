"""Between which numbers the elements of tensors lie, as far as operations tell.

    T1 = fd.ops.iota(224, ...)                           0 to 223
    T2 = fd.ops.cast(T1, dtype=DataType.Float)           0 to 223, and what rounding may add
    T3 = fd.ops.mul(T2, S0)             S0: 1.714286     0 to 382.29
    T4 = fd.ops.cast(T3, dtype=DataType.Int)             0 to 382
    T5 = fd.ops.lt(T4, S1)              S1: 0            0: nowhere

Operations that are monotone in each operand have their bounds where those of their operands meet.
A bound is never too narrow: where a sum of integers may wrap around, it is any number of its type.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from fuser.ir.dtypes import Category, DataType
from fuser.ir.infer import signature
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Cat,
    Constant,
    Expand,
    Extern,
    Flip,
    Full,
    Gather,
    Iota,
    Operation,
    Pad,
    Permute,
    Pointwise,
    Reduce,
    Scan,
    Slice,
    Squeeze,
    Statement,
    StrideOrder,
    Value,
    View,
)
from fuser.ir.pointwise import EXACT_ROWS

Number = int | float

One = Callable[[Number], Number]

Two = Callable[[Number, Number], Number]

_ULPS = 4
"""Units in the last place that rounding, of a result and of its parts, may move a bound by."""


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


class KnownBounds:
    """The bounds of a fusion's values, which are found a statement at a time."""

    def __init__(self) -> None:
        self._known: dict[Value, Bounds] = {}

    def note(self, statement: Statement) -> None:
        """Look at the next statement."""
        for number, out in enumerate(statement.outs):
            found = self._made(statement.op, number, out)
            if found is not None:
                self._known[out] = found

    def of(self, value: Value) -> Bounds | None:
        """The bounds of a value: at least those of its type, if that is one of integers."""
        return self._known.get(value) or _all_of(value.dtype)

    def are_within(self, index: Value, size: int) -> bool:
        """Whether all indices are from 0 to below the size of what they are of."""
        found = self.of(index)
        return found is not None and found.low >= 0 and found.high < size

    def of_operands(self, op: Pointwise) -> list[Bounds | None]:
        """The bounds of the operands, converted to what the operation computes with."""
        pairs = zip(op.args, signature(op).args, strict=True)
        return [self._converted(arg, to) for arg, to in pairs]

    def _made(self, op: Operation, number: int, out: Value) -> Bounds | None:
        """The bounds of a result, the one of this number."""
        match op:
            case Constant(bool() | int() | float() as value):
                return _held(Bounds(value, value), out.dtype)
            case Full():
                return self._converted(op.fill, out.dtype)
            case Iota():
                return self._of_iota(op, out)
            case Pointwise():
                return self._of_pointwise(op, out.dtype)
            case Cast():
                return self._converted(op.arg, out.dtype)
            case Pad(arg, _, fill):
                return _joined([self.of(arg), self._converted(fill, out.dtype)])
            case Cat():
                return _joined(map(self.of, op.args))
            case Reduce() | Scan():
                return self._of_many(op, number, out.dtype)
            case Extern("argsort", (Value(shape=shape),), (int(dim), *_)):
                return _places(shape, dim)
            case Extern("topk", (Value(shape=shape),), (_, int(dim), *_)) if number == 1:
                return _places(shape, dim)
            case _ if isinstance(op, _CHOOSES):
                return self.of(op.arg)
            case _:
                return None

    def _converted(self, value: Value, dtype: DataType) -> Bounds | None:
        """The bounds of a value as one of another type."""
        found = self.of(value)
        if found is None or value.dtype is dtype:
            return found
        if dtype.category is Category.BOOL:
            is_zero = found.low == found.high == 0
            return Bounds(0, 0) if is_zero else _all_of(dtype)
        if dtype.category is Category.INTEGER:
            found = Bounds(math.trunc(found.low), math.trunc(found.high))
        return _held(found, dtype)

    def _of_iota(self, op: Iota, out: Value) -> Bounds | None:
        start, step = self.of(op.start), self.of(op.step)
        if start is None or step is None:
            return None
        last = _at_corners(lambda a, b: a + max(out.elements - 1, 0) * b, start, step)
        return _held(last.joined(start), out.dtype)

    def _of_pointwise(self, op: Pointwise, dtype: DataType) -> Bounds | None:
        args = self.of_operands(op)
        if op.op == "where":
            condition, *chosen = args
            if condition is not None:
                chosen = chosen[1 - int(condition.high) : 2 - int(condition.low)]
            return _joined(chosen)
        known = [arg for arg in args if arg is not None]
        if len(known) < len(args):
            return None
        found = _of_operation(op.op, dtype, known)
        rounded = dtype.category is Category.INTEGER or op.op not in EXACT_ROWS
        return _held(found, dtype) if rounded else found

    def _of_many(self, op: Reduce | Scan, number: int, dtype: DataType) -> Bounds | None:
        """The bounds of what is made of many elements: of one, or of its place, or a sum."""
        arg, shape = self._converted(op.arg, dtype), op.arg.shape
        dims = (op.dim,) if isinstance(op, Scan) else op.dims
        count = math.prod(shape[dim] for dim in dims) if shape else 1
        if op.op in ("argmax", "argmin") or (number > 0 and op.op in ("cummax", "cummin")):
            return Bounds(0, max(count - 1, 0))
        if arg is None or dtype.category is not Category.INTEGER:
            return None
        if op.op in ("max", "min", "cummax", "cummin"):
            return arg
        if op.op in ("sum", "cumsum"):
            one = arg if isinstance(op, Scan) else Bounds(0, 0)
            return _held(Bounds(arg.low * count, arg.high * count).joined(one), dtype)
        return None


_CHOOSES = View | Permute | Broadcast | Expand | Squeeze | Slice | Flip | StrideOrder | Gather
"""Operations of which each element is one of the operand's."""

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


def _of_operation(op: str, dtype: DataType, args: list[Bounds]) -> Bounds | None:
    """The bounds of a row of the pointwise table, given those of its operands."""
    match args:
        case [x]:
            return _of_one(op, dtype, x)
        case [x, y]:
            return _of_two(op, dtype, x, y)
        case [x, low, high] if op == "clamp":
            return _of_two("minimum", dtype, _at_corners(max, x, low), high)
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
        return _at_corners(_TWO[op], x, y)
    if op in DECIDED:
        outcome = DECIDED[op](x.low - y.high, x.high - y.low)
        return None if outcome is None else Bounds(outcome, outcome)
    if op in _OF_TRUTH and dtype is DataType.Bool and x.within(0, 1) and y.within(0, 1):
        return _at_corners(_OF_TRUTH[op], x, y)
    if op == "bitwise_and" and max(x.low, y.low) >= 0:
        return Bounds(0, min(arg.high for arg in (x, y) if arg.low >= 0))
    if op in _SHIFTS and y.within(0, 63):
        return _at_corners(_SHIFTS[op], x, y)
    return _divided(op, x, y, dtype.category is Category.INTEGER) if y.low > 0 else None


def _divided(op: str, x: Bounds, y: Bounds, whole: bool) -> Bounds | None:
    """The bounds of quotients and rests of `whole` numbers, or others, by numbers above 0."""
    most = y.high - whole
    match op:
        case "floor_divide":
            return _at_corners(lambda a, b: a // b, x, y)
        case "div" if whole:
            return _at_corners(lambda a, b: a // b if a >= 0 else -(-a // b), x, y)
        case "truediv" | "div":
            return _at_corners(lambda a, b: a / b, x, y)
        case "remainder" | "mod" | "fmod" if x.low >= 0 and x.high < y.low:
            return x
        case "remainder":
            return Bounds(0, most)
        case "mod" | "fmod":
            return Bounds(max(min(x.low, 0), -most), min(max(x.high, 0), most))
        case _:
            return None


def _at_corners(function: Two, x: Bounds, y: Bounds) -> Bounds:
    """The bounds of a function that is monotone in each operand."""
    corners = itertools.product((x.low, x.high), (y.low, y.high))
    found = [function(*corner) for corner in corners]
    return Bounds(min(found), max(found))


def _places(shape: tuple[int, ...], dim: int) -> Bounds:
    """The bounds of places along a dimension; one without dimensions is a row of one."""
    return Bounds(0, max((shape or (1,))[dim] - 1, 0))


def _joined(parts: Iterable[Bounds | None]) -> Bounds | None:
    """The bounds of elements that are each of one of these parts."""
    known = list(parts)
    found = [bounds for bounds in known if bounds is not None]
    return functools.reduce(Bounds.joined, found) if len(found) == len(known) > 0 else None


def _held(bounds: Bounds | None, dtype: DataType) -> Bounds | None:
    """The bounds of what was made in a type: rounded, or any number where it may wrap around."""
    if bounds is None or dtype.category is Category.COMPLEX:
        return None
    if dtype.category is not Category.FLOAT:
        whole = _all_of(dtype)
        return bounds if whole is not None and bounds.within(whole.low, whole.high) else whole
    limits = torch.finfo(dtype.torch)
    if not (limits.min < bounds.low and bounds.high < limits.max):
        return None
    low, high = (abs(end) * _ULPS * limits.eps + limits.tiny for end in (bounds.low, bounds.high))
    return Bounds(bounds.low - low, bounds.high + high)


def _all_of(dtype: DataType) -> Bounds | None:
    """The bounds of a type, if it is not one of floating point."""
    match dtype.category:
        case Category.BOOL:
            return Bounds(0, 1)
        case Category.INTEGER:
            limits = torch.iinfo(dtype.torch)
            return Bounds(limits.min, limits.max)
        case _:
            return None
