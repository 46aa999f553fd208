"""Where an operation reads: coordinates of a result -> coordinates of its operands, and back.

pull:  result of permute(x, [1, 0]) at (i, j)   reads x at (j, i)
push:  x at (i, j)                              is the result's element (j, i)

A pad or a concatenation reads what it may not need: outside of an operand, its nearest element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Cat,
    CheckIndex,
    Expand,
    Flip,
    Operation,
    Pad,
    Permute,
    Pointwise,
    Scan,
    Slice,
    Squeeze,
    Statement,
    StrideOrder,
    Value,
    View,
    operands,
    static,
)
from fuser.ir.shapes import row_major_strides
from fuser.schedule.indices.index import ZERO, Index, clamp, linear, unravel

Coordinates = tuple[Index, ...]


def pull(statement: Statement, at: Coordinates) -> list[tuple[Value, Coordinates]]:
    """For each tensor operand, the coordinates it is read at to make the result's element `at`."""
    op = statement.op
    if isinstance(op, Cat):
        return [(part.value, part.at) for part in cat_parts(op, at)]
    return [(value, _pull(op, value, at)) for value in operands(op) if value.is_tensor]


@dataclass(frozen=True, slots=True)
class Part:
    """An operand of a concatenation, read at `at`; its elements begin at `start`."""

    value: Value
    start: int
    at: Coordinates


def cat_parts(op: Cat, at: Coordinates) -> list[Part]:
    """The operands in which the element `at` of a concatenation may lie."""
    low, high = at[op.dim].bounds()
    parts: list[Part] = []
    start = 0
    for value in op.args:
        extent = value.shape[op.dim]
        if extent and low < start + extent and high >= start:
            along = clamp(at[op.dim] + Index(-start), extent)
            place = (*at[: op.dim], along, *at[op.dim + 1 :])
            parts.append(Part(value, start, place))
        start += extent
    return parts


def push(statement: Statement, operand: Value, at: Coordinates) -> Coordinates | None:
    """The result's element that reads `operand` at `at`; None unless there is exactly one."""
    op, shape = statement.op, statement.out.shape
    match op:
        case _ if math.prod(operand.shape) != math.prod(shape):
            return None
        case Pointwise() | Cast() | StrideOrder() | CheckIndex() | Expand() | Scan():
            return (ZERO,) * (len(shape) - len(at)) + at
        case View():
            return unravel(linear(at, row_major_strides(operand.shape)), shape)
        case Permute():
            return tuple(at[dim] for dim in op.dims)
        case Broadcast():
            kept = iter(at)
            return tuple(ZERO if new else next(kept) for new in op.is_broadcast)
        case Squeeze():
            return tuple(index for dim, index in enumerate(at) if dim not in op.dims)
        case Slice():
            return at  # it has every element, so each is in its place
        case Flip():
            return _flipped(op, shape, at)
        case _:
            return None


def _pull(op: Operation, operand: Value, at: Coordinates) -> Coordinates:
    match op:
        case Pointwise() | Cast() | StrideOrder() | CheckIndex() | Expand() | Scan():
            return shrunk(at[len(at) - len(operand.shape) :], operand.shape)
        case View():
            strides = row_major_strides(tuple(op.shape))  # pyright: ignore[reportArgumentType]
            return unravel(linear(at, strides), operand.shape)
        case Permute():
            return tuple(at[op.dims.index(dim)] for dim in range(len(op.dims)))
        case Broadcast():
            pairs = zip(op.is_broadcast, at, strict=True)
            return tuple(index for new, index in pairs if not new)
        case Squeeze():
            kept = iter(at)
            return tuple(
                ZERO if dim in op.dims else next(kept) for dim in range(len(operand.shape))
            )
        case Slice():
            spans = zip(at, static(op.starts), static(op.steps), strict=True)
            return tuple(index * step + Index(start) for index, start, step in spans)
        case Flip():
            return _flipped(op, operand.shape, at)
        case Pad():
            befores = static(before for before, _ in op.widths)
            pairs = zip(at, befores, strict=True)
            shifted = (index + Index(-before) for index, before in pairs)
            return tuple(map(clamp, shifted, operand.shape))
        case _:
            raise AssertionError(f"{type(op).__name__} does not run in a kernel")


def shrunk(at: Coordinates, shape: tuple[int, ...]) -> Coordinates:
    """Coordinates in a tensor whose dimensions of one element stand for all."""
    return tuple(ZERO if size == 1 else index for size, index in zip(shape, at, strict=True))


def _flipped(op: Flip, shape: tuple[int, ...], at: Coordinates) -> Coordinates:
    return tuple(
        Index(size - 1) + index * -1 if dim in op.dims else index
        for dim, (size, index) in enumerate(zip(shape, at, strict=True))
    )
