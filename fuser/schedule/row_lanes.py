"""Several neighbouring elements of a row for one thread, moved by vector accesses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

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
from fuser.schedule.row_axes import replace_axes
from fuser.schedule.row_body import Code, Fold, Sweep, names_in
from fuser.schedule.vectors import Alignments, step_along, widest_lanes
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
    accesses += [(n.tensor, n.at) for n in sweep.stores if step_along(n.at, inner) == 1]
    widest, held = parameters.vector_bytes, parameters.max_lane_bytes
    return widest_lanes(segment, accesses, inner, alignments, widest, held)


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
        if step_along(store.at, inner) != 1:
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
        if isinstance(node, Load) and step_along(node.at, inner) == 1 and not depends:
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
