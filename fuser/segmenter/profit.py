"""What a kernel costs, in bytes of device memory; a merge's profit is what it saves of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fuser.ir.nodes import Operation, Pointwise, Value
from fuser.ir.pointwise import TABLE
from fuser.ir.strided import Strided, bytes_moved, row_major

LAUNCH_BYTES = 8 << 20
"""A kernel launch in bytes: about 2 microseconds of a memory that moves 4 TB/s."""

OPERATIONS_PER_BYTE = 8
"""Arithmetic a processor does while it moves one byte (an H200: 60 Tflop/s at 4.3 TB/s, less
what address arithmetic takes)."""


def kernel_cost(
    loads: Iterable[Value],
    stores: Iterable[Value],
    arithmetic: Mapping[int, int],
    memory: Mapping[Value, Strided],
) -> int:
    """The cost, in bytes, of one kernel: what it moves, its launch, arithmetic it repeats.

    `arithmetic` is the cost of operations by the number of elements they make. Values that
    `memory` does not place yet count as buffers of their own.
    """
    stored = list(stores)
    moved = _traffic(loads, memory) + _traffic(stored, memory)
    return moved + LAUNCH_BYTES + _repeated_arithmetic(arithmetic, stored)


def operation_cost(op: Operation) -> int:
    """Instructions for one element, roughly."""
    return TABLE[op.op].cost if isinstance(op, Pointwise) else 1


def _traffic(values: Iterable[Value], memory: Mapping[Value, Strided]) -> int:
    """Bytes moved when each buffer is moved once."""
    return bytes_moved(memory.get(value) or row_major(value) for value in values)


def _repeated_arithmetic(arithmetic: Mapping[int, int], stores: list[Value]) -> int:
    """Bytes' worth of arithmetic repeated where a small value is computed per domain element."""
    domain = max((value.elements for value in stores), default=0)
    repeated = sum(cost * max(0, domain - elements) for elements, cost in arithmetic.items())
    return repeated // OPERATIONS_PER_BYTE
