"""Several neighbouring elements of a row for one thread, moved by vector accesses.

T0 = load 8 of bfloat16                         T0 = load 8 of bfloat16
for each lane: T1 = float(T0)           ->      T0_maximum = the largest of T0, two at a time
               T2 = maximum(T2, T1)             T2 = maximum(T2, float(T0_maximum))

What several loads of a point read beside each other is read as one run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fuser.schedule.code.axes import moved, replace_axes
from fuser.schedule.code.row_body import Fold, Sweep, names_in, nodes_read
from fuser.schedule.indices.index import Axis, Index, lanes_of, of_axis
from fuser.schedule.rows.vectors import Vectors, divided
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.buffers import Buffers
from fuser.schedule.tree.expressions import Convert, Ref, convert
from fuser.schedule.tree.folds import is_extreme
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.names import joined_name
from fuser.schedule.tree.row_statements import Accumulate, Combine, Keep, Kept
from fuser.schedule.tree.runs import load_run, runs_among
from fuser.schedule.tree.statements import Load, LoadRun, Store, reads_in
from fuser.schedule.tree.vectors import FLOATS_OF_16, step_along, stores_of_lanes

Moved = TypeVar("Moved", Load, Store)

_MOST_OF_POINT = 4
"""Elements of a run at one point."""
_MOST_OF_THREAD = 64
"""Bytes of a run that a thread reads at once."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A sweep at neighbouring points: what is done `once` for all, and at `each`, a `lane`; and the
    sweep at the `first` of them in memory."""

    lane: Axis
    once: tuple[Node, ...]
    each: Sweep
    first: Sweep


def neighbours(
    sweep: Sweep,
    inner: Axis,
    lanes: int,
    vectors: Vectors | None,
    *,
    turned: bool = False,
    runs: Sequence[LoadRun] = (),
) -> Neighbours:
    """A sweep at `lanes` points along `inner`, or if `turned`, along it from the last of them to
    the first; memory is read in vectors if there are some, and what `runs` read by these."""
    lane, replaced = lanes_of(inner, lanes)
    to_first: dict[Axis, Index] = {}
    if turned:
        last = of_axis(inner) + Index(lanes - 1)
        to_first, replaced = {inner: last}, {inner: last + of_axis(lane) * -1}
    each, first = replace_axes(sweep, replaced), replace_axes(sweep, to_first)
    same, moving = divided(sweep.code, inner, along=-1 if turned else 1)
    wide = [_widened(moved(node, to_first), vectors) for node in moving] if vectors else []
    names = {*(node.name for node in (*same, *wide)), *(name for run in runs for name in run.names)}
    once = (*same, *wide, *runs)
    code = tuple(node for node in each.code if node.name not in names)
    return Neighbours(lane, once, dataclasses.replace(each, code=code), first)


def in_lanes(
    sweep: Sweep,
    accumulate: Callable[[Fold, Sweep], Accumulate],
    inner: Axis,
    vectors: Vectors,
    buffers: Buffers | None = None,
) -> tuple[Node, ...]:
    """What a thread does at neighbouring points of a sweep, from one along `inner`; where tensors
    lie in `buffers`, runs of memory are read at once."""
    lanes = vectors.lanes
    if lanes == 1:
        folds = (accumulate(fold, sweep) for fold in sweep.folds)
        return (*sweep.code, *folds, *sweep.stores)
    runs = _runs(sweep, inner, vectors, buffers) if buffers else []
    taken = neighbours(sweep, inner, lanes, vectors, runs=runs)
    pairs = zip(sweep.stores, taken.each.stores, strict=True)
    single = [shifted for store, shifted in pairs if step_along(store.at, inner) != 1]
    wide = (_in_pieces(s, vectors) for s in sweep.stores if step_along(s.at, inner) == 1)
    arrays, fills, stores = stores_of_lanes(wide, lanes)
    narrow = _extremes_of_narrow(taken) if vectors.whole else {}
    joined: list[Node] = list(dict.fromkeys(narrow.values()))
    for fold, join in narrow.items():
        of_all = convert(Ref(join.name, join.dtype), fold.dtype)
        joined.append(accumulate(dataclasses.replace(fold, value=of_all), sweep))
    folds = (accumulate(fold, taken.each) for fold in taken.each.folds if fold not in narrow)
    done, code = (*folds, *single, *fills), taken.each.code
    if narrow:  # what was made for them is not
        code = nodes_read(code, set(names_in(done)))
    within = (*code, *done)
    each = [Loop(taken.lane, Binding.LANES, within)] if within else []
    return (*taken.once, *joined, *arrays, *each, *stores)


def _runs(sweep: Sweep, inner: Axis, vectors: Vectors, buffers: Buffers) -> list[LoadRun]:
    """What a sweep reads in runs, where vectors are whole and begin at multiples of their lanes."""
    if vectors.peel or not vectors.whole:
        return []
    found = runs_among(buffers, reads_in(sweep.code), inner, _MOST_OF_POINT)
    lanes = vectors.lanes
    short = (run for run in found if run.point_bytes * lanes <= _MOST_OF_THREAD)
    return [load_run(buffers, run, inner, lanes) for run in short]


def _extremes_of_narrow(taken: Neighbours) -> dict[Fold, Combine]:
    """The folds of a row to the largest, or the smallest, of floats of 16 bits that are read as
    vectors, with what joins the lanes of one: two at a time, before they are widened."""
    read = {n.name: n for n in taken.once if isinstance(n, Load | Kept) and n.lanes > 1}
    widened = {
        let.name: read[let.expression.of.name]
        for let in taken.each.lets
        if isinstance(let.expression, Convert)
        and isinstance(let.expression.of, Ref)
        and let.expression.of.name in read
    }
    found: dict[Fold, Combine] = {}
    for fold in taken.each.folds_of_row:
        given = widened.get(fold.value.name) if isinstance(fold.value, Ref) else None
        if given is None or given.dtype not in FLOATS_OF_16 or not is_extreme(fold.operation):
            continue
        name, dtype = joined_name(given.name, fold.operation), given.dtype
        found[fold] = Combine(name, dtype, (given.name,), dtype, given.lanes, fold.operation)
    return found


def _widened(node: Load | Keep | Kept, vectors: Vectors) -> Load | Keep | Kept:
    """A node that moves neighbouring elements at once."""
    node = _in_pieces(node, vectors) if isinstance(node, Load) else node
    return dataclasses.replace(node, lanes=vectors.lanes)


def _in_pieces(access: Moved, vectors: Vectors) -> Moved:
    """An access that moves as many elements at once as are aligned."""
    return dataclasses.replace(access, piece=vectors.pieces.get((access.tensor, access.at), 0))
