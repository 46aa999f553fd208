"""Numbers that are known before execution, computed as the oracle computes them."""

from __future__ import annotations

import torch

from fuser.ir.dtypes import NUMBERS, DataType
from fuser.ir.interpret import evaluate
from fuser.ir.nodes import Cast, Constant, Full, MetadataOperation, Pointwise, Value, scalar
from fuser.passes.rewrite import Emitter

_CPU = torch.device("cpu")

_STEPS = 8
"""How far up zeros are looked for; constant folding has made most of them one operation."""


def number_of(value: Value, emit: Emitter) -> Constant | None:
    """What a scalar, or every element of a tensor, is."""
    op = emit.producer(value)
    match op:
        case Constant():
            return op
        case Full():
            fill = emit.producer(op.fill)
            return converted(fill, op.dtype) if isinstance(fill, Constant) else None
        case _:
            return None


def zero_in(value: Value, emit: Emitter) -> Constant | None:
    """The zero that a tensor is full of."""
    root = value
    for _ in range(_STEPS):
        op = emit.producer(root)
        if not isinstance(op, MetadataOperation | Cast):
            break
        root = op.arg
    number = number_of(root, emit)
    if number is None or number.value != 0:
        return None
    return converted(number, value.dtype)


def converted(number: Constant, dtype: DataType) -> Constant:
    """`number` as `dtype`, as a cast converts it."""
    if number.dtype is dtype:
        return number
    arg = scalar(0, number.dtype)
    result = computed(Cast(arg, dtype), {arg: number}, dtype)
    assert result is not None, "casts do not raise"
    return result


def computed(
    op: Pointwise | Cast, numbers: dict[Value, Constant], dtype: DataType
) -> Constant | None:
    """The result, of type `dtype`, on operands that are or hold these numbers.

    None where torch raises, as it does for an integer division by zero, and where no number is one
    element.
    """
    if dtype not in NUMBERS:
        return None
    held = {
        value: torch.tensor(n.value, dtype=n.dtype.torch, device="cpu")
        for value, n in numbers.items()
    }
    try:
        (result,) = evaluate(op, held, _CPU)
    except RuntimeError:
        return None
    return Constant(result.item(), dtype)


def converted_scalar(value: Value, dtype: DataType, emit: Emitter) -> Value:
    """A scalar as `dtype`: itself, a constant, or a cast."""
    if value.dtype is dtype:
        return value
    number = number_of(value, emit)
    if number is None or number.is_size:
        return emit.add(Cast(value, dtype))
    return emit.add(converted(number, dtype))
