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

import math

import torch

from fuser.ir.dtypes import Category, DataType
from fuser.ir.infer import signature
from fuser.ir.nodes import (
    Cast,
    Cat,
    Constant,
    Extern,
    Full,
    Gather,
    Iota,
    MetadataOperation,
    Operation,
    Pad,
    Pointwise,
    Reduce,
    Scan,
    Statement,
    StrideOrder,
    Value,
)
from fuser.ir.pointwise import EXACT_ROWS
from fuser.passes.intervals import Bounds, at_corners, joined, of_operation

_ULPS = 4
"""Units in the last place that rounding, of a result and of its parts, may move a bound by."""


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
                return joined([self.of(arg), self._converted(fill, out.dtype)])
            case Cat():
                return joined(map(self.of, op.args))
            case Reduce() | Scan():
                return self._of_many(op, out.dtype)
            case Extern("argsort", (Value(shape=shape),), (int(dim), *_)):
                return _places(shape, dim)
            case Extern("topk", (Value(shape=shape),), (_, int(dim), *_)) if number == 1:
                return _places(shape, dim)
            case _ if isinstance(op, MetadataOperation | StrideOrder | Gather):
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
        last = at_corners(lambda a, b: a + max(out.elements - 1, 0) * b, start, step)
        return _held(last.joined(start), out.dtype)

    def _of_pointwise(self, op: Pointwise, dtype: DataType) -> Bounds | None:
        args = self.of_operands(op)
        if op.op == "where":
            condition, *chosen = args
            if condition is not None:
                chosen = chosen[1 - int(condition.high) : 2 - int(condition.low)]
            return joined(chosen)
        known = [arg for arg in args if arg is not None]
        if len(known) < len(args):
            return None
        found = of_operation(op.op, dtype, known)
        rounded = dtype.category is Category.INTEGER or op.op not in EXACT_ROWS
        return _held(found, dtype) if rounded else found

    def _of_many(self, op: Reduce | Scan, dtype: DataType) -> Bounds | None:
        """The bounds of what is made of many elements: of one, or of its place, or a sum."""
        arg, shape = self._converted(op.arg, dtype), op.arg.shape
        dims = (op.dim,) if isinstance(op, Scan) else op.dims
        count = math.prod(shape[dim] for dim in dims) if shape else 1
        if op.op in ("argmax", "argmin"):
            return Bounds(0, max(count - 1, 0))
        if arg is None or dtype.category is not Category.INTEGER:
            return None
        if op.op in ("max", "min", "cummax", "cummin"):
            return arg
        if op.op in ("sum", "cumsum"):
            one = arg if isinstance(op, Scan) else Bounds(0, 0)
            return _held(Bounds(arg.low * count, arg.high * count).joined(one), dtype)
        return None


def _places(shape: tuple[int, ...], dim: int) -> Bounds:
    """The bounds of places along a dimension; one without dimensions is a row of one."""
    return Bounds(0, max((shape or (1,))[dim] - 1, 0))


def _held(bounds: Bounds | None, dtype: DataType) -> Bounds | None:
    """The bounds of what was made in a type: rounded, or any number where it may wrap around."""
    if bounds is None or dtype.category is Category.COMPLEX:
        return None
    if dtype.category is not Category.FLOAT:
        whole = _all_of(dtype)
        return bounds if whole is not None and bounds.within(whole.low, whole.high) else whole
    if dtype.is_float4:  # its numbers are far apart
        return Bounds(-6.0, 6.0) if dtype is DataType.Float4_e2m1fn else None
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
