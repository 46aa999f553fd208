"""Several neighbouring elements of a row for one thread, moved by vector accesses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from fuser.ir.nodes import Value
from fuser.schedule.heuristics import CudaRowParameters
from fuser.schedule.index import Axis, Index, affine_parts
from fuser.schedule.loop_tree import (
    Accumulate,
    Binding,
    IndexValue,
    Lanes,
    Let,
    Load,
    Loop,
    Node,
    Ref,
)
from fuser.schedule.mapping import Alignments
from fuser.schedule.row_axes import replace_axes
from fuser.schedule.row_body import Code, Fold, Sweep, names_in
from fuser.segmenter import Segment


def lanes_for(
    segment: Segment,
    sweep: Sweep,
    inner: Axis,
    alignments: Alignments,
    parameters: CudaRowParameters,
) -> int:
    """The widest power of two for which every consecutive access of a sweep is aligned."""
    _, vectors, _ = _divided(sweep.code, inner)
    accesses = [(node.tensor, node.at) for node in vectors]
    accesses += [(n.tensor, n.at) for n in sweep.stores if _is_consecutive(n.at, inner)]
    if not accesses:
        return 1
    sizes = [tensor.dtype.itemsize for tensor, _ in accesses]
    lanes = parameters.vector_bytes // min(sizes)
    while lanes > 1 and max(sizes) * lanes > parameters.max_lane_bytes:
        lanes //= 2

    def fits(tensor: Value, at: Index) -> bool:
        alignment = alignments[segment.memory[tensor].base]
        return _is_aligned(tensor.dtype.itemsize, at, lanes, inner, alignment)

    while lanes > 1 and (lanes > inner.extent or not all(fits(*access) for access in accesses)):
        lanes //= 2
    return lanes


def in_lanes(
    sweep: Sweep, accumulate: Callable[[Fold, Sweep], Accumulate], inner: Axis, lanes: int
) -> tuple[Node, ...]:
    """What a thread does at `lanes` neighbouring points of a sweep, from one along `inner`."""
    if lanes == 1:
        folds = (accumulate(fold, sweep) for fold in sweep.folds)
        return (*sweep.code, *folds, *sweep.stores)
    lane = Axis((*inner.path, 1), lanes)
    moved = replace_axes(sweep, {inner: Index(0, ((inner, 1), (lane, 1)))})
    same, vectors, _ = _divided(sweep.code, inner)
    once = {node.name for node in (*same, *vectors)}
    before: list[Node] = [*same, *(dataclasses.replace(node, lanes=lanes) for node in vectors)]
    within: list[Node] = [node for node in moved.code if node.name not in once]
    within += [accumulate(fold, moved) for fold in moved.folds]
    after: list[Node] = []
    for store, shifted in zip(sweep.stores, moved.stores, strict=True):
        if not _is_consecutive(store.at, inner):
            within.append(shifted)
            continue
        name, dtype = f"{store.tensor}_lanes", store.tensor.dtype
        before.append(Lanes(name, dtype, lanes))
        within.append(Let(name, dtype, store.source, in_lanes=True))
        after.append(dataclasses.replace(store, source=Ref(name, dtype), lanes=lanes))
    return (*before, Loop(lane, Binding.LANES, tuple(within)), *after)


def _divided(code: Sequence[Code], inner: Axis) -> tuple[list[Code], list[Load], list[Code]]:
    """What is the same for all lanes, loads of consecutive elements, and what each lane does."""
    same: list[Code] = []
    vectors: list[Load] = []
    each: list[Code] = []
    varying: set[str] = set()
    for node in code:
        depends = not varying.isdisjoint(names_in((node,)))
        if isinstance(node, Load) and _is_consecutive(node.at, inner) and not depends:
            vectors.append(node)
        elif depends or _follows(node, inner):
            each.append(node)
        else:
            same.append(node)
            continue
        varying.add(node.name)
    return same, vectors, each


def _follows(node: Code, inner: Axis) -> bool:
    """Whether an index in `node` moves with `inner`."""
    if isinstance(node, Load):
        at = node.at
    elif isinstance(node, Let) and isinstance(node.expression, IndexValue):
        at = node.expression.index
    else:
        return False
    return any(part.coefficient(inner) for part in affine_parts(at))


def _is_consecutive(at: Index, inner: Axis) -> bool:
    """Whether an access moves by one element for a step of `inner`."""
    divided = any(part.coefficient(inner) for part in list(affine_parts(at))[1:])
    return at.coefficient(inner) == 1 and not divided


def _is_aligned(size: int, at: Index, lanes: int, inner: Axis, alignment: int) -> bool:
    """Whether `lanes` elements from `at` start at a multiple of their bytes, up to 16."""
    wanted = min(lanes * size, 16)
    steps = [coefficient for term, coefficient in at.terms if term != inner]
    aligned = all(step * size % wanted == 0 for step in (*steps, at.constant))
    return aligned and alignment % wanted == 0
