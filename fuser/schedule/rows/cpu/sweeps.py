"""One sweep of a row on a processor, by one thread, with lanes along it.

    for each `lanes` elements: fold each into its lane; join the lanes
    for each block of elements: the same, joined to what is kept in a wider type

What is left after whole rounds of lanes is a round that is moved back to end in range, or, where no
element may be done again, single elements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fuser.schedule.code.lane_calls import (
    ANY_WAY,
    VECTOR,
    Alike,
    made_alike,
    with_lane_calls,
    worth_phases,
)
from fuser.schedule.code.lane_loads import done_in_vectors, lane_loads
from fuser.schedule.code.row_body import Code, Fold, Sweep
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import ZERO
from fuser.schedule.rows.cpu.folds import (
    KeptIn,
    accumulated,
    accumulated_in_lanes,
    folded_in_lanes,
    in_own_type,
    lane_parts,
    thread_partial,
    to_one_place,
    wide,
    without_repeats,
)
from fuser.schedule.rows.cpu.memory import consecutive, lanes_stored
from fuser.schedule.rows.parts import Part, parts_of
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.expressions import Ref
from fuser.schedule.tree.loop_tree import Loop, Node, Region, nested
from fuser.schedule.tree.row_statements import Accumulate, Finish, Partial
from fuser.schedule.tree.statements import Let, Load, Store
from fuser.schedule.tree.vectors import step_along, unrounded

ROUNDED = 32
"""Lanes whose results are rounded together: a vector of floats of 16 bits."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How sweeps may be done: whether elements `may_repeat`, and what all of them make `alike`."""

    parameters: CpuRowParameters
    may_repeat: bool
    alike: Alike = ANY_WAY


def in_one_way(make: Callable[[Ways], tuple[Node, ...]], ways: Ways) -> tuple[Node, ...]:
    """Loops that make each name in one way."""
    while True:
        nodes = make(ways)
        alike = made_alike(nodes, ways.alike)
        if alike == ways.alike:
            return nodes
        ways = dataclasses.replace(ways, alike=alike)


def once_a_row(sweep: Sweep) -> list[Node]:
    """What a stage without axes does."""
    assert not sweep.folds_of_row, "a fold needs points"
    return [*sweep.code, *accumulated(sweep.folds_over_rows), *sweep.stores]


# -- rounds of lanes -------------------------------------------------------------------------------


def sweep_along(
    sweep: Sweep,
    ways: Ways,
    kept_in: KeptIn,
    lanes: int | None = None,
    parts: Sequence[Part] = (),
) -> list[Node]:
    """A sweep, in `parts` if there are some, folded in lanes of the type that folds are `kept_in`.
    `lanes` is by default what joining them is worth."""
    parts = parts or (Part(sweep),)
    own = [*sweep.folds_of_row, *to_one_place(sweep)]
    if lanes is None or not own:
        lanes = _lanes_for(sweep, own, min(part.extent for part in parts), ways.parameters)
    before, _, after = folded_in_lanes(sweep.folds_of_row, lanes, kept_in)
    first, _, last = accumulated_in_lanes(sweep, lanes, kept_in)
    loops = (_part_along(part, ways, kept_in, lanes) for part in parts)
    return [*before, *nested(sweep.axes[:-1], Binding.SERIAL, (*first, *loops, *last)), *after]


def _lanes_for(sweep: Sweep, own: Sequence[Fold], extent: int, given: CpuRowParameters) -> int:
    """Lanes along so many elements, in which `own` folds are joined at the end. Of 8 bytes, half as
    many are as many vectors."""
    sizes = [load.dtype.itemsize for load in consecutive(sweep)]
    narrow, wide = any(size < 4 for size in sizes), any(size > 4 for size in sizes)
    arrays = sum(len(lane_parts(fold, fold.dtype)) for fold in own)
    joined = sweep.axes[-1].extent if to_one_place(sweep) else point_count(sweep.axes)
    lanes = lanes_for(given, extent, arrays, joined, narrow=narrow)
    if wide and lanes > 4:
        lanes //= 2
    return max(lanes, lanes_drawn(sweep, extent, given))


