"""A scatter of one element a row is a comparison: no row is written twice.

T3 = fd.ops.scatter(T0, T1, T2, dim=1)       T0: Float[8, 12], T1: Int[8, 1], T2: Float[8, 1]
->
T4 = fd.ops.iota(12, start=S5, step=S6)
T7 = fd.ops.broadcast(T4, is_broadcast_dim=[True, False])
T8 = fd.ops.check_index(T1, size=12, operation="scatter")
T9 = fd.ops.eq(T7, T8)
T3 = fd.ops.where(T9, T2, T0)                        scatter_add: where(T9, add(T0, T2), T0),
                                                     and so for others that join
"""

from __future__ import annotations

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Broadcast,
    CheckIndex,
    Constant,
    Fusion,
    Iota,
    Operation,
    Pointwise,
    Scatter,
    Statement,
    Value,
)
from fuser.ir.shapes import with_size
from fuser.passes.constants import converted_scalar
from fuser.passes.ranges import Ranges
from fuser.passes.rewrite import Emitter, rewrite


def compare_in_scatters(fusion: Fusion) -> Fusion:
    """`fusion` with scatters whose index has one element along `dim` taken as `where`."""
    ranges = Ranges()

    def rule(statement: Statement, emit: Emitter) -> Operation | Value | None:
        ranges.note(statement)
        return _compared(statement.op, ranges, emit)

    return rewrite(fusion, rule, may_copy=True)


def _compared(op: Operation, ranges: Ranges, emit: Emitter) -> Operation | Value | None:
    if not isinstance(op, Scatter) or op.mode in ("index_add", "index_put_accumulate"):
        return None
    size = op.arg.shape[op.dim]
    rows = with_size(op.arg.shape, op.dim)
    if op.index.shape != rows or size == 0:
        return None
    source = op.src
    if source.is_tensor:
        source = emit.leading(source, rows)
    else:
        source = converted_scalar(source, op.arg.dtype, emit)
    if op.joins is not None:
        source = emit.add(Pointwise(op.joins, (op.arg, source)))
    chosen = emit.add(Pointwise("where", (_is_place(op, ranges, emit), source, op.arg)))
    return emit.cast(chosen, op.arg.dtype)


def _is_place(op: Scatter, ranges: Ranges, emit: Emitter) -> Value:
    """Whether an element of the data is the one of its row that the index names, which is checked
    where constants do not say that it is in range."""
    size = op.arg.shape[op.dim]
    start, step = (emit.add(Constant(number, DataType.Int)) for number in (0, 1))
    positions = emit.add(Iota(size, start, step, op.index.dtype))
    others = tuple(dim != op.dim for dim in range(len(op.arg.shape)))
    along = emit.add(Broadcast(positions, others)) if any(others) else positions
    low, high = ranges.bounds(op.index) or (-1, 0)
    is_in_range = low >= 0 and high < size
    index = op.index if is_in_range else emit.add(CheckIndex(op.index, size, op.mode))
    return emit.add(Pointwise("eq", (along, index)))
