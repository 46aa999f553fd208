"""A gather moves above the arithmetic that makes its data: less is computed, and nothing stored.

T3 = fd.ops.expand(T2, shape=[512, 32768])                   T0: [512, 32768], T2: [512, 1]
T4 = fd.ops.sub(T0, T3)
T5 = fd.ops.gather(T4, T1, dim=1)                            T1: [512, 1]
->
T6 = fd.ops.gather(T0, T1, dim=1)
T5 = fd.ops.sub(T6, T2)

Operands that are the same along `dim` are not gathered. If no gather is left that reads with the
index, a `check_index` is: the index is still refused where it leaves the dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fuser.ir.nodes import (
    Broadcast,
    Cast,
    CheckIndex,
    Constant,
    Expand,
    Full,
    Fusion,
    Gather,
    Operation,
    Permute,
    Pointwise,
    Squeeze,
    Statement,
    StrideOrder,
    Value,
    View,
)
from fuser.ir.pointwise import TABLE
from fuser.ir.shapes import with_size
from fuser.passes.rewrite import Emitter, rewrite

MAX_COST = 128
"""Instructions per gathered element that are repeated at most; the read itself takes a sector."""

MAX_REPEATS = 4
"""Gathers for which an operation is repeated at most, so that code grows no more than linearly."""


def move_gathers_up(fusion: Fusion) -> Fusion:
    """`fusion` with gathers of cheap pointwise results done on their operands."""
    repeats: dict[Value, int] = {}

    def rule(statement: Statement, emit: Emitter) -> Operation | Value | None:
        op = statement.op
        if not isinstance(op, Gather) or not 0 < op.arg.elements >= statement.out.elements:
            return None
        return _Reader(op, emit, repeats).result(statement.out)

    return rewrite(fusion, rule, may_copy=True)


@dataclass(frozen=True, slots=True)
class _At:
    """Where a value is read: at `index`, which lies beside its last dimensions, along `dim`.

    `dim` counts from the end: operands of a pointwise operation are aligned there.
    """

    index: Value
    dim: int


class _Reader:
    """One gather on its way up.

    What is read has the sizes of the result, or 1 where it is the same, in each dimension it has.
    The reads of `select` keep the dimension they select from, with size 1.
    """

    def __init__(self, gather: Gather, emit: Emitter, repeats: dict[Value, int]) -> None:
        self._gather = gather
        self._emit = emit
        self._repeats = repeats
        self._computed: dict[tuple[Value, _At], Value] = {}
        self._cost = 0
        self._gathers = 0

    def result(self, out: Value) -> Value | None:
        """The gather's result, or None where nothing is gained."""
        op = self._gather
        value = self._read(op.arg, _At(op.index, op.dim - len(op.arg.shape)))
        if not self._computed or self._cost > MAX_COST:
            return None
        if self._gathers == 0:
            if op.mode not in ("gather", "index_select"):
                return None  # positions below 0 count from the end, which a check does not know
            value = self._checked(value)
        if op.mode == "select":
            return self._emit.add(Squeeze(value, (op.dim,)))
        return self._emit.expanded(value, out.shape)

    @property
    def _by_element(self) -> bool:
        """Whether the index has an element for each of the result, not for whole slices of it."""
        return self._gather.mode in ("gather", "take_along_axis")

    # -- one value -------------------------------------------------------------------------------

    def _read(self, value: Value, at: _At) -> Value:
        """`value` where it is read."""
        if len(value.shape) + at.dim < 0 or value.shape[at.dim] == 1:
            return self._same_along(value, at)
        found = None
        if self._cost <= MAX_COST:
            op = self._emit.producer(value)
            if isinstance(op, Pointwise | Cast):
                found = self._compute(op, value, at)
            elif op is not None:
                found = self._look_through(op, value, at)
        return self._gathered(value, at) if found is None else found

    def _compute(self, op: Pointwise | Cast, value: Value, at: _At) -> Value | None:
        """A pointwise result, of operands that are read instead."""
        known = self._computed.get((value, at))
        if known is not None:
            return known
        repeats = self._repeats.get(value, 0)
        if repeats == MAX_REPEATS or (isinstance(op, Pointwise) and op.op == "segment_set"):
            return None
        self._repeats[value] = repeats + 1
        self._cost += TABLE[op.op].cost if isinstance(op, Pointwise) else 1
        if isinstance(op, Pointwise):
            args = tuple(self._read(arg, at) for arg in op.args)
            found = self._emit.add(Pointwise(op.op, args))
        else:
            found = self._emit.add(Cast(self._read(op.arg, at), op.dtype))
        self._repeats[found] = repeats + 1
        self._computed[value, at] = found
        return found

    def _look_through(self, op: Operation, value: Value, at: _At) -> Value | None:
        """A relabelled value, read below; None where only another gather would come of it."""
        before = len(self._emit.statements), self._gathers, len(self._computed)
        self._cost += 1
        match op:
            case StrideOrder():
                found = self._read(op.arg, at)
            case Full():
                shape = (
                    (1,) * len(value.shape) if self._by_element else with_size(value.shape, at.dim)
                )
                return self._emit.add(Full(shape, op.fill, op.dtype))
            case Expand():
                found = self._read(op.arg, at)
                if not self._by_element:
                    size = found.shape[at.dim]
                    found = self._emit.expanded(found, with_size(value.shape, at.dim, size))
            case Permute():
                found = self._permuted(op, at)
            case Broadcast() if self._by_element and _is_leading(op.is_broadcast):
                found = self._read(op.arg, at)
            case View() | Squeeze() | Broadcast():
                found = self._viewed(op.arg, value.shape, at)
            case _:
                return None
        length, gathers, computed = before
        if found is not None and self._gathers > gathers and len(self._computed) == computed:
            self._emit.drop(length)
            self._gathers = gathers
            return None
        return found

    def _permuted(self, op: Permute, at: _At) -> Value:
        rank = len(op.dims)
        index = at.index
        if self._by_element:
            dims = _shifted(op.dims, len(index.shape))
            back = tuple(dims.index(dim) for dim in range(len(dims)))
            index = self._emit.add(Permute(index, back))
        found = self._of_rank(rank, self._read(op.arg, _At(index, op.dims[at.dim] - rank)))
        return self._emit.add(Permute(found, _shifted(op.dims, len(found.shape))))

    def _viewed(self, source: Value, shape: tuple[int, ...], at: _At) -> Value | None:
        """A view, if the dimension that is read along is one of the source's."""
        dim = _untouched(source.shape, shape, at.dim)
        if dim is None:
            return None
        index = at.index
        if self._by_element:
            size = index.shape[at.dim]
            if index.shape != with_size(shape, at.dim, size):
                return None
            index = self._emit.add(View(index, with_size(source.shape, dim, size)))
        found = self._of_rank(len(source.shape), self._read(source, _At(index, dim)))
        size = found.shape[dim]
        found = self._emit.expanded(found, with_size(source.shape, dim, size))
        return self._emit.add(View(found, with_size(shape, at.dim, size)))

    # -- where the way ends ----------------------------------------------------------------------

    def _gathered(self, value: Value, at: _At) -> Value:
        self._gathers += 1
        mode, index, add = self._gather.mode, at.index, self._emit.add
        dim = at.dim + len(value.shape)
        match mode:
            case "select":
                selected = add(Gather(mode, value, index, dim))
                return add(Broadcast(selected, tuple(d == dim for d in range(len(value.shape)))))
            case "index_select":
                return add(Gather(mode, value, index, dim))
            case _:
                rank = len(index.shape)
                sizes = (1,) * (rank - len(value.shape)) + value.shape
                if mode == "gather":  # beside `dim`, the data must be as large as the index
                    sizes = tuple(map(max, sizes, with_size(index.shape, at.dim)))
                return add(Gather(mode, self._emit.expanded(value, sizes), index, rank + at.dim))

    def _same_along(self, value: Value, at: _At) -> Value:
        """A value that is the same along `dim`: what the index leaves of the other dimensions."""
        if self._gather.mode != "gather" or not value.shape:
            return value
        limits = with_size(at.index.shape, at.dim)[-len(value.shape) :]
        ends = tuple(map(min, value.shape, (max(limit, 1) for limit in limits)))
        return self._emit.leading(value, ends)

    def _checked(self, value: Value) -> Value:
        """`value`, chosen by a check of the index, so that the check is read and stays."""
        op, add = self._gather, self._emit.add
        checked = add(CheckIndex(op.index, op.arg.shape[op.dim], op.mode))
        inside = add(Pointwise("ge", (checked, add(Constant(0, op.index.dtype)))))
        behind = len(op.arg.shape) - op.dim - 1
        if op.mode == "index_select" and behind and op.index.shape:
            inside = add(Broadcast(inside, (False, *(True,) * behind)))
        return self._emit.cast(add(Pointwise("where", (inside, value, value))), value.dtype)

    def _of_rank(self, rank: int, value: Value) -> Value:
        """`value` with at least so many dimensions."""
        return self._emit.expanded(value, (1,) * (rank - len(value.shape)) + value.shape)


def _is_leading(is_new: tuple[bool, ...]) -> bool:
    """Whether all new dimensions come before the others."""
    return sorted(is_new, reverse=True) == list(is_new)


def _shifted(dims: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The same permutation of the last of `rank` dimensions."""
    new = rank - len(dims)
    return (*range(new), *(dim + new for dim in dims))


def _untouched(source: tuple[int, ...], shape: tuple[int, ...], dim: int) -> int | None:
    """The dimension of `source`, from the end, that a view keeps as `dim` of `shape`."""
    if 0 in shape:
        return None
    behind = math.prod(shape[len(shape) + dim + 1 :])
    for found in range(-1, -len(source) - 1, -1):
        if source[found] == shape[dim] and math.prod(source[len(source) + found + 1 :]) == behind:
            return found
    return None
