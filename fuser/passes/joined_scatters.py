"""A sum of scatters into zeros is one scatter, of the points of all.

T4 = fd.ops.index_add(T0, T1, T2, dim=1)       T0: zeros [8, 12], T1: Int[5], T2: Float[8, 5]
T7 = fd.ops.index_add(T0, T5, T6, dim=1)       T5: Int[3], T6: Float[8, 3]
T8 = fd.ops.add(T4, T7)
->
T9 = fd.ops.cat([T1, T5], dim=0)
T10 = fd.ops.cat([T2, T6], dim=1)
T8 = fd.ops.index_add(T0, T9, T10, dim=1)

Each scatter would be a kernel that writes all of its result, for the next to read.
The gradient of a resized image is such a sum, with a term for each neighbour that a pixel is made
of; so is that of a table from which several lookups are made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Cast,
    Cat,
    Full,
    Fusion,
    Operation,
    Pointwise,
    Scatter,
    Statement,
    Value,
    View,
)
from fuser.ir.shapes import with_size
from fuser.passes.constants import zero_in
from fuser.passes.rewrite import Emitter, rewrite

MOST_JOINED = 8
"""Scatters whose points are put together: what each adds may be made of inputs of its own."""


def join_scatters(fusion: Fusion) -> Fusion:
    """`fusion` with sums of scatters that nothing else reads taken as one."""
    uses = fusion.uses()
    once = {value for value, by in uses.items() if len(by) == 1} - set(fusion.output_values)

    def rule(statement: Statement, emit: Emitter) -> Operation | Value | None:
        op = statement.op
        if not isinstance(op, Pointwise) or op.op != "add" or len(set(op.args)) == 1:
            return None
        found = [_scatter(arg, once, emit) for arg in op.args]
        scatters = [scatter for scatter in found if scatter is not None]
        shape, dtype = statement.out.shape, statement.out.dtype
        if len(scatters) < 2 or any(scatter.arg.shape != shape for scatter in scatters):
            return None
        return _joined(scatters, dtype, emit)

    return rewrite(fusion, rule, may_copy=True)


def _scatter(value: Value, once: AbstractSet[Value], emit: Emitter) -> Scatter | None:
    """The scatter into zeros that a term of a sum is; floats may have been made wider since."""
    made = emit.producer(value)
    if isinstance(made, Cast) and value in once and _widens(made):
        value, made = made.arg, emit.producer(made.arg)
    if not isinstance(made, Scatter) or made.joins != "add" or value not in once:
        return None
    dtype = made.arg.dtype
    if dtype is DataType.Bool or dtype.is_complex:
        return None
    is_empty = 0 in (made.arg.elements, math.prod(made.points))
    return None if is_empty or zero_in(made.arg, emit) is None else made


def _widens(cast: Cast) -> bool:
    """Whether a cast keeps all floats as they are, and sums of them are no less exact after it."""
    given, made = cast.arg.dtype, cast.dtype
    return given.is_floating and made.is_floating and made.itemsize > given.itemsize


@dataclass(frozen=True, slots=True)
class _Points:
    """What a scatter adds, and where."""

    index: Value
    added: Value


def _joined(scatters: Sequence[Scatter], dtype: DataType, emit: Emitter) -> Operation | None:
    """One scatter for all; none where they differ in more than their points."""
    first = scatters[0]
    if len({(scatter.mode, scatter.dim) for scatter in scatters}) > 1:
        return None
    parts = [part for scatter in scatters for part in _parts(scatter, emit)]
    along = _along(first)
    rests = {
        (with_size(part.index.shape, along), with_size(part.added.shape, first.dim))
        for part in parts
    }
    if len(rests) > 1 or len(parts) > MOST_JOINED:
        return None
    widest = max((part.index.dtype for part in parts), key=lambda index: index.itemsize)
    index = emit.add(Cat(tuple(emit.cast(part.index, widest) for part in parts), along))
    added = emit.add(Cat(tuple(emit.cast(part.added, dtype) for part in parts), first.dim))
    zeros = first.arg
    if zeros.dtype is not dtype:
        zero = zero_in(zeros, emit)
        assert zero is not None, "such are the scatters"
        zeros = emit.add(Full(zeros.shape, emit.add(zero), dtype))
    return Scatter(zeros, index, added, first.dim, first.mode)


def _along(op: Scatter) -> int:
    """The dimension of the index, once it has but one for points, that numbers them."""
    return 0 if op.mode.startswith("index") else op.dim


def _parts(op: Scatter, emit: Emitter) -> tuple[_Points, ...]:
    """The points of a scatter; those that were joined before, apart."""
    along, index, added = _along(op), op.index, op.src
    if not op.mode.startswith("index"):
        added = emit.leading(added, index.shape)
    elif len(index.shape) != 1:
        index = emit.add(View(index, (op.most_at_one_place,)))
        shape = with_size(op.arg.shape, op.dim, op.most_at_one_place)
        added = added if added.shape == shape else emit.add(View(added, shape))
    indices, sources = emit.producer(index), emit.producer(added)
    if not isinstance(indices, Cat) or not isinstance(sources, Cat):
        return (_Points(index, added),)
    sizes = [part.shape[along] for part in indices.args]
    apart = (indices.dim, sources.dim) == (along, op.dim)
    if not apart or sizes != [part.shape[op.dim] for part in sources.args]:
        return (_Points(index, added),)
    return tuple(map(_Points, indices.args, sources.args))
