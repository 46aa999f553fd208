"""Integers of 64 bits that are known to have 32 are made in 32 bits.

T2 = fd.ops.cast(T1, dtype=DataType.Int)              T1: Float, 0 to 383.5
T3 = fd.ops.add(T2, S1)                               S1: 1
T4 = fd.ops.index_select(T0, T3, dim=2)               T0: 512 columns
->
T5 = fd.ops.cast(T1, dtype=DataType.Int32)
T6 = fd.ops.add(T5, S2)                               S2: 1, Int32
T4 = fd.ops.index_select(T0, T6, dim=2)

Vectors hold twice as many, processors convert floats to them at once, and GPUs compute with 64 bits
in parts. It is done where nothing reads 64 bits: an output is as wide as it was. What is linear in
coordinates stays as it is, and so do its sums with other numbers that are compared for equality:
kernels know the one as an index, and compare the numbers with what the other side has more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fuser.ir.dtypes import DataType
from fuser.ir.infer import signature
from fuser.ir.nodes import (
    Cast,
    Fusion,
    Gather,
    MetadataOperation,
    Operation,
    Pointwise,
    Statement,
    Value,
    map_operands,
    operands,
)
from fuser.passes.bounds import KnownBounds
from fuser.passes.compared_values import COMPARISONS
from fuser.passes.constants import converted_scalar
from fuser.passes.ranges import Ranges
from fuser.passes.rewrite import Emitter, rewrite

_LEAST, _LARGEST = -(2**31), 2**31 - 1

_SAME_IN_32_BITS = frozenset(
    (
        *("add", "sub", "mul", "neg", "abs", "relu", "maximum", "minimum", "clamp", "where"),
        *("remainder", "mod", "fmod", "floor_divide", "div", "set"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"),
    )
)
"""Functions of integers that are, where neither operands nor results have more."""

_SUMS = frozenset({"add", "sub", "neg"})
_EQUALITIES = frozenset({"eq", "ne"})


def narrow_integers(fusion: Fusion) -> Fusion:
    """`fusion` with such integers in 32 bits."""
    narrow = _read_in_32_bits(fusion)
    made: dict[Value, Value] = {}

    def in_32_bits(value: Value, dtype: DataType, emit: Emitter) -> Value:
        if value in made or dtype is not DataType.Int:
            return made.get(value, value)
        if value.is_tensor:
            return emit.cast(value, DataType.Int32)
        return converted_scalar(value, DataType.Int32, emit)

    def rule(statement: Statement, emit: Emitter) -> Operation | Value | None:
        op = statement.op
        is_narrow = not narrow.isdisjoint(statement.outs)
        if not is_narrow and made.keys().isdisjoint(operands(op)):
            return None
        if isinstance(op, Pointwise) and (is_narrow or op.op in COMPARISONS):
            pairs = zip(op.args, signature(op).args, strict=True)
            op = dataclasses.replace(op, args=tuple(in_32_bits(*pair, emit) for pair in pairs))
        elif isinstance(op, Cast) and is_narrow:
            op = dataclasses.replace(op, dtype=DataType.Int32)
        else:
            op = map_operands(op, lambda value: made.get(value, value))
        if not is_narrow:
            return op
        made[statement.out] = emit.add(op)
        return emit.add(Cast(made[statement.out], DataType.Int))

    return rewrite(fusion, rule)


class _Known:
    """What is known of a fusion's integers."""

    def __init__(self, fusion: Fusion) -> None:
        self._bounds, self._ranges = KnownBounds(), Ranges()
        for statement in fusion.statements:
            self._bounds.note(statement)
            self._ranges.note(statement)

    def fits(self, value: Value) -> bool:
        """Whether every element has 32 bits."""
        found = self._bounds.of(value)
        return found is not None and found.within(_LEAST, _LARGEST)

    def is_linear(self, value: Value) -> bool:
        """Whether an element is a number that kernels know by its place."""
        return self._ranges.bounds(value) is not None

    def is_place(self, value: Value) -> bool:
        """Whether that is not the same everywhere."""
        return self.is_linear(value) and self._ranges.number(value) is None


def _read_in_32_bits(fusion: Fusion) -> set[Value]:
    """What can be made in 32 bits, and is read by nothing that needs more."""
    known = _Known(fusion)
    narrow, wide, equated = set[Value](), set(fusion.output_values), set[Value]()
    for statement in reversed(fusion.statements):
        op, out = statement.op, statement.outs[0]
        read = list(_wide_operands(op))
        adds = out in equated and _adds(op)
        if adds or (isinstance(op, Pointwise) and op.op in _EQUALITIES):
            equated.update(read)
        of_32_bits = all(map(known.fits, read))
        keeps = out in wide or known.is_linear(out) or (adds and any(map(known.is_place, read)))
        if of_32_bits and _can_be_narrow(op, out) and known.fits(out) and not keeps:
            narrow.add(out)
        elif not (of_32_bits and isinstance(op, Pointwise) and op.op in COMPARISONS):
            wide.update(read)
    return narrow


def _adds(op: Operation) -> bool:
    """Whether an operation makes sums, or moves them."""
    return isinstance(op, MetadataOperation) or (isinstance(op, Pointwise) and op.op in _SUMS)


def _can_be_narrow(op: Operation, out: Value) -> bool:
    """Whether an operation makes a tensor of integers that may be made in 32 bits."""
    if not out.is_tensor or out.dtype is not DataType.Int:
        return False
    if isinstance(op, Pointwise):
        return op.op in _SAME_IN_32_BITS
    return isinstance(op, Cast | MetadataOperation)


def _wide_operands(op: Operation) -> Iterable[Value]:
    """What an operation reads as integers of 64 bits, or as it is."""
    match op:
        case Pointwise():
            pairs = zip(op.args, signature(op).args, strict=True)
            return [arg for arg, dtype in pairs if dtype is DataType.Int]
        case Gather(in_range=True):
            return [op.arg]
        case Cast():
            return []
        case _:
            return operands(op)
