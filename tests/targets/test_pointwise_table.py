"""Every row of the pointwise table, for every dtype it accepts, on every target, is what torch
computes: on special values and on random ones."""

import itertools
import math

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.ir.builder import FusionBuilder
from fuser.ir.dtypes import Category, from_torch
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Pointwise
from fuser.ir.pointwise import TABLE, PointwiseOp, letter
from fuser.ir.tolerance import tolerance
from fuser.ir.types import TensorType, row_major_order
from fuser.pipeline import Executor

TARGETS = ("cpu", "emulator")
LENGTH = 499
"""Elements: odd, so that the last vector is not whole."""

FLOATS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -2.5, 2.0, 3.0, -3.0, 7.25, 20.0, -20.0, 1e-3, 1e-30]
LIMITS = [math.inf, -math.inf, math.nan]
INTEGERS = [0, 1, -1, 2, -2, 3, 7, -7, 31, 63, 100]

EXTREME = {
    DataType.Double: [1e-310, 1e300, -1e300, 700.0, -700.0, 1e15],
    DataType.Float: [1e-40, 3e38, -3e38, 88.0, -88.0, 1e7],
    DataType.Half: [6e-8, 65504.0, -65504.0, 11.0, -11.0, 1000.0],
    DataType.BFloat16: [1e-39, 3e38, -3e38, 88.0, -88.0, 1e7],
}


def special(dtype: DataType) -> list[complex]:
    """Values at which implementations go wrong."""
    match dtype.category:
        case Category.BOOL:
            return [False, True]
        case Category.INTEGER:
            limits = torch.iinfo(dtype.torch)
            return [v for v in INTEGERS if limits.min <= v] + [limits.min, limits.max]
        case Category.FLOAT:
            return FLOATS + LIMITS + EXTREME[dtype]
        case Category.COMPLEX:
            parts = [0.0, -0.0, 0.5, -1.0, 2.0, -3.5]
            return [complex(a, b) for a, b in itertools.product(parts, parts)]


def operand(dtype: DataType, position: int, generator: torch.Generator) -> torch.Tensor:
    """Special values, in another order for each operand so that all pairs meet, then random."""
    values = special(dtype)
    repeated = [
        values[(index // len(values) ** position) % len(values)] for index in range(LENGTH)
    ]
    tensor = torch.tensor(repeated, dtype=dtype.torch)
    start = min(LENGTH - 150, len(values) ** 2)
    drawn = torch.randn(LENGTH - start, dtype=torch.complex128, generator=generator) * 2
    if not dtype.is_complex:
        drawn = drawn.real * (1 if dtype.is_floating else 20)
    if dtype is DataType.UInt8:
        drawn = drawn.abs()
    tensor[start:] = drawn.to(dtype.torch) if dtype is not DataType.Bool else drawn > 0
    return tensor


def fusion_of(rows: list[PointwiseOp], dtype: DataType) -> Fusion:
    """One fusion with an output for each row; its inputs are as many operands as any row has."""
    type_ = TensorType(dtype, (-1,), None)
    builder = FusionBuilder()
    operands = [builder.input(type_) for _ in range(4)]
    condition = builder.input(TensorType(DataType.Bool, (-1,), None))
    for row in rows:
        args = operands[: row.arity]
        if row.name == "where":
            args = [condition, *operands[:2]]
        builder.output(builder.add(Pointwise(row.name, tuple(args)))[0])
    return builder.fusion


def accepted(dtype: DataType) -> list[PointwiseOp]:
    return [row for row in TABLE.values() if letter(dtype) in row.accepts]