def lanes_for(
    given: CpuRowParameters, extent: int, arrays: int, joined: int, *, narrow: bool
) -> int:
    """Lanes along so many elements, of each of some arrays: joining them, once in `joined` points,
    should cost little beside these, of which `narrow` ones cost more when there are few lanes.
    Without arrays, as many as there are elements."""

    def enough(lanes: int) -> bool:
        if not arrays or lanes <= 8:
            return lanes <= extent
        if lanes <= given.processor.vector:
            return lanes <= extent and (1 + arrays) * lanes <= joined
        return 4 * lanes <= extent and lanes // 2 * arrays * lanes <= joined * (1 + narrow)

    lanes = given.lanes
    while lanes > 4 and not enough(lanes):
        lanes //= 2
    return lanes


def lanes_drawn(sweep: Sweep, extent: int, parameters: CpuRowParameters) -> int:
    """The fewest lanes of which no random number is thrown away, if a sweep over so many elements
    draws some."""
    return parameters.drawn_lanes if sweep.draws and extent >= 2 * parameters.drawn_lanes else 0


def _part_along(part: Part, ways: Ways, kept_in: KeptIn, lanes: int) -> Loop:
    """The loop over a part of a sweep. Where there is nothing to do for several lanes at once, long
    loops are left to the compiler."""
    sweep, given, may_repeat = part.sweep, ways.parameters, ways.may_repeat
    shortest = min(part.extent, given.block)
    if may_repeat and shortest >= lanes:
        if lanes % VECTOR == 0 and worth_phases(sweep.code, lanes, ways.alike.in_turn):
            return _phases(part, ways, kept_in, lanes)
        if _needs_lanes(sweep):
            return _rounds(part, kept_in, lanes)
    drawn, code = lane_loads(sweep, lanes, drawn_only=True)
    if drawn or _needs_lanes(sweep):
        return _rounds_and_rest(part, kept_in, lanes, (*drawn, *code))
    if may_repeat and shortest >= ROUNDED and _rounds_all(sweep):
        stored = lanes_stored(sweep, ROUNDED, ways.alike)
        return _loop(part, Binding.ROUNDS, ROUNDED, tuple(stored))
    vector = given.processor.vector
    if may_repeat and done_in_vectors(sweep, given.processor):
        if shortest >= vector:
            return _rounds(part, kept_in, vector)
        return _rounds_and_rest(part, kept_in, vector, sweep.code)
    return plain_loop(part)


def _needs_lanes(sweep: Sweep) -> bool:
    """Whether some lanes of a sweep are folded, or asked for, at once."""
    return bool(sweep.folds_of_row or to_one_place(sweep) or sweep.ahead)


def _rounds(part: Part, kept_in: KeptIn, lanes: int) -> Loop:
    """Rounds of lanes, of which the last is moved back."""
    loads, each = _lanes_of_round(part.sweep, kept_in, lanes)
    return _loop(part, Binding.ROUNDS, lanes, (*loads, *each))


def _phases(part: Part, ways: Ways, kept_in: KeptIn, lanes: int) -> Loop:
    """Such rounds, in phases with calls of all lanes between them."""
    loads, each = _lanes_of_round(part.sweep, kept_in, lanes)
    lane_loop = Loop(part.sweep.axes[-1], Binding.SIMD, (), lanes)
    held, phases = with_lane_calls(each, lanes, lane_loop, ways.alike)
    return _loop(part, Binding.ROUNDS, lanes, (*loads, *((*held, *phases) if held else each)))


def _rounds_and_rest(part: Part, kept_in: KeptIn, lanes: int, code: Sequence[Code]) -> Loop:
    """Rounds of lanes that do `code`, and what is left of the row one by one."""
    return _loop(part, Binding.SWEEP, lanes, (*code, *_results(part.sweep, kept_in, lanes)))


