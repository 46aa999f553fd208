"""Element types: nvFuser's names, torch's, their spelling in C, and how they promote."""

from __future__ import annotations

import math
from enum import Enum, EnumType, nonmember, unique

import torch

from fuser.errors import UnknownDataTypeError


class _Names(EnumType):
    """Says of a name that is no member what to do instead."""

    def __getattr__(cls, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in cls.__members__:  # older Pythons look for members here
            return cls.__members__[name]
        hint = f"it is one of {', '.join(cls.__members__)}"
        raise UnknownDataTypeError(name=name, hint=f"; {hint}")


@unique
class Category(Enum):
    """Promotion categories, weakest first, as torch orders them."""

    BOOL = 0
    INTEGER = 1
    FLOAT = 2
    COMPLEX = 3


class DataType(Enum, metaclass=_Names):
    """The element type of a tensor or scalar, by nvFuser's name.

    The value is (torch dtype, spelling in generated code). `Char`, `Short` and `Byte` are nvFuser's
    C++ names for `Int8`, `Int16` and `UInt8` and are the same members, as is `Index`, its type of
    sizes, of `Int`. `Null` is None: what older scripts pass for no dtype.

    `Float4_e2m1fn_x2` is two 4-bit floats in a byte, the first in its lower half: what memory and
    torch have. `Float4_e2m1fn` is one of them inside a fusion, where it has a byte of its own, that
    of the `Float8_e4m3fn` of the same value.
    """

    Double = (torch.float64, "double")
    Float = (torch.float32, "float")
    Half = (torch.float16, "half")
    BFloat16 = (torch.bfloat16, "bfloat16")
    Float8_e4m3fn = (torch.float8_e4m3fn, "float8_e4m3fn")
    Float8_e5m2 = (torch.float8_e5m2, "float8_e5m2")
    Float8_e8m0fnu = (torch.float8_e8m0fnu, "float8_e8m0fnu")
    Float4_e2m1fn = (torch.float8_e4m3fn, "float4_e2m1fn")
    Float4_e2m1fn_x2 = (torch.float4_e2m1fn_x2, "float4_e2m1fn_x2")
    Int = (torch.int64, "int64")
    Int32 = (torch.int32, "int32")
    Int16 = (torch.int16, "int16")
    Int8 = (torch.int8, "int8")
    UInt64 = (torch.uint64, "uint64")
    UInt8 = (torch.uint8, "uint8")
    Bool = (torch.bool, "bool")
    ComplexFloat = (torch.complex64, "complex64")
    ComplexDouble = (torch.complex128, "complex128")
    Short = Int16
    Char = Int8
    Byte = UInt8
    Index = Int
    Null = nonmember(None)

    def __init__(self, of_torch: torch.dtype, spelling: str) -> None:
        self.torch = of_torch
        self.spelling = spelling
        """The type's name in generated code; each target's device library defines it."""
        self.itemsize = of_torch.itemsize
        """Bytes per element."""

    def __repr__(self) -> str:
        return f"DataType.{self.name}"

    __hash__ = object.__hash__  # planning asks often, and each member is there once

    @property
    def epsilon(self) -> float:
        """The step from 1 to the next number of a floating type, as torch has it."""
        return 0.5 if self.is_float4 else torch.finfo(self.torch).eps

    @property
    def category(self) -> Category:
        return _CATEGORY[self]

    @property
    def is_floating(self) -> bool:
        return self.category is Category.FLOAT

    @property
    def is_float4(self) -> bool:
        """A 4-bit float, or two."""
        return self in (DataType.Float4_e2m1fn, DataType.Float4_e2m1fn_x2)

    @property
    def is_byte_float(self) -> bool:
        """A float of 8 or 4 bits, or two of the latter."""
        return self.is_floating and self.itemsize == 1

    @property
    def is_only_kept(self) -> bool:
        """Floats of 8 and 4 bits and UInt64: kept, moved and converted, but nothing is computed in
        them.

        torch computes little in them: of UInt64 it neither adds numbers nor orders them.
        """
        return self.is_byte_float or self is DataType.UInt64

    @property
    def is_complex(self) -> bool:
        return self.category is Category.COMPLEX

    @property
    def is_integral(self) -> bool:
        """Integers and bool."""
        return self.category in (Category.INTEGER, Category.BOOL)

    @property
    def compute(self) -> DataType:
        """The type arithmetic runs in: 16-bit floats compute, and stay, in float32.

        What a float of 8 or 4 bits is converted to, or from, is float32 too.
        """
        return DataType.Float if self.is_floating and self.itemsize < 4 else self

    @property
    def real(self) -> DataType:
        """The type of the absolute value or real part."""
        return _REAL_OF.get(self, self)


_REAL_OF = {DataType.ComplexFloat: DataType.Float, DataType.ComplexDouble: DataType.Double}
_COMPLEX_OF = {real: complex_ for complex_, real in _REAL_OF.items()}


def _category(dtype: DataType) -> Category:
    if dtype is DataType.Bool:
        return Category.BOOL
    if dtype.torch.is_complex:
        return Category.COMPLEX
    return Category.FLOAT if dtype.torch.is_floating_point else Category.INTEGER


NUMBERS = tuple(dtype for dtype in DataType if dtype is not DataType.Float4_e2m1fn_x2)
"""The types whose elements are one number each, which all others convert to."""

_CATEGORY = {dtype: _category(dtype) for dtype in DataType}
_FROM_TORCH = {dtype.torch: dtype for dtype in DataType if dtype is not DataType.Float4_e2m1fn}


def from_torch(dtype: torch.dtype) -> DataType | None:
    """The DataType of a torch dtype, or None where there is none (uint16, quantized, ...)."""
    return _FROM_TORCH.get(dtype)


def complex_of(dtype: DataType) -> DataType:
    """The complex type whose parts are `dtype`."""
    return _COMPLEX_OF.get(dtype.compute, DataType.ComplexFloat)


def of_literal(value: bool | int | float | complex) -> DataType:
    """The dtype of a Python literal: Bool, Int, Double or ComplexDouble."""
    if isinstance(value, bool):
        return DataType.Bool
    if isinstance(value, int):
        return DataType.Int
    if isinstance(value, float):
        return DataType.Double
    return DataType.ComplexDouble


def holds(dtype: DataType, number: int) -> bool:
    """Whether an integer type's range has `number`."""
    limits = torch.iinfo(dtype.torch)
    return limits.min <= number <= limits.max


def takes(dtype: DataType, number: float) -> bool:
    """Whether torch makes a number an element of an integer type: its whole part, if that fits;
    unsigned types take negative numbers modulo their range."""
    limits = torch.iinfo(dtype.torch)
    return math.isfinite(number) and (limits.min or -limits.max) <= int(number) <= limits.max


def floating(dtype: DataType) -> DataType:
    """`dtype` if it is floating or complex, else the default floating type, float32."""
    return DataType.Float if dtype.is_integral else dtype


def promote(tensors: list[DataType], zero_dim: list[DataType], scalars: list[DataType]) -> DataType:
    """The common dtype of operands, by torch's rule.

    Dimensioned tensors outrank 0-dim tensors, which outrank scalars: a weaker group matters only
    when its category (bool < integer < float < complex) is higher. Scalars bring their category,
    at torch's default width, when they win against a tensor.
    """
    groups = [_join(group) for group in (tensors, zero_dim) if group]
    if scalars:
        scalar = _join(scalars)
        groups.append(default_width(scalar) if groups else scalar)
    result = groups[0]
    for weaker in groups[1:]:
        if weaker.category.value > result.category.value:
            result = complex_of(result) if weaker.is_complex and result.is_floating else weaker
    return result


def _join(group: list[DataType]) -> DataType:
    result = group[0]
    for dtype in group[1:]:
        if dtype is not result:
            result = _FROM_TORCH[torch.promote_types(result.torch, dtype.torch)]
    return result


def default_width(dtype: DataType) -> DataType:
    """What a scalar of `dtype` makes of a tensor: float32 and complex64 where it is wider."""
    if dtype.is_complex:
        return DataType.ComplexFloat
    return DataType.Float if dtype.is_floating else dtype
