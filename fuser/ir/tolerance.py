"""How far two correct implementations of an operation may differ."""

from __future__ import annotations

import math

from fuser.ir.dtypes import DataType

_UNITS = 8.0
"""Roundings that one operation may be off by: the device libraries' bounds are below this."""

_EPSILON = {
    DataType.Double: 2.0**-52,
    DataType.Float: 2.0**-23,
    DataType.Half: 2.0**-10,
    DataType.BFloat16: 2.0**-7,
}


def tolerance(dtype: DataType, reduction_length: int = 1) -> tuple[float, float]:
    """(relative, absolute) difference to allow in results of `dtype`; (0, 0) for integers and bool.

    Rounding errors of a sum of n terms in any order grow like the square root of n, as they are
    independent. 16-bit results are computed in float32 and rounded once. The absolute part is for
    results that cancel, and assumes numbers of size about 1 per summand.
    """
    real = dtype.real
    if real not in _EPSILON:
        return 0.0, 0.0
    computed = _UNITS * math.sqrt(max(reduction_length, 1)) * _EPSILON[real.compute]
    rounded = 0.0 if real.compute is real else _EPSILON[real]
    return computed + rounded, (computed + rounded) * math.sqrt(max(reduction_length, 1))
