"""How far two correct implementations of an operation, or of a fusion, may differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import assert_never

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Cat,
    CheckIndex,
    Constant,
    Expand,
    Extern,
    Flip,
    Full,
    Fusion,
    Gather,
    GeneratorState,
    Iota,
    Pad,
    Permute,
    Pointwise,
    Random,
    Reduce,
    Scan,
    Scatter,
    SizeOf,
    Slice,
    Squeeze,
    Statement,
    StrideOrder,
    Value,
    View,
    operands,
)
from fuser.ir.pointwise import EXACT_ROWS

_UNITS = 8.0
"""Roundings that one operation may be off by: the device libraries' bounds are below this."""


def tolerance(dtype: DataType, reduction_length: int = 1) -> tuple[float, float]:
    """(relative, absolute) difference to allow in results of `dtype`; (0, 0) for integers and bool.

    Rounding errors of a sum of n terms in any order grow like the square root of n, as they are
    independent. Narrow results are computed in float32 and rounded once. The absolute part is for
    results that cancel, and assumes numbers of size about 1 per summand. Tests ask this, which know
    what one kernel does; `tolerance_of` finds that in a fusion.
    """
    real = dtype.real
    if not real.is_floating:
        return 0.0, 0.0
    rounded = 0.0 if real.compute is real else real.epsilon
    return _Roundings(max(reduction_length, 1), real.compute.epsilon, rounded).allowed


def tolerance_of(fusion: Fusion, output: Value) -> tuple[float, float]:
    """(relative, absolute) difference to allow in one output of a fusion with static sizes.

    As `tolerance`, for the coarsest type that is computed in on the way to the output, and as many
    terms as the longest way has roundings: one for each operation, one for each element of a sum.
    What only moves numbers adds none, so copies must be equal. Nor does what leads through
    integers and bool: they are equal or wrong.
    """
    made: dict[Value, _Roundings] = {}
    for statement in fusion.statements:
        for out in statement.outs:
            made[out] = _of_statement(statement, out, made)
    return made.get(output, _NONE).allowed


@dataclass(frozen=True, slots=True)
class _Roundings:
    """On the way to a value: how many at most, the epsilon of the coarsest type that is computed
    in, and the sum of the epsilons of narrow types that results are rounded to."""

    count: int = 0
    epsilon: float = 0.0
    stored: float = 0.0

    @property
    def allowed(self) -> tuple[float, float]:
        terms = math.sqrt(self.count)
        relative = _UNITS * terms * self.epsilon + self.stored
        return relative, relative * max(terms, 1.0)


_NONE = _Roundings()


def _of_statement(statement: Statement, out: Value, made: dict[Value, _Roundings]) -> _Roundings:
    real = out.dtype.real
    if not real.is_floating:
        return _NONE
    before = [made.get(value, _NONE) for value in operands(statement.op)]
    count = max((b.count for b in before), default=0)
    epsilon = max((b.epsilon for b in before), default=0.0)
    stored = max((b.stored for b in before), default=0.0)
    more = _more(statement)
    if more == 0:
        return _Roundings(count, epsilon, stored)
    rounded = 0.0 if real.compute is real else real.epsilon
    return _Roundings(count + more, max(epsilon, real.compute.epsilon), stored + rounded)


def _more(statement: Statement) -> int:
    """The roundings one operation adds."""
    op = statement.op
    match op:
        case Constant() | SizeOf() | GeneratorState():
            return 0
        case Gather() | Pad() | Cat() | CheckIndex() | StrideOrder():
            return 0
        case View() | Permute() | Broadcast() | Expand() | Squeeze() | Slice() | Flip():
            return 0
        case Cast():
            return int(_narrows(op.arg.dtype.real, op.dtype.real))
        case Pointwise():
            return int(op.op not in EXACT_ROWS or (op.op == "abs" and op.args[0].dtype.is_complex))
        case Full() | Iota() | Random():
            return 1
        case Reduce():
            return _terms(op)
        case Scan(op="cummax" | "cummin") | Scatter(joins=None | "maximum" | "minimum"):
            return 0
        case Scan():
            return op.arg.shape[op.dim] if op.arg.shape else 1
        case Scatter():
            return max(op.index.elements, 1)
        case Extern():
            return max((size for arg in op.args if arg for size in arg.shape), default=1)
        case _:
            assert_never(op)


def _narrows(source: DataType, target: DataType) -> bool:
    """Whether a cast rounds. Integers are rounded alike by all."""
    return source.is_floating and target.epsilon > source.epsilon


def _terms(op: Reduce) -> int:
    match op.op:
        case "max" | "min":
            return 0
        case "var" | "var_mean" | "welford":
            passes = 2
        case _:
            passes = 1
    return passes * max(math.prod(op.arg.shape[dim] for dim in op.dims), 1)
