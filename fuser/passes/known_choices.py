"""A choice between two tensors that constants decide is one of them.

T1 = fd.ops.iota(8, start=S0, step=S1)               0 to 7
T2 = fd.ops.ne(T1, S2)                               S2: -100
T3 = fd.ops.where(T2, T1, S3)
->
T3 = T1

Losses compare their targets with the index that is ignored, and targets may be a range.
"""

from __future__ import annotations

from fuser.ir.nodes import Fusion, Operation, Pointwise, Statement, Value
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
        condition, yes, no = op.args
        chosen = ranges.number(condition)
        if chosen is None:
            return None
        taken = yes if chosen else no
        if not taken.is_tensor:
            return None
        return emit.expanded(emit.cast(taken, statement.out.dtype), statement.out.shape)

    return rewrite(fusion, rule, may_copy=True)
