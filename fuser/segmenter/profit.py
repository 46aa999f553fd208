"""What a kernel costs, in bytes of device memory; a merge's profit is what it saves of that.

The machine behind the numbers is an H200: 132 processors, 4.3 TB/s, 60 Tflop/s.
"""

from __future__ import annotations

from collections.abc import Mapping

from fuser.ir.nodes import Operation, Pointwise
from fuser.ir.pointwise import TABLE

LAUNCH_BYTES = 8 << 20
"""A kernel launch in bytes: what the memory moves in about 2 microseconds."""

OPERATIONS_PER_BYTE = 8
"""Arithmetic done while one byte is moved, less what address arithmetic takes."""

BUSY_PROCESSORS = 64
"""Processors that together move what the memory can."""

PROCESSORS_OF_A_ROW = 16
"""Processors of one cluster: those that can share a row which is swept more than once."""


def kernel_cost(moved: int, instructions: int, rows: int | None = None) -> int:
    """The cost, in bytes, of one kernel: its launch, and the bytes it moves or, if that takes
    longer, the arithmetic it does meanwhile.

    `rows` is given where rows are swept more than once: few of them leave most processors idle.
    """
    if rows is not None and 0 < PROCESSORS_OF_A_ROW * rows < BUSY_PROCESSORS:
        moved = moved * BUSY_PROCESSORS // (PROCESSORS_OF_A_ROW * rows)
    return LAUNCH_BYTES + max(moved, instructions // OPERATIONS_PER_BYTE)


def operation_cost(op: Operation) -> int:
    """Instructions for one element, roughly."""
    return TABLE[op.op].cost if isinstance(op, Pointwise) else 1


def repeated_arithmetic(arithmetic: Mapping[int, int], domain: int) -> int:
    """Instructions done again where values smaller than the domain are computed at every point.

    `arithmetic` is the cost of operations by the number of elements they make. What has one element
    is computed once a thread.
    """
    return sum(
        cost * (domain - elements) for elements, cost in arithmetic.items() if 1 < elements < domain
    )
