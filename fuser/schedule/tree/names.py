"""Names of kernels, and of what stands beside a value in their text."""

from __future__ import annotations

from fuser.ir.printer import operation_name
from fuser.segmenter import Segment


def kernel_name(scheduler: str, segment: Segment) -> str:
    """`pointwise_mul_erf_add`: the scheduler, then what is computed, without repeats."""
    statements = (s for s in segment.fusion.statements if s.outs[0].is_tensor)
    names = dict.fromkeys(operation_name(statement.op) for statement in statements)
    return "_".join([scheduler, *list(names)[:5]])


def lanes_name(name: str) -> str:
    """The array of a value's lanes."""
    return f"{name}_lanes"


def held_name(name: str) -> str:
    """The array that holds a value between phases."""
    return f"{name}_held"


def given_name(name: str) -> str:
    """The array of what a call that makes a value is given."""
    return f"{name}_given"


def own_name(name: str, number: int = 0) -> str:
    """What one row, or one of several parts of it, makes of a fold."""
    return f"{name}_own{number or ''}"


def block_name(name: str) -> str:
    """What a thread has of a fold since it was last joined to a wider type."""
    return f"{name}_block"


def joined_name(name: str, operation: str) -> str:
    """What the lanes of a value come to."""
    return f"{name}_{operation}"
