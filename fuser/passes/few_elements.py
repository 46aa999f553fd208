"""Sums of a few elements that lie apart are additions.

T2 = fd.ops.sum(T1, dims=[0])        T1: Float[2, 512, 768], which nothing else reads
->
T3 = fd.ops.slice(T1, start_indices=[0, 0, 0], end_indices=[1, 512, 768]), and T4 the other half
T5 = fd.ops.squeeze(T3, dims=[0]), and T6 = fd.ops.squeeze(T4, dims=[0])
T2 = 0.0 + T5 + T6

Gradients of heads that share their keys are such, and of what is alike in a batch. They need no
kernel of rows: what surrounds them is turned, cut into pieces and vectorized as points are, and
rows of something else may be along any dimension. Where another reader wants the elements
themselves, a kernel of rows reads them once.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Constant,
    Expand,
    Extern,
    Fusion,
    Operation,
    Permute,
    Pointwise,
    Reduce,
    Slice,
    Squeeze,
    Statement,
    Value,
    View,
    operands,
)
from fuser.passes.rewrite import Emitter, rewrite

MOST_ADDED = 8
"""Elements of a sum that is written out: each is text of its own."""

_MADE_APART = Pointwise | Cast | View | Permute | Broadcast | Expand | Squeeze
"""What makes each element of an operand by itself."""


def add_few_elements(fusion: Fusion) -> Fusion:
    """`fusion` with such sums written out; reductions are folds already."""
    reads = Counter(value for s in fusion.statements for value in set(operands(s.op)))
    reads.update(fusion.output_values)

    def rule(statement: Statement, emit: Emitter) -> Operation | Value | None:
        op = statement.op
        if not isinstance(op, Reduce) or op.op != "sum" or not _are_few(op):
            return None
        if op.arg.dtype is not statement.out.dtype or not _is_read_here(op.arg, reads, emit):
            return None
        return _added(op, emit)

    return rewrite(fusion, rule, may_copy=True)


def _are_few(op: Reduce) -> bool:
    """Whether a sum has few elements, which are no neighbours."""
    shape = op.arg.shape
    return (
        not op.arg.dtype.is_complex
        and len(shape) - 1 not in op.dims
        and 1 < math.prod(shape[dim] for dim in op.dims) <= MOST_ADDED
    )


def _is_read_here(arg: Value, reads: Counter[Value], emit: Emitter) -> bool:
    """Whether nothing but a sum reads what it adds up, nor what that is made of."""
    pending = [arg]
    while pending:
        value = pending.pop()
        if value.elements < arg.elements:
            continue
        op = emit.producer(value)
        if reads[value] != 1 or not isinstance(op, _MADE_APART | Extern | None):
            return False
        if isinstance(op, _MADE_APART):
            pending += operands(op)
    return True


def _added(op: Reduce, emit: Emitter) -> Operation | Value:
    shape = op.arg.shape
    total = emit.add(Constant(0, op.arg.dtype))  # of -0.0 alone, the sum is 0
    for place in itertools.product(*(range(shape[dim]) for dim in op.dims)):
        at = dict(zip(op.dims, place, strict=True))
        starts = tuple(at.get(dim, 0) for dim in range(len(shape)))
        ends = tuple(at[dim] + 1 if dim in at else size for dim, size in enumerate(shape))
        part = emit.add(Slice(op.arg, starts, ends, (1,) * len(shape)))
        part = part if op.keepdim else emit.add(Squeeze(part, op.dims))
        total = emit.add(Pointwise("add", (total, part)))
    return total
