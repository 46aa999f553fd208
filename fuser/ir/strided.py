"""Strided memory: how a tensor lies in a buffer, and what metadata operations make of it."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    CheckIndex,
    Expand,
    Flip,
    Gather,
    MetadataOperation,
    Permute,
    Pointwise,
    Slice,
    Squeeze,
    Statement,
    StrideOrder,
    Value,
    View,
    static,
)
from fuser.ir.shapes import row_major_strides, view_strides
from fuser.ir.types import dense_strides, row_major_order


@dataclass(frozen=True, slots=True)
class Strided:
    """A tensor of `shape` in the buffer of `base`: strides and offset in elements."""

    base: Value
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes_touched(self) -> int:
        """Bytes of distinct elements; a stride-0 dimension is read once."""
        spans = zip(self.shape, self.strides, strict=True)
        distinct = math.prod(size if stride else min(size, 1) for size, stride in spans)
        return distinct * self.base.dtype.itemsize

    @property
    def last_offset(self) -> int:
        """The largest offset, in elements, that an element of the tensor has."""
        if self.elements == 0:
            return 0
        spans = zip(self.shape, self.strides, strict=True)
        return self.offset + sum((size - 1) * stride for size, stride in spans)


Order = tuple[int, ...]
"""The rank of each dimension by stride, 0 for the fastest."""

Address = tuple[Value, DataType]
"""A buffer, and as what type it is read: what lies in one is read from one address."""


def address_of(value: Value, memory: Mapping[Value, Strided]) -> Address:
    """Where a value is read from, whether it lies in `memory` or has a buffer of its own."""
    return memory[value].base if value in memory else value, value.dtype


def row_major(value: Value) -> Strided:
    """A buffer of its own, contiguous."""
    return dense(value, row_major_order(len(value.shape)))


def dense(value: Value, order: Order) -> Strided:
    """A buffer of its own, without gaps, laid out in a stride order."""
    return Strided(value, value.shape, dense_strides(value.shape, order))


def order_of(memory: Strided) -> Order | None:
    """The rank of each dimension by stride, 0 for the fastest, as torch has it; None where an
    expanded dimension leaves it open.

    Dimensions of one element do not count against row-major memory; elsewhere they are the faster
    of equal strides. Other equal strides keep their order.
    """
    spans = zip(memory.shape, memory.strides, strict=True)
    long = [span for span in spans if span[0] != 1]
    if any(size > 1 and stride == 0 for size, stride in long):
        return None
    if [stride for _, stride in long] == list(row_major_strides([size for size, _ in long])):
        return row_major_order(len(memory.shape))
    return ranks(memory.shape, memory.strides)


def ranks(shape: Sequence[int], strides: Sequence[int]) -> Order:
    """The rank of each dimension by stride, 0 for the fastest.

    Of equal strides, those of dimensions of one element are the faster; others keep their order.
    """
    rank = len(shape)
    slowest_first = sorted(range(rank), key=lambda dim: (-strides[dim], shape[dim] == 1, dim))
    return tuple(rank - 1 - slowest_first.index(dim) for dim in range(rank))


def alias(op: MetadataOperation, memory: Strided, shape: tuple[int, ...]) -> Strided | None:
    """Where the result of `op`, of sizes `shape`, lies if its operand lies in `memory`.

    None where torch copies: a view whose dimensions are not nested in memory, or a flip, as no
    stride is negative.
    """
    match op:
        case View():
            strides = view_strides(memory.shape, memory.strides, shape)
        case Permute():
            strides = tuple(memory.strides[dim] for dim in op.dims)
        case Broadcast():
            strides = _unsqueezed(op.is_broadcast, memory)
        case Expand():
            sizes = zip(memory.shape, shape, memory.strides, strict=True)
            strides = tuple(0 if have != want else stride for have, want, stride in sizes)
        case Squeeze():
            strides = tuple(s for dim, s in enumerate(memory.strides) if dim not in op.dims)
        case Slice():
            return _sliced(op, memory, shape)
        case Flip():
            return None
    return None if strides is None else replace(memory, shape=shape, strides=strides)


def _sliced(op: Slice, memory: Strided, shape: tuple[int, ...]) -> Strided:
    """As torch has it: no step is longer than its dimension, and an empty slice begins at 0."""
    sizes = zip(static(op.steps), memory.shape, memory.strides, strict=True)
    strides = tuple(min(step, max(1, size)) * stride for step, size, stride in sizes)
    starts = zip(static(op.starts), memory.strides, strict=True)
    begin = 0 if 0 in shape else sum(start * stride for start, stride in starts)
    return replace(memory, shape=shape, strides=strides, offset=memory.offset + begin)


def _unsqueezed(is_new: tuple[bool, ...], memory: Strided) -> tuple[int, ...]:
    """Strides with those of new dimensions as torch gives them: just outside what follows."""
    kept = list(zip(memory.shape, memory.strides, strict=True))
    strides: list[int] = []
    outside = 1
    for new in reversed(is_new):
        if not new:
            size, stride = kept.pop()
            strides.append(stride)
            outside = size * stride
        else:
            strides.append(outside)
    return tuple(reversed(strides))


def eager_memory(statement: Statement, held: Mapping[Value, Strided]) -> Strided:
    """How torch would lay out a computed value, from how its operands lie.

    Metadata operations and `select` keep the memory where they can, and casts the strides; another
    pointwise or flipped result is dense and follows its operands, of which the first decide
    (`met_order`); everything else is row-major; what torch runs, `extern_memory` knows.
    """
    out, op = statement.out, statement.op
    match op:
        case StrideOrder():
            return dense(out, op.order)
        case View() | Permute() | Broadcast() | Expand() | Squeeze() | Slice():
            return alias(op, held[op.arg], out.shape) or row_major(out)
        case CheckIndex():
            return held[op.arg]
        case Gather(mode="select"):
            return selected(op, held[op.arg], out)
        case Cast() if _is_dense(held[op.arg]):
            return Strided(out, out.shape, held[op.arg].strides)
        case Cast() | Pointwise() | Flip():
            args = op.args if isinstance(op, Pointwise) else (op.arg,)
            memories = [held[arg] for arg in args if arg.is_tensor]
            whole = bool(memories) and memories[0].shape == out.shape
            order = order_of(memories[0]) if whole else None  # which decides alone
            return dense(out, met_order(out.shape, memories) if order is None else order)
        case _:
            return row_major(out)


def _is_dense(memory: Strided) -> bool:
    """Whether there are no gaps between elements; dimensions of one element may have any stride."""
    pairs = zip(memory.strides, memory.shape, strict=True)
    spans = sorted(span for span in pairs if span[1] != 1)
    steps = accumulate((size for _, size in spans), operator.mul, initial=1)
    return all(stride == step for (stride, _), step in zip(spans, steps, strict=False))


def met_order(shape: Sequence[int], memories: Sequence[Strided]) -> Order:
    """The stride order in which torch lays out what is computed of operands: of two dimensions, the
    first operand decides along which none is repeated and whose strides differ."""
    rank = len(shape)
    spans: list[list[int]] = []
    for memory in memories:
        new = rank - len(memory.shape)
        pairs = zip(memory.shape, memory.strides, shape[new:], strict=True)
        spans.append([0] * new + [0 if have != size else by for have, by, size in pairs])
    fastest_first = list(reversed(range(rank)))
    for last in range(1, rank):
        at = last
        for before in reversed(range(last)):
            swap = _is_slower(fastest_first[before], fastest_first[at], shape, spans)
            if swap is False:
                break
            if swap:
                fastest_first[before], fastest_first[at] = fastest_first[at], fastest_first[before]
                at = before
    return tuple(fastest_first.index(dim) for dim in range(rank))


def _is_slower(
    one: int, other: int, shape: Sequence[int], spans: Sequence[Sequence[int]]
) -> bool | None:
    """Whether a dimension goes after another; None where no operand tells."""
    for strides in spans:
        by = strides[one], strides[other]
        if 0 in by:
            continue
        if by[0] != by[1]:
            return by[0] > by[1]
        if shape[one] > shape[other]:
            return True
    return None


def selected(op: Gather, memory: Strided, out: Value) -> Strided:
    """What lies at one place along a dimension. Where it begins is not known before the call."""
    strides = memory.strides[: op.dim] + memory.strides[op.dim + 1 :]
    return Strided(memory.base, out.shape, strides)
