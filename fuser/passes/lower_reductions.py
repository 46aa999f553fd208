"""Reductions in terms of folds: a kernel accumulates sums, products, extremes, any and all.

T1 = fd.ops.mean(T0, dims=[1])     ->     T3 = fd.ops.sum(T0, dims=[1])
                                          T1 = fd.ops.truediv(T3, S2)

The variance is the mean of squared deviations from the mean, so it takes two sweeps of a row.
"""

from __future__ import annotations

import dataclasses
import math

from fuser.ir.dtypes import DataType
from fuser.ir.infer import infer
from fuser.ir.nodes import (
    Cast,
    Constant,
    Fusion,
    Operation,
    Pointwise,
    Reduce,
    Squeeze,
    Statement,
    Value,
)


def lower_reductions(fusion: Fusion) -> Fusion:
    """`fusion` with means and variances made of folds, and operands in the type they fold in.

    Complex ones stay as they are.
    """
    lowering = _Lowering(fusion)
    for statement in fusion.statements:
        if isinstance(statement.op, Reduce) and not statement.op.arg.dtype.is_complex:
            lowering.reduce(statement, statement.op)
        else:
            lowering.statements.append(statement)
    return dataclasses.replace(fusion, statements=tuple(lowering.statements))


class _Lowering:
    def __init__(self, fusion: Fusion) -> None:
        values = (*fusion.inputs, *(out for s in fusion.statements for out in s.outs))
        self._next_id = 1 + max((value.id for value in values), default=-1)
        self.statements: list[Statement] = []

    def reduce(self, statement: Statement, op: Reduce) -> None:
        """Add what a reduction is made of; the last statements make its results."""
        is_index = op.op in ("argmax", "argmin")
        arg = op.arg if is_index else self._cast(op.arg, _folded_in(op))
        count = math.prod(op.arg.shape[dim] for dim in op.dims)
        match op.op:
            case "mean":
                total = self._fold(Reduce("sum", arg, op.dims, op.keepdim))
                self._quotient(total, count, statement.outs[0])
            case "var" | "var_mean":
                total = self._fold(Reduce("sum", arg, op.dims, keepdim=True))
                mean = self._quotient(total, count)
                away = self._add(Pointwise("sub", (arg, mean)))
                squares = self._add(Pointwise("mul", (away, away)))
                total = self._fold(Reduce("sum", squares, op.dims, op.keepdim))
                self._quotient(total, max(count - op.correction, 0), statement.outs[0])
                if op.op == "var_mean":
                    kept = Pointwise("set", (mean,)) if op.keepdim else Squeeze(mean, op.dims)
                    self.statements.append(Statement(statement.outs[1:], kept))
            case "argmax" | "argmin":
                self.statements.append(statement)
            case _:
                self._fold(dataclasses.replace(op, arg=arg), statement.out)

    def _fold(self, op: Reduce, out: Value | None = None) -> Value:
        """A fold; over no dimensions, what it would fold."""
        if op.dims:
            return self._add(op, out)
        return self._add(Cast(op.arg, op.arg.dtype if out is None else out.dtype), out)

    def _cast(self, value: Value, dtype: DataType) -> Value:
        return value if value.dtype is dtype else self._add(Cast(value, dtype))

    def _quotient(self, total: Value, count: int, out: Value | None = None) -> Value:
        divisor = self._add(Constant(count, DataType.Int, is_size=True))
        quotient = Pointwise("truediv", (total, divisor))
        if out is None or infer(quotient) == (out.type,):
            return self._add(quotient, out)
        return self._add(Cast(self._add(quotient), out.dtype), out)

    def _add(self, op: Operation, out: Value | None = None) -> Value:
        (type_,) = infer(op)
        if out is None:
            out = Value(self._next_id, type_)
            self._next_id += 1
        assert out.type == type_, f"{out} is {out.type}, not {type_}"
        self.statements.append(Statement((out,), op))
        return out


def _folded_in(op: Reduce) -> DataType:
    """The type in which operands of a reduction are folded."""
    if op.op in ("any", "all"):
        return DataType.Bool
    dtype = (op.dtype or op.arg.dtype).compute
    if op.op in ("sum", "prod") and dtype.is_integral:
        return DataType.Int
    return dtype
