"""A choice between two tensors that constants decide is one of them.

T1 = fd.ops.iota(8, start=S0, step=S1)               0 to 7
T2 = fd.ops.ne(T1, S2)                               S2: -100
T3 = fd.ops.where(T2, T1, S3)
->
T3 = T1

Losses compare their targets with the index that is ignored, and targets may be a range.
"""

from __future__ import annotations

from fuser.ir.nodes import Cast, Fusion, Operation, Pointwise, Statement, Value
from fuser.passes.ranges import Ranges
from fuser.passes.rewrite import Emitter, rewrite


def take_known_choices(fusion: Fusion) -> Fusion:
    """`fusion` without choices of which every element is known to be that of one operand."""
    ranges = Ranges()

    def rule(statement: Statement, emit: Emitter) -> Operation | Value | None:
        ranges.note(statement)
        op = statement.op
        if not isinstance(op, Pointwise) or op.op != "where":
            return None
        out = statement.out
        condition, yes, no = op.args
        chosen = ranges.number(condition)
        if chosen is None:
            return None
        taken = yes if chosen else no
        if not taken.is_tensor:
            return None
        if taken.dtype is not out.dtype:
            taken = emit.add(Cast(taken, out.dtype))
        return emit.expanded(taken, out.shape)

    return rewrite(fusion, rule, may_copy=True)
