"""Reductions of a few elements that lie apart, or were put side by side, are written out.

T2 = fd.ops.sum(T1, dims=[0])        T1: Float[2, 512, 768]
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
dimension. Another reader may want one of the elements, such as a color of three; where it wants all
of them, a kernel of rows reads them once.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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
from fuser.ir.pointwise import COMPARISONS, FOLDS
from fuser.ir.shapes import places
from fuser.passes.rewrite import Emitter, rewrite

MOST_APART = 8
"""Elements of a reduction that is written out: each is text of its own."""

MOST_STACKED = 32
"""Those of a reduction of what was put side by side: they are tensors of their own."""

_OF_NUMBERS = ("sum", "prod", "max", "min")

_MADE_APART = Pointwise | Cast | View | Permute | Broadcast | Expand | Squeeze
"""What makes each element of an operand by itself."""


@dataclass(frozen=True, slots=True)
class _Uses:
    """Who reads each value of a fusion, which are results, and the order in which they are made."""

    by_value: Mapping[Value, Sequence[Statement]]
    results: frozenset[Value]
    order: Mapping[Value, int]

    def readers(self, value: Value) -> Sequence[Statement]:
        return self.by_value.get(value, ())

    def is_read_once(self, value: Value) -> bool:
        return len(self.readers(value)) == 1 and value not in self.results


def fold_few_elements(fusion: Fusion) -> Fusion:
    """`fusion` with such reductions written out; they are folds already."""
    made = (*fusion.inputs, *(out for statement in fusion.statements for out in statement.outs))
    order = {value: number for number, value in enumerate(made)}
    uses = _Uses(fusion.uses(), frozenset(fusion.output_values), order)

    def rule(statement: Statement, emit: Emitter) -> Operation | Value | None:
        op = statement.op
        if not isinstance(op, Reduce) or op.op not in _OF_NUMBERS:
            return None
        if op.arg.dtype is not statement.out.dtype or op.arg.dtype.is_complex:
            return None
        if _is_of_stacks(op, uses, emit):
            computes = True
        else:
            inside = _read_apart(op, uses, emit) if _are_few(op) else None
            if inside is None:
                return None
            computes = any(isinstance(emit.producer(value), Pointwise | Cast) for value in inside)
        compared = computes and op.op in ("max", "min") and _may_be_compared(statement.out, uses)
        return None if compared else _folded(op, emit)

    return rewrite(fusion, rule, may_copy=True)


def _elements(op: Reduce) -> int:
    """Those that are folded into one."""
    return math.prod(op.arg.shape[dim] for dim in op.dims)


def _are_few(op: Reduce) -> bool:
    """Whether a fold has few elements, which are no neighbours."""
    return len(op.arg.shape) - 1 not in op.dims and 1 < _elements(op) <= MOST_APART


def _read_apart(op: Reduce, uses: _Uses, emit: Emitter) -> set[Value] | None:
    """What is folded and, element by element, that it is made of. None where one of these is read
    otherwise than at one of the elements, or folded too."""
    inside = set[Value]()
    pending: list[tuple[int, int, Value]] = []

    def visit(value: Value) -> None:
        if value.elements >= op.arg.elements:
            heapq.heappush(pending, (-uses.order.get(value, 0), value.id, value))

    visit(op.arg)
    while pending:
        *_, value = heapq.heappop(pending)  # the last one made: who reads it inside is known
        if value in inside:
            continue
        made, readers = emit.producer(value), uses.readers(value)
        if value in uses.results or not isinstance(made, _MADE_APART | Extern | None):
            return None
        if not readers or not all(r.outs[0] in inside or _reads_apart(r, op) for r in readers):
            return None
        inside.add(value)
        if isinstance(made, _MADE_APART):
            for operand in operands(made):
                visit(operand)
    return inside


def _reads_apart(reader: Statement, fold: Reduce) -> bool:
    """Whether a statement reads one element of what is folded, or folds it too."""
    match reader.op:
        case Reduce(arg=arg, dims=dims, op=name):
            return arg.shape == fold.arg.shape and dims == fold.dims and name in _OF_NUMBERS
        case Slice(arg=arg) if arg.shape == fold.arg.shape:
            return all(reader.out.shape[dim] == 1 for dim in fold.dims)
        case _:
            return False


def _is_of_stacks(op: Reduce, uses: _Uses, emit: Emitter) -> bool:
    """Whether a fold has as elements what was put side by side, or what follows from such, point by
    point, and is read by nothing else."""
    if len(op.dims) != 1 or not 1 < _elements(op) <= MOST_STACKED:
        return False
    found = False
    pending = [op.arg]
    while pending:
        value = pending.pop()
        if value.shape != op.arg.shape:
            if value.elements == op.arg.elements:
                return False
            continue
        if _stacked(value, op, emit):
            found = True
            continue
        made = emit.producer(value)
        if not uses.is_read_once(value) or not isinstance(made, Pointwise | Cast):
            return False
        pending += operands(made)
    return found


def _stacked(value: Value, op: Reduce, emit: Emitter) -> tuple[Value, ...]:
    """What was put side by side along the one dimension that is folded, an element each; nothing,
    if a value is no such stack."""
    made = emit.producer(value)
    if not isinstance(made, Cat) or (made.dim,) != tuple(op.dims):
        return ()
    return made.args if len(made.args) == _elements(op) else ()


def _may_be_compared(value: Value, uses: _Uses) -> bool:
    """Whether an extreme may be looked for among its elements, here or by a fusion to come: then
    both have to be made alike, which they are where it is one."""
    pending = [value]
    while pending:
        value = pending.pop()
        if value in uses.results:
            return True
        for reader in uses.readers(value):
            if isinstance(reader.op, Pointwise) and reader.op.op in COMPARISONS:
                return True
            if isinstance(reader.op, Cast | StrideOrder | MetadataOperation):
                pending += reader.outs
    return False


def _folded(op: Reduce, emit: Emitter) -> Value:
    """The fold written out, element by element."""
    # Of -0.0 alone, the sum is 0.
    total = emit.add(Constant(0, op.arg.dtype)) if op.op == "sum" else None
    for part in _stacked(op.arg, op, emit) or _parts(op, emit):
        one = part if op.keepdim else emit.add(Squeeze(part, op.dims))
        total = one if total is None else emit.add(Pointwise(FOLDS[op.op], (total, one)))
    assert total is not None
    return total


def _parts(op: Reduce, emit: Emitter) -> Iterator[Value]:
    """The elements at each place of the dimensions that are folded, one after the other."""
    shape = op.arg.shape
    for place in places([shape[dim] for dim in op.dims]):
        at = dict(zip(op.dims, place, strict=True))
        starts = tuple(at.get(dim, 0) for dim in range(len(shape)))
        ends = tuple(at[dim] + 1 if dim in at else size for dim, size in enumerate(shape))
        yield emit.add(Slice(op.arg, starts, ends, (1,) * len(shape)))
