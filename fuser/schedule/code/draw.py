"""Elements of random tensors: drawn by their number, then scaled.

T5 = uniform(S0, S1)   ->   T5_unit = draw uniform[number]
                            T5_wide = S0 + Double(T5_unit) * Double(T5_range)
                            T5      = max(S0, min(T5_wide, what is before S1)), in T5's type

`ir/random_numbers.py` says why in float64. Of [0, 1), and of the standard normal distribution, the
drawn number is all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Random, Value
from fuser.ir.shapes import row_major_strides
from fuser.ir.types import TensorType
from fuser.schedule.indices.coordinates import Coordinates
from fuser.schedule.indices.index import linear
from fuser.schedule.tree.expressions import Call, Expression, Literal, Ref, convert
from fuser.schedule.tree.statements import Drawn, Let, Load

if TYPE_CHECKING:
    from fuser.schedule.code.emit import Emitter

_WIDE = DataType.Double

_STEP = 0.575
"""Of the step above 1, times a number: between 0.575 and 1.15 of the step at that number."""


def draw(emitter: Emitter, op: Random, out: Value, at: Coordinates) -> Expression:
    """The expression for element `at` of random numbers; its load and lets are added."""
    first, second = (emitter.read_as(parameter, (), _WIDE) for parameter in op.parameters)
    seed, offset = (emitter.read_as(word, (), DataType.Int) for word in (op.seed, op.offset))
    name, number = emitter.name(out, at), linear(at, row_major_strides(out.shape))
    drawn = Drawn(op.distribution, seed, offset)
    if (first, second) == (Literal(0.0, _WIDE), Literal(1.0, _WIDE)):
        emitter.add_load(Load(name, out, number, drawn=drawn))
        return Ref(name, op.dtype)
    compute = op.dtype.compute
    unit = Value(out.id, TensorType(compute, out.shape))
    emitter.add_load(Load(f"{name}_unit", unit, number, drawn=drawn))
    if op.distribution == "uniform":
        scaled = _scaled(emitter, op, name, first, Call("sub", (second, first), _WIDE))
        emitter.add(Let(f"{name}_scaled", op.dtype, scaled), is_tensor=True)
        low = convert(_rounded(first, op.dtype), compute)
        emitter.add(Let(f"{name}_most", compute, _before(second, op.dtype)), is_tensor=False)
        most = Ref(f"{name}_most", compute)
        inside = Call("minimum", (convert(Ref(f"{name}_scaled", op.dtype), compute), most), compute)
        made = convert(Call("maximum", (inside, low), compute), op.dtype)
    else:
        made = _scaled(emitter, op, name, first, second)
    emitter.add(Let(name, op.dtype, made), is_tensor=True)
    return Ref(name, op.dtype)


def _scaled(
    emitter: Emitter, op: Random, name: str, first: Expression, factor: Expression
) -> Expression:
    """`first` + `factor` * what was drawn, in float64, where the product of two float32 is exact;
    then rounded to the type that is computed in, and to the result's."""
    compute, unit = op.dtype.compute, Ref(f"{name}_unit", op.dtype.compute)
    emitter.add(Let(f"{name}_factor", compute, convert(factor, compute)), is_tensor=False)
    parts = unit, Ref(f"{name}_factor", compute)
    product = Call("mul", tuple(convert(part, _WIDE) for part in parts), _WIDE)
    emitter.add(Let(f"{name}_wide", _WIDE, Call("add", (first, product), _WIDE)), is_tensor=True)
    return convert(convert(Ref(f"{name}_wide", _WIDE), compute), op.dtype)


def _rounded(wide: Expression, dtype: DataType) -> Expression:
    """A number of float64 in a floating type."""
    return convert(convert(wide, dtype.compute), dtype)


def _before(end: Expression, dtype: DataType) -> Expression:
    """The largest number of a floating type that is less than `end` in it, in the type that is
    computed in: what is nearest to a number that is between half a step and one and a half below,
    of a power of two between a quarter and three quarters, whose steps to it are half as long."""
    rounded = convert(_rounded(end, dtype), _WIDE)
    step = Call(
        "mul", (Call("abs", (rounded,), _WIDE), Literal(_STEP * dtype.epsilon, _WIDE)), _WIDE
    )
    least = Literal(torch.finfo(dtype.torch).smallest_normal * dtype.epsilon, _WIDE)
    below = Call("sub", (rounded, Call("maximum", (step, least), _WIDE)), _WIDE)
    return convert(_rounded(below, dtype), dtype.compute)
