"""Chains of metadata operations become one operation, or none.

T1 = fd.ops.reshape(T0, new_shape=[64, 128, 3072])          T0: Float[8192, 3072]
T2 = fd.ops.reshape(T1, new_shape=[8192, 3072])      ->     (T2 is T0)

T1 = fd.ops.permute(T0, dims=[0, 2, 1])
T2 = fd.ops.permute(T1, dims=[2, 0, 1])              ->     T2 = fd.ops.permute(T0, dims=[1, 0, 2])

T1 = fd.ops.reshape(T0, new_shape=[2, 4, 6])                T0: Float[8, 6]
T2 = fd.ops.permute(T1, dims=[2, 0, 1])
T3 = fd.ops.reshape(T2, new_shape=[6, 8])            ->     T3 = fd.ops.permute(T0, dims=[1, 0])

Squeezes, broadcasts and permutes that only move dimensions of size 1 are views. Alone, they stay as
they are written.
"""

from __future__ import annotations

from fuser.ir.nodes import (
    Broadcast,
    Expand,
    Flip,
    Fusion,
    MetadataOperation,
    Operation,
    Permute,
    Slice,
    Squeeze,
    Statement,
    Value,
    View,
    static,
)
from fuser.passes.factors import common_factors
from fuser.passes.rewrite import Emitter, rewrite

_STEPS = 4
"""How far up a chain is looked; what is above was composed before, if it can be."""


def compose_metadata(fusion: Fusion) -> Fusion:
    """`fusion` with metadata operations on metadata operations taken as one where they are one."""
    return rewrite(fusion, _compose)


def _compose(statement: Statement, emit: Emitter) -> Operation | Value | None:
    op = statement.op
    if not isinstance(op, MetadataOperation):
        return None
    shape = statement.out.shape
    if _changes_nothing(op, shape):
        return op.arg
    source = emit.producer(op.arg)
    match op, source:
        case ((View() | Squeeze() | Broadcast()), _):
            return _reshaped(op.arg, shape, emit)
        case Permute(), Permute():
            return _permute(source.arg, tuple(source.dims[dim] for dim in op.dims), shape)
        case Permute(), (View() | Squeeze() | Broadcast()) if _is_reshape(op):
            return _reshaped(op.arg, shape, emit)
        case Expand(), Expand():
            return Expand(source.arg, shape)
        case Slice(), Slice():
            return _slice(source, op, shape)
        case Flip(), Flip():
            return _flip(source.arg, set(source.dims) ^ set(op.dims))
        case _:
            return None


def _changes_nothing(op: MetadataOperation, shape: tuple[int, ...]) -> bool:
    match op:
        case Permute():
            return op.arg.shape == shape and _is_reshape(op)
        case Flip():
            return all(shape[dim] <= 1 for dim in op.dims)
        case _:
            return op.arg.shape == shape


def _is_reshape(op: Operation | None) -> bool:
    """Whether the elements keep their row-major order."""
    if isinstance(op, Permute):
        moved = [dim for dim in op.dims if op.arg.shape[dim] != 1]
        return moved == sorted(moved)
    return isinstance(op, View | Squeeze | Broadcast)


def _reshaped(value: Value, shape: tuple[int, ...], emit: Emitter) -> Operation | Value | None:
    """`value` as `shape`, read from as far up as its chain is one of reshapes."""
    root = value
    for _ in range(_STEPS):
        source = emit.producer(root)
        if not _is_reshape(source):
            break
        assert isinstance(source, View | Squeeze | Broadcast | Permute)
        root = source.arg
    else:
        source = None
    if isinstance(source, Permute):
        middle = emit.producer(source.arg)
        if isinstance(middle, View | Squeeze | Broadcast):
            change = _through_permute(middle, source, shape, emit)
            if change is not None:
                return change
    if root is value:
        return None
    return root if root.shape == shape else View(root, shape)


def _through_permute(
    before: View | Squeeze | Broadcast, permute: Permute, shape: tuple[int, ...], emit: Emitter
) -> Operation | Value | None:
    """A view, a permute and a view to `shape` as a permute alone, with a view if sizes of 1 differ.

    None where a dimension at the end is not one of those at the start.
    """
    root = before.arg
    factors = common_factors(root.shape, permute.arg.shape)
    if factors is None:
        return None
    order = [factor for dim in permute.dims for factor in factors.right[dim]]
    starts = {group[0]: dim for dim, group in enumerate(factors.left) if group}
    dims: list[int] = []
    for size in shape:
        if size == 1:
            continue
        dim = starts.get(order[0])
        if dim is None or root.shape[dim] != size:
            return None
        group = factors.left[dim]
        if tuple(order[: len(group)]) != group:
            return None
        del order[: len(group)]
        dims.append(dim)
    ones = [dim for dim, size in enumerate(root.shape) if size == 1]
    if len(shape) == len(root.shape):
        placed, others = iter(dims), iter(ones)
        ordered = tuple(next(others) if size == 1 else next(placed) for size in shape)
        return _permute(root, ordered, shape)
    if dims == sorted(dims):
        return View(root, shape)
    return View(emit.add(Permute(root, (*ones, *dims))), shape)


def _permute(root: Value, dims: tuple[int, ...], shape: tuple[int, ...]) -> Operation | Value:
    op = Permute(root, dims)
    return root if _changes_nothing(op, shape) else op


def _slice(first: Slice, second: Slice, shape: tuple[int, ...]) -> Operation:
    parts = map(static, (first.starts, first.steps, second.starts, second.steps))
    spans = zip(*parts, shape, strict=True)
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    for outer, pace, inner, step, size in spans:
        starts.append(outer + inner * pace if size else 0)
        ends.append(starts[-1] + (size - 1) * step * pace + 1 if size else 0)
        steps.append(step * pace)
    return Slice(first.arg, tuple(starts), tuple(ends), tuple(steps))


def _flip(root: Value, dims: set[int]) -> Operation | Value:
    kept = tuple(dim for dim in sorted(dims) if root.shape[dim] > 1)
    return Flip(root, kept) if kept else root
