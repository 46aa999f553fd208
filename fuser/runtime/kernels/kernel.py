"""A compiled kernel, whatever it was compiled for."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from fuser.codegen import Argument, KernelSource, Pointer, Scalar, Size, Workspace
from fuser.ir.dtypes import DataType

if TYPE_CHECKING:
    CNumber: TypeAlias = ctypes._SimpleCData[Any] | ctypes.Structure  # pyright: ignore[reportPrivateUsage]

Launcher = Callable[..., None]
"""Called with one number for each argument, in order: addresses, scalars, sizes."""


class _Parts(ctypes.Structure):
    """A complex number, made of one of Python's."""

    def __init__(self, number: complex) -> None:
        super().__init__(number.real, number.imag)


class Complex64(_Parts):
    _fields_ = (("re", ctypes.c_float), ("im", ctypes.c_float))


class Complex128(_Parts):
    _fields_ = (("re", ctypes.c_double), ("im", ctypes.c_double))


_C_TYPES: dict[DataType, type] = {
    DataType.Double: ctypes.c_double,
    DataType.Float: ctypes.c_float,
    DataType.Int: ctypes.c_int64,
    DataType.Int32: ctypes.c_int32,
    DataType.Int16: ctypes.c_int16,
    DataType.Int8: ctypes.c_int8,
    DataType.UInt64: ctypes.c_uint64,
    DataType.UInt8: ctypes.c_uint8,
    DataType.Bool: ctypes.c_bool,
    DataType.ComplexFloat: Complex64,
    DataType.ComplexDouble: Complex128,
}


def c_type(argument: Argument) -> type:
    """The ctypes type of an argument."""
    match argument:
        case Pointer() | Workspace():
            return ctypes.c_void_p
        case Scalar(value):
            return scalar_type(value.dtype)
        case _:
            return _C_TYPES[argument.dtype]


def c_types(source: KernelSource) -> list[type]:
    """The ctypes types of what a kernel is called with; last, where errors go."""
    errors = [ctypes.c_void_p] if source.checks else []
    return [*map(c_type, source.arguments), *errors]


def sizes_of(source: KernelSource) -> tuple[int, ...]:
    """The sizes that a kernel is called with."""
    return tuple(each.number for each in source.arguments if isinstance(each, Size))


def scalar_type(dtype: DataType) -> type:
    """The ctypes type in which a scalar is passed; 16-bit floats travel as float32."""
    return _C_TYPES[dtype.compute]


def as_c(types: Sequence[type], numbers: Sequence[object]) -> list[CNumber]:
    """Arguments as instances of their ctypes types, for launchers that take their addresses."""
    pairs = zip(types, numbers, strict=True)
    return [number if isinstance(number, type_) else type_(number) for type_, number in pairs]  # pyright: ignore[reportReturnType]


def scalar_argument(value: complex, dtype: DataType) -> object:
    """A runtime scalar as a launcher takes it."""
    if dtype.compute is not dtype:
        return torch.tensor(value, dtype=dtype.torch, device="cpu").item()
    # Of NumPy's numbers, those of integers alone are taken for integers.
    return bool(value) if isinstance(value, np.bool_) else value