def _lanes_of_round(
    sweep: Sweep, kept_in: KeptIn, lanes: int
) -> tuple[list[Load], tuple[Code | Accumulate | Store, ...]]:
    """What a round that may be moved back has for all lanes, and what it does in each of them."""
    loads, code = lane_loads(sweep, lanes)
    return loads, (*code, *_results(without_repeats(sweep), kept_in, lanes))


def _results(sweep: Sweep, kept_in: KeptIn, lanes: int) -> tuple[Let | Accumulate | Store, ...]:
    """What a lane folds and stores."""
    _, within, _ = folded_in_lanes(sweep.folds_of_row, lanes, kept_in)
    _, to_rows, _ = accumulated_in_lanes(sweep, lanes, kept_in)
    return (*within, *to_rows, *sweep.stores)


def _rounds_all(sweep: Sweep) -> bool:
    """Whether a sweep folds nothing, and rounds all that it stores from float32 to 16 bits, of
    neighbours."""
    inner = sweep.axes[-1]
    rounds = (
        unrounded(store, sweep.code) is not store.source and step_along(store.at, inner) == 1
        for store in sweep.stores
    )
    return not sweep.folds and bool(sweep.stores) and all(rounds)


def _loop(part: Part, binding: Binding, lanes: int, inside: tuple[Node, ...]) -> Loop:
    ahead = (dataclasses.replace(asked, lanes=lanes) for asked in part.sweep.ahead)
    return Loop(part.sweep.axes[-1], binding, (*ahead, *inside), lanes, span=part.own_span)


def plain_loop(part: Part) -> Loop:
    """The loop over a part of which each element is done by itself, left to the compiler."""
    sweep = part.sweep
    inside = (*sweep.code, *accumulated(sweep.folds_over_rows), *sweep.stores)
    return Loop(sweep.axes[-1], Binding.SIMD, inside, span=part.own_span)


# -- blocks ----------------------------------------------------------------------------------------


def in_blocks(sweep: Sweep, ways: Ways, *, threaded: bool) -> Region:
    """A long sweep: folded within a block in the type of the fold, over blocks in a wider one; by
    one thread, or by threads that each have some blocks, and then join what they have."""
    *outer, inner = sweep.axes
    shared = threaded and not outer
    if threaded and sweep.stores:  # lanes would be moved back into another thread's block
        ways = dataclasses.replace(ways, may_repeat=False)
    given, partials = ways.parameters, partials_of(sweep)
    loops: list[Node] = []
    for part in parts_of(sweep, given.shortest_part):
        swept = block_of(part, partials, ways)
        if part.span or inner.extent > given.block or shared:
            swept = (Loop(inner, Binding.BLOCKS, swept, given.block, span=part.span),)
        loops += swept
    nodes = nested(outer, Binding.PARALLEL if threaded else Binding.SERIAL, tuple(loops))
    return Region(partials, nodes, tuple(Finish(p, ZERO) for p in partials), threaded=threaded)


def partials_of(sweep: Sweep) -> tuple[Partial, ...]:
    """What is kept of the folds of a row while its blocks are swept."""
    return tuple(thread_partial(dataclasses.replace(fold, slots=1)) for fold in sweep.folds_of_row)


def block_of(part: Part, partials: tuple[Partial, ...], ways: Ways) -> tuple[Node, ...]:
    """A block of a part of a long sweep, joined to `partials`."""
    sweep = part.sweep
    folds = tuple(
        fold if fold.slots else dataclasses.replace(fold, dtype=wide(fold)) for fold in sweep.folds
    )
    one = dataclasses.replace(sweep, axes=sweep.axes[-1:], folds=folds)
    parts = [dataclasses.replace(part, sweep=one, in_blocks=True)]
    swept = sweep_along(one, ways, in_own_type, parts=parts)
    return *swept, *(Accumulate(p, ZERO, Ref(p.name, p.kept)) for p in partials)
