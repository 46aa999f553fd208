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


def part_name(name: str) -> str:
    """What a thread has of a fold over the rows."""
    return f"{name}_part"


def block_name(name: str) -> str:
    """What a thread has of a fold since it was last joined to a wider type."""
    return f"{name}_block"


def before_name(name: str) -> str:
    """What a fold had come to before the elements at hand."""
    return f"{name}_before"


def round_name(name: str) -> str:
    """What a few elements at a time add to a fold."""
    return f"{name}_round"


def stored_name(tensor: object) -> str:
    """What rows have of a tensor before it is stored."""
    return f"{tensor}_stored"


def half_name(name: str) -> str:
    """Half of a value."""
    return f"{name}_half"


def rank_name(name: str) -> str:
    """The place of a fold's result in the order of all numbers of its type."""
    return f"{name}_rank"


def first_name(name: str) -> str:
    """A value at the first point of a row."""
    return f"{name}_first"


def taken_name(name: str) -> str:
    """What elements of a row are taken off before they are summed."""
    return f"{name}_taken"


def off_name(name: str) -> str:
    """How far a value is off what is taken off it, or what is made of all these distances."""
    return f"{name}_off"
