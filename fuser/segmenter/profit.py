"""What a kernel costs, in bytes of device memory; a merge's profit is what it saves of that.

The machine behind the numbers is an H200: 132 processors, 4.3 TB/s, 60 Tflop/s.
"""

from __future__ import annotations

from fuser.ir.nodes import Iota, Operation, Pointwise, Random
from fuser.ir.pointwise import TABLE
from fuser.ir.random_numbers import COST

LAUNCH_BYTES = 8 << 20
"""A kernel launch in bytes: what the memory moves in about 2 microseconds."""

OPERATIONS_PER_BYTE = 8
"""Arithmetic done while one byte is moved, less what address arithmetic takes."""

HIDDEN = 32
"""How many times less arithmetic counts that is repeated while the memory is waited for."""

BUSY_PROCESSORS = 64
"""Processors that together move what the memory can."""

PROCESSORS_OF_A_ROW = 16
"""Processors of one cluster: those that can share a row which is swept more than once."""


def kernel_cost(moved: int, own: int, repeated: int, rows: int | None = None) -> int:
    """The cost, in bytes, of one kernel: its launch, and the bytes it moves or, if that takes
    longer, the arithmetic it does meanwhile.

    `own` counts instructions that are done once for each element they make, `repeated` those done
    more often: even where these are hidden, they use power and registers. `rows` is given where
    rows are swept more than once: few of them leave most processors idle.
    """
    if rows is not None and 0 < PROCESSORS_OF_A_ROW * rows < BUSY_PROCESSORS:
        moved = moved * BUSY_PROCESSORS // (PROCESSORS_OF_A_ROW * rows)
    arithmetic = (own + repeated) // OPERATIONS_PER_BYTE
    return LAUNCH_BYTES + max(moved, arithmetic) + repeated // (OPERATIONS_PER_BYTE * HIDDEN)


def operation_cost(op: Operation) -> int:
    """Instructions for one element, roughly. A position is a coordinate, which is there anyway."""
    if isinstance(op, Iota):
        return 0
    if isinstance(op, Random):
        return COST[op.distribution]
    return TABLE[op.op].cost if isinstance(op, Pointwise) else 1
