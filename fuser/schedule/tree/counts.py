"""Numbers of points, of elements and of instructions."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fuser.ir.pointwise import COSTLY, KERNEL_TABLE
from fuser.schedule.indices.index import Axis
from fuser.schedule.tree.expressions import Call
from fuser.schedule.tree.statements import Let, Load


def point_count(axes: Iterable[Axis]) -> int:
    """How many points axes have."""
    return math.prod(axis.extent for axis in axes)


def power_of_two(count: int) -> int:
    """The smallest that is not below `count`."""
    return 1 << max(count - 1, 0).bit_length()


def ceil_div(count: int, size: int) -> int:
    """How many times `size` it takes for `count`."""
    return -(-count // size)


def inverse_of(divisor: int) -> tuple[int, int]:
    """A factor and a shift, with which n // divisor is n * factor >> shift for all n below 2^31;
    the factor is below 2^32. Source: T. Granlund, P. Montgomery, Division by invariant integers
    using multiplication, 1994."""
    shift = 31 + (divisor - 1).bit_length()
    return ceil_div(1 << shift, divisor), shift


def arithmetic(nodes: Iterable[object]) -> int:
    """Instructions that nodes, or what folds join, take at one point to compute and draw with,
    roughly: not what they move."""
    total = 0
    for node in nodes:
        match node:
            case Let(expression=Call(op)) | Call(op):
                total += KERNEL_TABLE[op].cost
            case Load(drawn=drawn) if drawn:
                total += drawn.cost
            case _:
                pass
    return total


def costly_arithmetic(nodes: Iterable[object]) -> int:
    """Those of costly functions alone, which are code of many lines."""
    costs = (arithmetic([node]) for node in nodes)
    return sum(cost for cost in costs if cost >= COSTLY)
