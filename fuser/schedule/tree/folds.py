"""Folds: what joins values two at a time, and what each starts from."""

from __future__ import annotations

import math

import torch

from fuser.ir.dtypes import DataType
from fuser.schedule.tree.expressions import Literal

SCANS = {"cumsum": "add", "cumprod": "mul", "cummax": "maximum", "cummin": "minimum"}
"""For each scan, the pointwise operation that joins a point to those before it."""


def is_extreme(operation: str) -> bool:
    """Whether an operation keeps one of its operands, and so rounds nothing."""
    return operation in ("maximum", "minimum")


def takes_each_once(operation: str) -> bool:
    """Whether a value that is joined twice counts twice, and every one of them matters."""
    return operation in ("add", "mul")


def kept_dtype(operation: str, dtype: DataType) -> DataType:
    """What a long fold or scan is kept in: of float32, float64, so that the error does not grow."""
    exact = is_extreme(operation) or dtype is not DataType.Float
    return dtype if exact else DataType.Double


def neutral(operation: str, dtype: DataType) -> Literal:
    """What a fold starts from: it changes nothing when joined by the fold's operation.

    Of "add" it is 0, not the -0.0 of `zero_to_add`: torch's sum of nothing, or of -0.0 alone, is 0.
    """
    match operation:
        case "add" | "logical_or" | "bitwise_or":
            return Literal(False if dtype is DataType.Bool else 0, dtype)
        case "bitwise_and":
            return Literal(-1, dtype)
        case "mul" | "logical_and":
            return Literal(True if dtype is DataType.Bool else 1, dtype)
        case _:
            return Literal(_extreme(dtype, lowest=operation == "maximum"), dtype)


def lowest_finite(dtype: DataType) -> Literal:
    """The lowest number of a floating-point type."""
    return Literal(torch.finfo(dtype.torch).min, dtype)


def _extreme(dtype: DataType, lowest: bool) -> bool | int | float:
    if dtype is DataType.Bool:
        return not lowest
    if dtype.is_floating:
        return -math.inf if lowest else math.inf
    limits = torch.iinfo(dtype.torch)
    return limits.min if lowest else limits.max
