"""Elements of random tensors: drawn by their number, then scaled.

T5 = uniform(S0, S1)   ->   T5_unit = draw uniform[number]
                            T5_wide = S0 + Double(T5_unit) * Double(T5_range)
                            T5      = T5_wide < S1 ? T5_wide : S0, in T5's type

`ir/random_numbers.py` says why in float64. Of [0, 1), and of the standard normal distribution, the
drawn number is all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Random, Value
from fuser.ir.random_numbers import LARGEST_UNIT
from fuser.ir.shapes import row_major_strides
from fuser.ir.types import TensorType
from fuser.schedule.coordinates import Coordinates
from fuser.schedule.expressions import Call, Expression, Literal, Ref, convert
from fuser.schedule.index import linear
from fuser.schedule.statements import Drawn, Let, Load

if TYPE_CHECKING:
    from fuser.schedule.emit import Emitter

_WIDE = DataType.Double


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
        rounded = (convert(convert(end, compute), op.dtype) for end in (first, second))
        ends = (convert(end, compute) for end in rounded)
        made = convert(_below(convert(Ref(f"{name}_scaled", op.dtype), compute), *ends), op.dtype)
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
    parts = _capped(op, unit), Ref(f"{name}_factor", compute)
    product = Call("mul", tuple(convert(part, _WIDE) for part in parts), _WIDE)
    emitter.add(Let(f"{name}_wide", _WIDE, Call("add", (first, product), _WIDE)), is_tensor=True)
    return convert(convert(Ref(f"{name}_wide", _WIDE), compute), op.dtype)


def _capped(op: Random, unit: Expression) -> Expression:
    """A number of [0, 1) that is below 1 in the result's type too."""
    if op.distribution != "uniform" or op.dtype not in LARGEST_UNIT:
        return unit
    return Call("minimum", (unit, Literal(LARGEST_UNIT[op.dtype], unit.dtype)), unit.dtype)


def _below(value: Expression, low: Expression, high: Expression) -> Expression:
    """A value, or `low` where rounding took it to `high`."""
    inside = Call("lt", (value, high), DataType.Bool)
    return Call("where", (inside, value, low), value.dtype)
