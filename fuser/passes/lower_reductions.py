"""Reductions in terms of folds: a kernel accumulates sums, products, extremes, any and all.

T1 = fd.ops.mean(T0, dims=[1])     ->     T3 = fd.ops.sum(T0, dims=[1])
                                          T1 = fd.ops.truediv(T3, S2)

T1 = fd.ops.argmax(T0, dims=[1])   ->     T2 = fd.ops.max(T0, dims=[1], keepdim=True)
                                          T3 = fd.ops.eq(T0, T2), or where T0 is NaN
                                          T6 = fd.ops.where(T3, T5, S4)        T5: 0, 1, ...
                                          T1 = fd.ops.min(T6, dims=[1])        S4: their number

T1 = fd.ops.sum(T0, dims=[1])      ->     T2 = fd.ops.real(T0), T3 = fd.ops.imag(T0)
of complex numbers                        T4 = fd.ops.sum(T2, dims=[1]), and T5 of T3
                                          T1 = fd.ops.complex(T4, T5)

The variance is the mean of squared deviations from the mean, so it takes two sweeps of a row; so
does the place of an extreme. That the mean is rounded is not corrected for, which would take one
more sum: layernorm took up to 1.1 times as long.
"""

from __future__ import annotations

import dataclasses
import math

from fuser.ir.dtypes import DataType, holds
from fuser.ir.infer import infer
from fuser.ir.nodes import (
    Cast,
    Constant,
    Full,
    Fusion,
    Iota,
    Operation,
    Pointwise,
    Reduce,
    Squeeze,
    Statement,
    Value,
    View,
)
from fuser.passes.rewrite import Emitter


def lower_reductions(fusion: Fusion) -> Fusion:
    """`fusion` with all reductions made of folds, and operands in the type they fold in.

    Of complex numbers, what is neither a sum nor a mean stays as it is.
    """
    lowering = _Lowering(fusion)
    for statement in fusion.statements:
        op = statement.op
        if isinstance(op, Reduce) and op.op in ("sum", "mean") and _folded_in(op).is_complex:
            lowering.reduce_parts(statement.out, op)
        elif isinstance(op, Reduce) and not op.arg.dtype.is_complex:
            lowering.reduce(statement, op)
        else:
            lowering.emit.append(statement)
    return dataclasses.replace(fusion, statements=tuple(lowering.emit.statements))


class _Lowering:
    def __init__(self, fusion: Fusion) -> None:
        self.emit = Emitter(fusion)
        self._handed_out: set[Value] = set()
        """Row values that are results of reductions."""

    def reduce(self, statement: Statement, op: Reduce) -> None:
        """Add what a reduction is made of; the last statements make its results."""
        op = dataclasses.replace(op, arg=self.emit.cast(op.arg, _folded_in(op)))
        count = math.prod(op.arg.shape[dim] for dim in op.dims)
        outs = statement.outs
        match op.op:
            case "mean":
                total = self._add(Reduce("sum", op.arg, op.dims, op.keepdim))
                self._quotient(total, count, outs[0])
            case "var" | "var_mean":
                mean, squares = self._moments(op, count)
                total = self._add(squares)
                self._quotient(total, max(count - op.correction, 0), outs[0])
                if op.op == "var_mean":
                    self._hand_out(mean, op, outs[1])
            case "welford":
                mean, squares = self._moments(op, count)
                self._hand_out(mean, op, outs[0])
                self._add(squares, outs[1])
                number = self._size(count)
                self._add(Full(outs[2].shape, number, DataType.Int), outs[2])
            case "argmax" | "argmin":
                self._place(op, outs[0])
            case _:
                self._add(op, outs[0])

    def reduce_parts(self, out: Value, op: Reduce) -> None:
        """Add a sum or mean of complex numbers, as those of their parts."""
        arg = self.emit.cast(op.arg, _folded_in(op))
        count = math.prod(arg.shape[dim] for dim in op.dims)
        parts: list[Value] = []
        for name in ("real", "imag"):
            part = self._add(Pointwise(name, (arg,)))
            total = self._add(Reduce("sum", part, op.dims, op.keepdim))
            parts.append(self._quotient(total, count) if op.op == "mean" else total)
        self._add(Pointwise("complex", tuple(parts)), out)

    def _moments(self, op: Reduce, count: int) -> tuple[Value, Reduce]:
        """The mean, its dimensions kept, and the sum of squared deviations from it, not added."""
        total = self._add(Reduce("sum", op.arg, op.dims, keepdim=True))
        mean = self._quotient(total, count)
        away = self._add(Pointwise("sub", (op.arg, mean)))
        squares = self._add(Pointwise("mul", (away, away)))
        return mean, Reduce("sum", squares, op.dims, op.keepdim)

    def _place(self, op: Reduce, out: Value) -> None:
        """The first place of the extreme; of a NaN where there is one, which is any extreme."""
        arg, (dim,) = op.arg, op.dims
        extreme = self._add(Reduce(op.op.removeprefix("arg"), arg, op.dims, keepdim=True))
        there = self._add(Pointwise("eq", (arg, extreme)))
        if arg.dtype.is_floating:
            is_nan = self._add(Pointwise("ne", (arg, arg)))
            there = self._add(Pointwise("logical_or", (there, is_nan)))
        size = arg.shape[dim]
        narrow = DataType.Int32 if holds(DataType.Int32, size) else DataType.Int
        zero, one = (self._add(Constant(number, DataType.Int)) for number in (0, 1))
        places = self._add(Iota(size, zero, one, narrow))
        along = tuple(size if d == dim else 1 for d in range(len(arg.shape)))
        places = self._add(View(places, along))
        chosen = self._add(Pointwise("where", (there, places, self._size(size, narrow))))
        first = self._add(Reduce("min", chosen, op.dims, op.keepdim))
        self._add(Cast(first, DataType.Int), out)

    def _hand_out(self, kept: Value, op: Reduce, out: Value) -> None:
        """A row value whose dimensions were kept, as the reduction gives it: a tensor of its own,
        also where equal reductions have one row value."""
        made: Operation = Pointwise("set", (kept,)) if op.keepdim else Squeeze(kept, op.dims)
        if isinstance(made, Squeeze) and kept in self._handed_out:
            made = Pointwise("set", (self._add(made),))
        self._handed_out.add(kept)
        self._add(made, out)

    def _size(self, number: int, dtype: DataType = DataType.Int) -> Value:
        """A number that follows from sizes."""
        return self._add(Constant(number, dtype, is_size=True))

    def _quotient(self, total: Value, count: int, out: Value | None = None) -> Value:
        quotient = Pointwise("truediv", (total, self._size(count)))
        if out is None or infer(quotient) == (out.type,):
            return self._add(quotient, out)
        return self._add(Cast(self._add(quotient), out.dtype), out)

    def _add(self, op: Operation, out: Value | None = None) -> Value:
        if out is None:
            return self.emit.add(op)
        assert infer(op) == (out.type,), f"{out} is {out.type}, not {infer(op)[0]}"
        self.emit.append(Statement((out,), op))
        return out


def _folded_in(op: Reduce) -> DataType:
    """The type in which operands of a reduction are folded."""
    if op.op in ("any", "all"):
        return DataType.Bool
    dtype = (op.dtype or op.arg.dtype).compute
    if op.op in ("sum", "prod") and dtype.is_integral:
        return DataType.Int
    return dtype
