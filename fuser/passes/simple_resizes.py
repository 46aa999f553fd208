"""Pads, concatenations and what is seen of them that is something simpler.

T3 = fd.ops.cat([T0, T1, T2], dim=0)             T1: Float[0, 4]
T4 = fd.ops.pad(T0, pad_widths=[-1, 0])          T0: Float[8, 4]
T5 = fd.ops.pad(T1, pad_widths=[0, 0, 2, 0])
->
T3 = fd.ops.cat([T0, T2], dim=0)
T4 = fd.ops.slice(T0, start_indices=[0, 1], end_indices=[8, 4])
T5 = fd.ops.full(shape=[2, 4], fill_value=S0, dtype=DataType.Float)

T3 = fd.ops.cat([T0, T1, T2], dim=0)             each Float[8, 4]
T4 = fd.ops.reshape(T3, new_shape=[3, 8, 4])
T5 = fd.ops.slice(T4, start_indices=[1, 0, 0], end_indices=[2, 8, 2])
->
T4 = fd.ops.cat([...], dim=0)                    of reshapes to Float[1, 8, 4]
T3 = fd.ops.reshape(T4, new_shape=[24, 4])       for whoever reads that
T5 = fd.ops.slice(fd.ops.reshape(T1, ...), start_indices=[0, 0, 0], end_indices=[1, 8, 2])

So kernels never pad or concatenate what has no elements, and what is stacked is a dimension of its
own, of which nothing is made for a reader of one part.
"""

from __future__ import annotations

from operator import sub

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Cat,
    Constant,
    Full,
    Fusion,
    Operation,
    Pad,
    Slice,
    Statement,
    Value,
    View,
    static,
)
from fuser.passes.rewrite import Emitter, rewrite


def simplify_resizes(fusion: Fusion) -> Fusion:
    """`fusion` without pads that add nothing, and without what has no elements in its pads and
    concatenations."""
    return rewrite(fusion, _Simplifier(fusion).simpler, may_copy=True)


class _Simplifier:
    """The rules, and what they know of concatenations."""

    def __init__(self, fusion: Fusion) -> None:
        cats: dict[Value, Cat] = {}
        self._stacks: dict[Value, tuple[int, ...]] = {}
        """As what shape a concatenation is seen in which its parts are numbered."""
        for statement in fusion.statements:
            op, out = statement.op, statement.outs[0]
            if isinstance(op, Cat):
                cats[out] = op
            if isinstance(op, View):
                whole = cats.get(op.arg)
                if whole is not None and _numbers_parts(whole, out.shape):
                    self._stacks[op.arg] = out.shape
        self._cats: dict[Value, Cat] = {}
        """The concatenations so far, of what their operands have become: some are views now."""

    def simpler(self, statement: Statement, emit: Emitter) -> Operation | Value | None:
        """A rule of `rewrite`."""
        op, out = statement.op, statement.outs[0]
        if isinstance(op, Pad | Cat) and out.elements == 0:
            return Full(out.shape, emit.add(Constant(0, DataType.Int)), out.dtype)
        match op:
            case Pad():
                return _padded(op, out)
            case Cat():
                self._cats[out] = op
                return self._joined(op, out, emit)
            case View():
                return _seen_before(op, out, emit)
            case Slice():
                made = emit.producer(op.arg)
                whole = made if isinstance(made, Cat) else self._cats.get(op.arg)
                return None if whole is None else _part(op, whole)
            case _:
                return None

    def _joined(self, op: Cat, out: Value, emit: Emitter) -> Operation | Value | None:
        """Without what has no elements; and if it is seen with its parts numbered, made so."""
        args = tuple(arg for arg in op.args if arg.elements)
        if len(args) == 1:
            return args[0]
        shape = self._stacks.get(out)
        if shape is None:
            return None if args == op.args else Cat(args, op.dim)
        one = (*shape[: op.dim], 1, *shape[op.dim + 1 :])
        parts = tuple(emit.add(View(part, one)) for part in args)
        return View(emit.add(Cat(parts, op.dim)), out.shape)


def _padded(op: Pad, out: Value) -> Operation | Value | None:
    if op.arg.elements == 0:
        return Full(out.shape, op.fill, out.dtype)
    befores = static(before for before, _ in op.widths)
    afters = static(after for _, after in op.widths)
    if any(width > 0 for width in befores + afters):
        return None
    starts = tuple(-before for before in befores)
    ends = tuple(size + after for size, after in zip(op.arg.shape, afters, strict=True))
    if out.shape == op.arg.shape:
        return op.arg
    return Slice(op.arg, starts, ends, (1,) * len(starts))


def _numbers_parts(op: Cat, shape: tuple[int, ...]) -> bool:
    """Whether a view of this shape numbers the parts of a concatenation along a dimension."""
    first, dim = op.args[0].shape, op.dim
    alike = all(part.shape == first for part in op.args)
    return alike and shape == (*first[:dim], len(op.args), *first[dim:])


def _seen_before(op: View, out: Value, emit: Emitter) -> Value | None:
    """What a view is of, if it sees that as it was before another view."""
    made = emit.producer(op.arg)
    return made.arg if isinstance(made, View) and made.arg.shape == out.shape else None


def _part(op: Slice, whole: Cat) -> Slice | None:
    """A slice of one part of a concatenation."""
    dim = whole.dim
    starts = list(map(min, static(op.starts), op.arg.shape))
    ends = list(map(min, static(op.ends), op.arg.shape))
    low = 0
    for part in whole.args:
        high = low + part.shape[dim]
        if low <= starts[dim] and ends[dim] <= high:
            before = [low if each == dim else 0 for each in range(len(starts))]
            first, end = tuple(map(sub, starts, before)), tuple(map(sub, ends, before))
            return Slice(part, first, end, op.steps)
        low = high
    return None
