"""4-bit floats in a definition: one by one where operations read them, in pairs in memory.

Memory, and torch, have two in a byte (`Float4_e2m1fn_x2`); a fusion's operations have one in a byte
(`Float4_e2m1fn`), along a dimension of twice the size:

    pairs [m, n]  --apart-->  floats [m, 2 n]        pairs [m, n]  <--paired--  floats [m, 2 n]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from fuser.errors import ArgumentError
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Broadcast,
    Cat,
    Constant,
    Extent,
    Operation,
    Pointwise,
    SizeOf,
    Slice,
    Value,
    View,
)
from fuser.ir.types import DYNAMIC, TensorType

PAIRED_ROWS = ("float4_low", "float4_high")
"""Rows of the pointwise table that read pairs."""


def fastest_dim(type_: TensorType) -> int:
    """The dimension along which pairs lie in memory: of what is computed, the last one."""
    return len(type_.shape) - 1 if type_.layout is None else type_.layout.stride_order.index(0)


def pair_type(operation: str, type_: TensorType) -> TensorType:
    """The type of the pairs that an input of 4-bit floats has. Raises ArgumentError."""
    shape = list(type_.shape)
    if not shape:
        got, expected = "0-dim", "4-bit floats lie in pairs along a dimension"
        raise ArgumentError(operation, "shape", got, expected)
    dim = fastest_dim(type_)
    if shape[dim] != DYNAMIC:
        if shape[dim] % 2:
            expected = f"dimension {dim} must be even: 4-bit floats lie in pairs along it"
            raise ArgumentError(operation, "shape", list(type_.shape), expected)
        shape[dim] //= 2
    return dataclasses.replace(type_, dtype=DataType.Float4_e2m1fn_x2, shape=tuple(shape))


class FourBits:
    """The pairs of a definition and the floats that they are, each made when first asked for.

    `add` appends an operation and returns its results.
    """

    def __init__(self, add: Callable[[Operation], tuple[Value, ...]]) -> None:
        self._add = add
        self._dims: dict[Value, int] = {}
        """Along which dimension the floats of pairs lie, where that is known: of what a script has
        paired by itself, they lie as they are read."""
        self._apart: dict[Value, Value] = {}
        self._paired: dict[tuple[Value, int], Value] = {}

    def put(self, pairs: Value, dim: int) -> None:
        """Note along which dimension the floats of pairs lie."""
        self._dims[pairs] = dim

    def dim(self, pairs: Value) -> int:
        """Along which dimension the floats of pairs lie, or are taken to."""
        return self._dims.get(pairs, len(pairs.shape) - 1)

    def apart(self, value: Value) -> Value:
        """The floats of pairs; any other value as it is."""
        if value.dtype is not DataType.Float4_e2m1fn_x2:
            return value
        if value not in self._apart:
            dim = self.dim(value)
            found = self._made_apart(value, dim)
            self._apart[value], self._paired[found, dim] = found, value
        return self._apart[value]

    def stored(self, value: Value, dim: int | None) -> Value:
        """The pairs of 4-bit floats along a dimension; of None, as they are, or along the last."""
        are_pairs = value.dtype is DataType.Float4_e2m1fn_x2
        if are_pairs and (dim is None or self._dims.get(value, dim) == dim):
            return value
        floats = self.apart(value)
        along = len(floats.shape) - 1 if dim is None else dim
        if (floats, along) not in self._paired:
            found = self._made_pairs(floats, along)
            self.put(found, along)
            self._paired[floats, along] = found
        return self._paired[floats, along]

    def _made_apart(self, pairs: Value, dim: int) -> Value:
        new = tuple(number == dim + 1 for number in range(len(pairs.shape) + 1))
        halves = [self._new(Pointwise(row, (pairs,))) for row in PAIRED_ROWS]
        joined = self._new(Cat(tuple(self._new(Broadcast(half, new)) for half in halves), dim + 1))
        shape = [self._extent(halves[0], number) for number in range(len(pairs.shape))]
        shape[dim] = self._doubled(shape[dim])
        return self._new(View(joined, tuple(shape)))

    def _made_pairs(self, value: Value, dim: int) -> Value:
        size = value.shape[dim]
        if size != DYNAMIC and size % 2:
            expected = f"expected an even size of dimension {dim}: 4-bit floats lie in pairs"
            raise ArgumentError("float4_pair", value.name, list(value.shape), expected)
        ends = tuple(self._extent(value, number) for number in range(len(value.shape)))
        steps = tuple(2 if number == dim else 1 for number in range(len(ends)))
        low, high = (
            self._new(Slice(value, tuple(first * (step - 1) for step in steps), ends, steps))
            for first in range(2)
        )
        return self._new(Pointwise("float4_pair", (low, high)))

    def _doubled(self, size: Extent) -> Extent:
        if isinstance(size, int):
            return 2 * size
        return self._new(Pointwise("mul", (size, self._new(Constant(2, DataType.Int)))))

    def _extent(self, value: Value, dim: int) -> Extent:
        size = value.shape[dim]
        return self._new(SizeOf(value, dim)) if size == DYNAMIC else size

    def _new(self, op: Operation) -> Value:
        (value,) = self._add(op)
        return value
