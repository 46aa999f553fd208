"""Sums of values that differ at one place of a row only.

T9 = fd.ops.eq(T7, T8)          T7: 0, 1, 2, ... along dim 1; T8: Int[8, 1], a checked index
T5 = fd.ops.where(T9, T2, T0)   T2, T0: Float[8, 1]
T6 = fd.ops.mul(T5, T4)         T4: Float[8, 1]
T3 = fd.ops.sum(T6, dims=[1], keepdim=True)
->
T3 = T2 * T4 + (T0 * T4) * (columns - 1)

A gradient of cross entropy sums such a row: without this, the kernel would sweep it once more.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.ir.infer import infer
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    CheckIndex,
    Constant,
    Expand,
    Full,
    Fusion,
    Iota,
    Operation,
    Pointwise,
    Reduce,
    Squeeze,
    Statement,
    Value,
)
from fuser.ir.shapes import with_size
from fuser.passes.rewrite import Emitter, rewrite

_DEPTH = 16
"""How many operations are looked through."""


def take_one_hot_sums(fusion: Fusion) -> Fusion:
    """`fusion` with sums along a dimension of what has two values there."""
    return rewrite(fusion, _summed, may_copy=True)


@dataclass(frozen=True, slots=True)
class _TwoValued:
    """A value that is `at` where the position along a dimension is `place`, `other` elsewhere."""

    place: Value
    at: Value
    other: Value


def _summed(statement: Statement, emit: Emitter) -> Operation | Value | None:
    op = statement.op
    if not isinstance(op, Reduce) or op.op != "sum" or len(op.dims) != 1:
        return None
    ((dim,), shape) = op.dims, op.arg.shape
    if shape[dim] < 2 or not op.arg.dtype.is_floating:
        return None
    found = _Search(dim - len(shape), emit).two_valued(op.arg)
    if found is None:
        return None
    others = emit.add(Constant(shape[dim] - 1, DataType.Int, is_size=True))
    rest = emit.add(Pointwise("mul", (found.other, others)))
    total = emit.add(Pointwise("add", (found.at, rest)))
    # The index stays in use, so that one out of range is still reported.
    nothing = emit.add(Constant(0, DataType.Int))
    in_range = emit.add(Pointwise("ge", (found.place, nothing)))
    total = emit.add(Pointwise("where", (in_range, total, rest)))
    total = emit.cast(emit.expanded(total, with_size(shape, dim)), statement.out.dtype)
    return total if op.keepdim else emit.add(Squeeze(total, (dim,)))


class _Search:
    """Looks back from a value for the comparison that makes one place of a dimension differ.

    `dim` counts from the end: operands of a pointwise operation are aligned there.
    """

    def __init__(self, dim: int, emit: Emitter) -> None:
        self._dim = dim
        self._emit = emit
        self._found: dict[Value, _TwoValued | None] = {}
        self._depth = 0

    def two_valued(self, value: Value) -> _TwoValued | None:
        """What is known of a tensor; None if it may have other values along the dimension."""
        if value not in self._found and self._depth < _DEPTH:
            self._depth += 1
            op = self._emit.producer(value)
            if isinstance(op, Pointwise):
                self._found[value] = self._pointwise(op)
            elif isinstance(op, Cast):
                self._found[value] = self._mapped(op, (op.arg,))
            self._depth -= 1
        return self._found.get(value)

    def _pointwise(self, op: Pointwise) -> _TwoValued | None:
        if op.op != "where":
            return self._mapped(op, op.args)
        condition, chosen, other = op.args
        place = self._place(condition)
        values = self._same(chosen), self._same(other)
        if place is None or values[0] is None or values[1] is None:
            return self._mapped(op, op.args)
        at, rest = (self._emit.cast(v, infer(op)[0].dtype) for v in values if v is not None)
        return _TwoValued(place, at, rest)

    def _place(self, condition: Value) -> Value | None:
        """The index in `position == index`."""
        op = self._emit.producer(condition)
        if not isinstance(op, Pointwise) or op.op != "eq":
            return None
        for positions, index in (op.args, op.args[::-1]):
            checked = self._emit.producer(index)
            if isinstance(checked, CheckIndex) and self._are_positions(positions, checked.size):
                return index if self._size(index) == 1 else None
        return None

    def _are_positions(self, value: Value, size: int) -> bool:
        """Whether a value is 0, 1, ..., size - 1 along the dimension, and has more than one."""
        if not 1 < size == self._size(value):
            return False
        op = self._emit.producer(value)
        if isinstance(op, Broadcast):  # new dimensions have size 1
            op = self._emit.producer(op.arg)
        if not isinstance(op, Iota):
            return False
        numbers = (self._emit.producer(op.start), self._emit.producer(op.step))
        return [n.value for n in numbers if isinstance(n, Constant)] == [0, 1]

    def _mapped(self, op: Pointwise | Cast, args: tuple[Value, ...]) -> _TwoValued | None:
        """The operation on each of the two values of its operands."""
        known = [(self._same(arg), self.two_valued(arg)) for arg in args if arg.is_tensor]
        pairs = [pair for same, pair in known if same is None]
        found = [pair for pair in pairs if pair is not None]
        if not found or len(found) < len(pairs) or len({pair.place for pair in found}) > 1:
            return None
        each = dict(zip((arg for arg in args if arg.is_tensor), known, strict=True))

        def on(which: str) -> Value:
            def operand(arg: Value) -> Value:
                same, pair = each.get(arg, (arg, None))
                return same if same is not None else getattr(pair, which)

            if isinstance(op, Cast):
                return self._emit.add(Cast(operand(op.arg), op.dtype))
            return self._emit.add(Pointwise(op.op, tuple(map(operand, op.args))))

        return _TwoValued(found[0].place, on("at"), on("other"))

    def _same(self, value: Value) -> Value | None:
        """What a value is all along the dimension: of size 1 there, or without it."""
        if self._size(value) == 1:
            return value
        op = self._emit.producer(value)
        one = with_size(value.shape, self._dim)
        if isinstance(op, Full):
            return self._emit.add(Full(one, op.fill, op.dtype))
        if isinstance(op, Expand) and self._size(op.arg) == 1:
            return op.arg if op.arg.shape == one else self._emit.add(Expand(op.arg, one))
        return None

    def _size(self, value: Value) -> int:
        """A value's size along the dimension; 1 if it has fewer dimensions."""
        return value.shape[self._dim] if len(value.shape) >= -self._dim else 1
