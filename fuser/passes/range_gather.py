"""A gather by a range is a slice; by a falling one a flipped slice, by one that stays an expand.

T1 = fd.ops.iota(4, start=S1, step=S2)               3, 5, 7, 9       T0: Float[8, 12]
T2 = fd.ops.index_select(T0, T1, dim=1)
->
T2 = fd.ops.slice(T0, start_indices=[0, 3], end_indices=[8, 10], strides=[1, 2])

So is `select` at a constant. A range that leaves the dimension stays a gather: it raises when it is
executed, as in torch.
"""

from __future__ import annotations

from fuser.ir.nodes import Expand, Flip, Fusion, Gather, Operation, Slice, Squeeze, Statement, Value
from fuser.passes.ranges import Range, Ranges
from fuser.passes.rewrite import Emitter, rewrite


def slice_range_gathers(fusion: Fusion) -> Fusion:
    """`fusion` with gathers by constant ranges taken as slices."""
    ranges = Ranges()

    def rule(statement: Statement, emit: Emitter) -> Operation | Value | None:
        ranges.note(statement)
        op = statement.op
        if not isinstance(op, Gather):
            return None
        positions = _positions(op, ranges)
        return None if positions is None else _read(op, positions, statement.out.shape, emit)

    return rewrite(fusion, rule, may_copy=True)


def _positions(op: Gather, ranges: Ranges) -> Range | None:
    """The positions that are read along `dim`, none of them negative."""
    along = 0 if op.mode in ("select", "index_select") else op.dim
    found = ranges.along(op.index, along)
    if found is None:
        return None
    return found.within(op.arg.shape[op.dim], wraps=op.mode in ("select", "take_along_axis"))


def _read(op: Gather, positions: Range, shape: tuple[int, ...], emit: Emitter) -> Value:
    step = abs(positions.step)
    start, end = positions.low, positions.high + 1
    ends = list(op.index.shape if op.mode == "gather" else op.arg.shape)
    starts, steps = [0] * len(ends), [1] * len(ends)
    if positions.count == 0:
        start, end, step = 0, 0, 1
    starts[op.dim], ends[op.dim], steps[op.dim] = start, end, max(step, 1)
    value = op.arg
    if (sum(starts), tuple(ends), max(steps)) != (0, value.shape, 1):
        value = emit.add(Slice(value, tuple(starts), tuple(ends), tuple(steps)))
    if positions.step < 0:
        value = emit.add(Flip(value, (op.dim,)))
    if op.mode == "select":
        return emit.add(Squeeze(value, (op.dim,)))
    return value if value.shape == shape else emit.add(Expand(value, shape))
