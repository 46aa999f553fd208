"""Literals of a fusion."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.ir.values import Number


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A literal. Equality is by dtype and bits, so NaN equals itself and -0.0 differs from 0.0.

    One that `is_size` follows from the sizes of a call: kernel text has a parameter in its place.
    """

    value: Number
    dtype: DataType
    is_size: bool = False

    def _key(self) -> tuple[DataType, bytes | int, bool]:
        if isinstance(self.value, int):
            return self.dtype, int(self.value), self.is_size
        number = complex(self.value)
        return self.dtype, struct.pack("dd", number.real, number.imag), self.is_size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())
