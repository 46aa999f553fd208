"""How the types of a pointwise operation's operands combine: the rules its row may name.

arithmetic    Int, Half [4]     computed in Float, a Float
floating      Int [4]           computed in Float, a Float
comparison    Int, Double [4]   compared in Double, a Bool
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fuser.ir import dtypes
from fuser.ir.dtypes import DataType


@dataclass(frozen=True, slots=True)
class Signature:
    """What operands are converted to before the operation, and the type of its result."""

    args: tuple[DataType, ...]
    result: DataType


@dataclass(frozen=True, slots=True)
class Operand:
    """What promotion needs to know of an operand; `rank` is None for a scalar."""

    dtype: DataType
    rank: int | None


Rule = Callable[[tuple[Operand, ...]], Signature]


def common_dtype(operands: tuple[Operand, ...]) -> DataType:
    """torch's promotion of tensors, 0-dim tensors and scalars, before any widening."""
    return dtypes.promote(
        [o.dtype for o in operands if o.rank],
        [o.dtype for o in operands if o.rank == 0],
        [o.dtype for o in operands if o.rank is None],
    )


def arithmetic(operands: tuple[Operand, ...]) -> Signature:
    """Compute and stay in the common type; 16-bit floats become float32."""
    common = common_dtype(operands).compute
    return Signature((common,) * len(operands), common)


def floating(operands: tuple[Operand, ...]) -> Signature:
    """As arithmetic, with integers and bool promoted to float32."""
    common = dtypes.floating(common_dtype(operands)).compute
    return Signature((common,) * len(operands), common)


def comparison(operands: tuple[Operand, ...]) -> Signature:
    """Compare in the common type; the result is Bool."""
    common = common_dtype(operands).compute
    return Signature((common,) * len(operands), DataType.Bool)


def predicate(operands: tuple[Operand, ...]) -> Signature:
    """Each operand in its own type; the result is Bool."""
    return Signature(tuple(o.dtype.compute for o in operands), DataType.Bool)


def identity(operands: tuple[Operand, ...]) -> Signature:
    """The operand's own type, narrow floats included: a copy does no arithmetic."""
    return Signature((operands[0].dtype,), operands[0].dtype)


def magnitude(operands: tuple[Operand, ...]) -> Signature:
    """As arithmetic, but a complex operand gives its real type."""
    common = operands[0].dtype.compute
    return Signature((common,), common.real)


def real_part(operands: tuple[Operand, ...]) -> Signature:
    """As magnitude for a complex operand; a real one is copied."""
    return magnitude(operands) if operands[0].dtype.is_complex else identity(operands)


def selection(operands: tuple[Operand, ...]) -> Signature:
    """where: a Bool condition, then the branches in their common type, narrow floats included;
    two scalars keep theirs, so that a choice of two Doubles is a Double."""
    common = common_dtype(operands[1:])
    return Signature((DataType.Bool, common, common), common)


def complex_parts(operands: tuple[Operand, ...]) -> Signature:
    """complex(real, imag): floating parts, the complex type they make."""
    part = dtypes.floating(common_dtype(operands)).compute
    return Signature((part, part), dtypes.complex_of(part))


def bit_pattern(operands: tuple[Operand, ...]) -> Signature:
    """The bits of a float as an integer of its size; 16-bit floats are read as float32."""
    of = operands[0].dtype.compute
    if operands[0].dtype.is_byte_float:
        return Signature((operands[0].dtype,), DataType.UInt8)
    return Signature((of,), DataType.Int32 if of is DataType.Float else DataType.Int)


def float_of_bits(operands: tuple[Operand, ...]) -> Signature:
    """The float32 of 32 bits."""
    assert len(operands) == 1
    return Signature((DataType.Int32,), DataType.Float)


def double_of_bits(operands: tuple[Operand, ...]) -> Signature:
    """The float64 of 64 bits."""
    assert len(operands) == 1
    return Signature((DataType.Int,), DataType.Double)


def packing(operands: tuple[Operand, ...]) -> Signature:
    """float4_pair(low, high): two 4-bit floats in a byte."""
    assert len(operands) == 2
    return Signature((DataType.Float4_e2m1fn,) * 2, DataType.Float4_e2m1fn_x2)


def unpacking(operands: tuple[Operand, ...]) -> Signature:
    """One of the two 4-bit floats in a byte."""
    return Signature((operands[0].dtype,), DataType.Float4_e2m1fn)
