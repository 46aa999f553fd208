"""Numbers with which arithmetic leaves its other operand as it is, to the bit."""

from __future__ import annotations

from fuser.ir.dtypes import Category, DataType
from fuser.ir.values import Number

_ZERO: dict[Category, Number] = {Category.BOOL: False, Category.INTEGER: 0, Category.FLOAT: 0.0}
_ONE: dict[Category, Number] = {Category.BOOL: True, Category.INTEGER: 1, Category.FLOAT: 1.0}
_ZERO_TO_ADD = {**_ZERO, Category.FLOAT: -0.0, Category.COMPLEX: complex(-0.0, -0.0)}


def zero_to_add(dtype: DataType) -> Number:
    """The zero that changes no number it is added to; of floats -0.0, as -0.0 + 0.0 is 0.0."""
    return _ZERO_TO_ADD[dtype.category]


def neutral_number(operation: str, dtype: DataType, position: int = 1) -> Number | None:
    """The number at `position` that leaves the other operand as it is; None if there is none.

    `dtype` is what the operation computes in.
    """
    category = dtype.category
    if category is Category.COMPLEX:
        return None  # torch multiplies, by an alpha too, and adds a multiple of 0 that may be NaN
    match operation:
        case "add":
            return zero_to_add(dtype)
        case "sub" | "bitwise_left_shift" | "bitwise_right_shift" if position == 1:
            return _ZERO[category]
        case "mul":
            return _ONE[category]
        case "div" | "truediv" if position == 1:
            return _ONE[category]
        case "bitwise_or" | "bitwise_xor":
            return _ZERO[category]
        case "bitwise_and" | "logical_and" if category is Category.BOOL:
            return True
        case "logical_or" if category is Category.BOOL:
            return False
        case _:
            return None
