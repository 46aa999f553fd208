"""Reductions of a few elements that lie apart, or were put side by side, are written out.

T2 = fd.ops.sum(T1, dims=[0])        T1: Float[2, 512, 768], which nothing else reads
->
T3 = fd.ops.slice(T1, start_indices=[0, 0, 0], end_indices=[1, 512, 768]), and T4 the other half
T5 = fd.ops.squeeze(T3, dims=[0]), and T6 = fd.ops.squeeze(T4, dims=[0])
T2 = 0.0 + T5 + T6

T3 = fd.ops.max(fd.ops.cat([T0, T1, T2], dim=0), dims=[0])        each Float[1, 768]
->
T3 = fd.ops.maximum(fd.ops.maximum(T0, T1), T2), each squeezed

Gradients of heads that share their keys are such, and of what is alike in a batch; and the
logarithm of a sum of powers of what was stacked. They need no kernel of rows: what surrounds them
is turned, cut into pieces and vectorized as points are, and rows of something else may be along any
dimension. Where another reader wants the elements themselves, a kernel of rows reads them once.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Cat,
    Constant,
    Expand,
    Extern,
    Fusion,
    MetadataOperation,
    Operation,
    Permute,
    Pointwise,
    Reduce,
    Slice,
    Squeeze,
    Statement,
    StrideOrder,
    Value,
    View,
    operands,
)
from fuser.passes.compared_values import COMPARISONS
from fuser.passes.rewrite import Emitter, rewrite

MOST_ADDED = 8
"""Elements of a sum that is written out: each is text of its own."""

MOST_STACKED = 32
"""Those of a reduction of what was put side by side: they are tensors of their own."""

_FOLDS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}

_MADE_APART = Pointwise | Cast | View | Permute | Broadcast | Expand | Squeeze
"""What makes each element of an operand by itself."""

_Readers = Mapping[Value, Sequence[Statement]]


def fold_few_elements(fusion: Fusion) -> Fusion:
    """`fusion` with such reductions written out; they are folds already."""
    readers = defaultdict[Value, list[Statement]](list)
    for statement in fusion.statements:
        for value in dict.fromkeys(operands(statement.op)):
            readers[value].append(statement)
    outputs = frozenset(fusion.output_values)

    def rule(statement: Statement, emit: Emitter) -> Operation | Value | None:
        op = statement.op
        if not isinstance(op, Reduce) or op.op not in _FOLDS:
            return None
        if op.arg.dtype is not statement.out.dtype or op.arg.dtype.is_complex:
            return None
        if not _is_stacked(op, readers, outputs, emit):
            if op.op != "sum" or not _are_few(op):
                return None
            if not _is_read_here(statement, op.arg, readers, outputs, emit):
                return None
        elif op.op in ("max", "min") and _may_be_compared(statement.out, readers, outputs):
            return None
        return _folded(op, emit)

    return rewrite(fusion, rule, may_copy=True)


def _elements(op: Reduce) -> int:
    """Those that are folded into one."""
    return math.prod(op.arg.shape[dim] for dim in op.dims)


def _are_few(op: Reduce) -> bool:
    """Whether a fold has few elements, which are no neighbours."""
    return len(op.arg.shape) - 1 not in op.dims and 1 < _elements(op) <= MOST_ADDED


def _is_read_here(
    fold: Statement, arg: Value, readers: _Readers, outputs: frozenset[Value], emit: Emitter
) -> bool:
    """Whether nothing but a fold reads what it folds, nor what that is made of."""
    inside: set[Value] = set()
    pending = [arg]
    while pending:
        value = pending.pop()
        if value in inside or value.elements < arg.elements:
            continue
        inside.add(value)
        op = emit.producer(value)
        if value in outputs or not isinstance(op, _MADE_APART | Extern | None):
            return False
        if isinstance(op, _MADE_APART):
            pending += operands(op)
    here = inside.union(fold.outs)
    return all(readers[v] and all(r.outs[0] in here for r in readers[v]) for v in inside)


def _is_stacked(op: Reduce, readers: _Readers, outputs: frozenset[Value], emit: Emitter) -> bool:
    """Whether a fold has as elements what was put side by side, or what follows from such, point by
    point, and is read by nothing else."""
    if len(op.dims) != 1 or not 1 < _elements(op) <= MOST_STACKED:
        return False
    stacks = 0
    pending = [op.arg]
    while pending:
        value = pending.pop()
        if value.shape != op.arg.shape:
            if value.elements == op.arg.elements:
                return False
            continue
        made = emit.producer(value)
        if isinstance(made, Cat) and made.dim == op.dims[0] and len(made.args) == _elements(op):
            stacks += 1
            continue
        alone = len(readers[value]) == 1 and value not in outputs
        if not alone or not isinstance(made, Pointwise | Cast):
            return False
        pending += operands(made)
    return stacks > 0


def _may_be_compared(value: Value, readers: _Readers, outputs: frozenset[Value]) -> bool:
    """Whether an extreme may be looked for among its elements, here or by a fusion to come: then
    both have to be made alike, which they are where it is one."""
    pending = [value]
    while pending:
        value = pending.pop()
        if value in outputs:
            return True
        for reader in readers[value]:
            if isinstance(reader.op, Pointwise) and reader.op.op in COMPARISONS:
                return True
            if isinstance(reader.op, Cast | StrideOrder | MetadataOperation):
                pending += reader.outs
    return False


def _folded(op: Reduce, emit: Emitter) -> Operation | Value:
    shape = op.arg.shape
    # Of -0.0 alone, the sum is 0.
    total = emit.add(Constant(0, op.arg.dtype)) if op.op == "sum" else None
    for place in itertools.product(*(range(shape[dim]) for dim in op.dims)):
        part = _part(op, dict(zip(op.dims, place, strict=True)), emit)
        part = part if op.keepdim else emit.add(Squeeze(part, op.dims))
        total = part if total is None else emit.add(Pointwise(_FOLDS[op.op], (total, part)))
    assert total is not None
    return total


def _part(op: Reduce, at: Mapping[int, int], emit: Emitter) -> Value:
    """The elements at one place of the dimensions that are folded."""
    whole, shape = emit.producer(op.arg), op.arg.shape
    if isinstance(whole, Cat) and [whole.dim] == list(op.dims) and len(whole.args) == _elements(op):
        return whole.args[at[whole.dim]]
    starts = tuple(at.get(dim, 0) for dim in range(len(shape)))
    ends = tuple(at[dim] + 1 if dim in at else size for dim, size in enumerate(shape))
    return emit.add(Slice(op.arg, starts, ends, (1,) * len(shape)))
