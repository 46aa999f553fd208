"""Integers of 64 bits that are known to have 32 are made in 32 bits.

T2 = fd.ops.cast(T1, dtype=DataType.Int)              T1: Float, 0 to 383.5
T3 = fd.ops.add(T2, S1)                               S1: 1
T4 = fd.ops.index_select(T0, T3, dim=2)               T0: 512 columns
->
T5 = fd.ops.cast(T1, dtype=DataType.Int32)
T6 = fd.ops.add(T5, S2)                               S2: 1, Int32
T4 = fd.ops.index_select(T0, T6, dim=2)

Vectors hold twice as many, processors convert floats to them at once, and GPUs compute with 64 bits
in parts. It is done where something reads 32 bits, or nothing 64; what does reads a conversion.
What is linear in coordinates stays as it is: kernels know it as an index. So do its sums with
others that are compared for equality: kernels compare the others with a difference of indices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

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
from fuser.ir.pointwise import COMPARISONS, EQUALITIES
from fuser.passes.bounds import KnownBounds
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


def narrow_integers(fusion: Fusion) -> Fusion:
    """`fusion` with such integers in 32 bits."""
    made_wide = (out for s in fusion.statements for out in s.outs if out.dtype is DataType.Int)
    if not any(out.is_tensor for out in made_wide):
        return fusion
    of_32_bits = _of_32_bits(fusion)
    made: dict[Value, Value] = {}

    def rule(statement: Statement, emit: Emitter) -> Operation | Value | None:
        op, out = statement.op, statement.outs[0]
        # What a rewrite adds is not there where it would have changed the strides of an output.
        short = {value: made[value] for value in operands(op) if value in made}
        short = {value: by for value, by in short.items() if emit.producer(by) is not None}
        if out in of_32_bits and out.dtype is DataType.Int:
            made[out] = emit.add(_in_32_bits(op, short, emit))
            return emit.add(Cast(made[out], DataType.Int))
        if short and out in of_32_bits:
            return _in_32_bits(op, short, emit)
        for value in _wide_operands(op):
            short.pop(value, None)
        return map_operands(op, lambda value: short.get(value, value)) if short else None

    return rewrite(fusion, rule)


def _in_32_bits(op: Operation, short: Mapping[Value, Value], emit: Emitter) -> Operation:
    """An operation on what stands for operands in 32 bits, and on others converted to those."""

    def converted(value: Value, dtype: DataType) -> Value:
        if value in short or dtype is not DataType.Int:
            return short.get(value, value)
        if value.is_tensor:
            return emit.cast(value, DataType.Int32)
        return converted_scalar(value, DataType.Int32, emit)

    match op:
        case Pointwise(args=args):
            pairs = zip(args, signature(op).args, strict=True)
            return dataclasses.replace(op, args=tuple(converted(*pair) for pair in pairs))
        case Cast():
            return dataclasses.replace(op, dtype=DataType.Int32)
        case _:
            return map_operands(op, lambda value: converted(value, value.dtype))


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


def _of_32_bits(fusion: Fusion) -> set[Value]:
    """What is made of numbers in 32 bits: such numbers, if they are read so or at least not in 64,
    and comparisons."""
    known = _Known(fusion)
    made, equated = set[Value](), set[Value]()
    wide, narrow = set(fusion.output_values), set[Value]()
    for statement in reversed(fusion.statements):
        op, out = statement.op, statement.outs[0]
        read = list(_wide_operands(op))
        adds = out in equated and _adds(op)
        if adds or (isinstance(op, Pointwise) and op.op in EQUALITIES):
            equated.update(read)
        keeps = known.is_linear(out) or (adds and any(map(known.is_place, read)))
        is_narrow = _can_be_narrow(op, out) and known.fits(out) and not keeps
        is_wanted = out in narrow or out not in wide
        if (_compares(op) or (is_narrow and is_wanted)) and all(map(known.fits, read)):
            made.add(out)
            narrow.update(operands(op))
        else:
            wide.update(read)
            narrow.update(set(operands(op)).difference(read))
    return made


def _adds(op: Operation) -> bool:
    """Whether an operation makes sums, or moves them."""
    return isinstance(op, MetadataOperation) or (isinstance(op, Pointwise) and op.op in _SUMS)


def _compares(op: Operation) -> bool:
    """Whether an operation compares integers of 64 bits."""
    if not (isinstance(op, Pointwise) and op.op in COMPARISONS):
        return False
    return signature(op).args[0] is DataType.Int


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
