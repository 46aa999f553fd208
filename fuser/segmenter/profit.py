"""What a kernel costs, in bytes of device memory; a merge's profit is what it saves of that."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from fuser.ir.nodes import Pointwise, Statement, Value
from fuser.ir.pointwise import TABLE
from fuser.ir.strided import Strided

LAUNCH_BYTES = 8 << 20
"""A kernel launch in bytes: about 2 microseconds of a memory that moves 4 TB/s."""

OPERATIONS_PER_BYTE = 8
"""Arithmetic a processor does while it moves one byte (an H200: 60 Tflop/s at 4.3 TB/s, less
what address arithmetic takes)."""


def kernel_cost(
    loads: Iterable[Value],
    stores: Iterable[Value],
    statements: Iterable[Statement],
    memory: Mapping[Value, Strided],
) -> int:
    """The cost, in bytes, of one kernel: what it moves, its launch, arithmetic it repeats.

    Values that `memory` does not place yet count as buffers of their own.
    """
    stored = list(stores)
    moved = _traffic(loads, memory) + _traffic(stored, memory)
    return moved + LAUNCH_BYTES + _repeated_arithmetic(statements, stored)


def _traffic(values: Iterable[Value], memory: Mapping[Value, Strided]) -> int:
    """Bytes moved when each buffer is moved once."""
    moved: dict[Value, int] = {}
    for value in values:
        lies = memory.get(value)
        base = value if lies is None else lies.base
        size = _elements(value) * value.dtype.itemsize if lies is None else lies.bytes_touched
        moved[base] = max(moved.get(base, 0), size)
    return sum(moved.values())


def _repeated_arithmetic(statements: Iterable[Statement], stores: list[Value]) -> int:
    """Bytes' worth of arithmetic repeated where a small value is computed per domain element."""
    domain = max(map(_elements, stores), default=0)
    repeated = sum(_cost(s) * max(0, domain - _elements(s.out)) for s in statements)
    return repeated // OPERATIONS_PER_BYTE


def _elements(value: Value) -> int:
    return math.prod(value.shape)


def _cost(statement: Statement) -> int:
    op = statement.op
    return TABLE[op.op].cost if isinstance(op, Pointwise) else 1
