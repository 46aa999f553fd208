"""Online softmax: exponentials less a maximum are summed while the maximum is still being found.

    sweep   T1 folds T0 by maximum               block by block:
    sweep   T3 = exp(T0 - T1); T4 folds T3   ->    T1_block folds T0 by maximum
                                                   T1 = max(T1, T1_block); T4 times exp(old T1 - T1)
                                                   T3 = exp(T0 - T1); T4 folds T3

A long row is so read from memory once, by a processor that computes meanwhile. Source: M. Milakov,
N. Gimelshein, Online normalizer calculation for softmax, 2018.
"""

from __future__ import annotations

import dataclasses

from fuser.ir.dtypes import DataType
from fuser.schedule.code.row_body import RowBody, Sweep
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import ZERO
from fuser.schedule.rows.buffers import keep_in_row
from fuser.schedule.rows.cpu.folds import in_own_type
from fuser.schedule.rows.cpu.memory import ask_for, consecutive
from fuser.schedule.rows.cpu.ranks import by_rank
from fuser.schedule.rows.cpu.sweeps import Ways, block_of, once_a_row, partials_of, sweep_along
from fuser.schedule.rows.parts import Part, parts_of
from fuser.schedule.rows.powers import powers_in, powers_pair
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.expressions import Call, Literal, Ref
from fuser.schedule.tree.loop_tree import Loop, Node, Region
from fuser.schedule.tree.names import block_name
from fuser.schedule.tree.row_statements import Accumulate, Finish, Raise


def online_pair(body: RowBody, parameters: CpuRowParameters) -> tuple[Sweep, Sweep] | None:
    """Two sweeps, one after the other, that may go through a long row together, if there are such:
    the first finds its largest element, the second one sums. What is done once between them may as
    well be done after them."""
    pair = powers_pair(body.stages)
    if pair is None or _read_bytes(pair[1]) < parameters.online_bytes:
        return None
    whole = len(parts_of(pair[0], parameters.shortest_part)) == 1
    return pair if whole else None


def keep_or_sum_online(
    body: RowBody, parameters: CpuRowParameters
) -> tuple[RowBody, tuple[Sweep, Sweep] | None]:
    """`body` with what sweeps share kept in the row, and the pair that still goes through it
    together. Powers of a pair are not kept if a core's own cache has no room for them and the row:
    it is read once then, and they are made twice."""
    pair = online_pair(body, parameters)
    if pair and _read_bytes(pair[1]) + _kept_bytes(pair[1]) > parameters.cached_bytes:
        again = keep_in_row(body, parameters.kept_bytes, but=powers_in(pair[1].code))
        if pair := online_pair(again, parameters):
            return again, pair
    kept = keep_in_row(body, parameters.kept_bytes)
    return kept, online_pair(kept, parameters)


def swept_online(largest: Sweep, sums: Sweep, ways: Ways) -> list[Node]:
    """The loops of such a pair, block by block."""
    parameters = ways.parameters
    (axis,) = sums.axes
    (fold,) = largest.folds
    block = dataclasses.replace(fold, name=block_name(fold.name))
    (held,), sums_held = partials_of(largest), partials_of(sums)
    found = dataclasses.replace(largest, folds=(block,), ahead=())
    risen = Raise(fold.name, held, Ref(block.name, held.kept), sums_held)
    summed = dataclasses.replace(sums, ahead=tuple(ask_for(largest, parameters.online_block)))
    inner = block_of(Part(summed), sums_held, ways)
    found, *numbers = by_rank(found)
    loops = (
        *sweep_along(found, ways, in_own_type),
        *(node for once in numbers for node in once_a_row(once)),
        risen,
        Loop(axis, Binding.BLOCKS, inner, parameters.block),
    )
    # Without any finite number a row has no sum.
    none = Call("mul", (Literal(0, held.kept), Ref(fold.name, held.kept)), held.kept)
    finished = (
        Finish(held, ZERO),
        *(Accumulate(partial, ZERO, none) for partial in sums_held),
        *(Finish(partial, ZERO) for partial in sums_held),
    )
    blocks = Loop(axis, Binding.BLOCKS, loops, parameters.online_block)
    return [Region((held, *sums_held), (blocks,), finished, threaded=False)]


def _read_bytes(sweep: Sweep) -> int:
    """Bytes that a sweep reads of a row."""
    return sum(load.dtype.itemsize * sweep.axes[-1].extent for load in consecutive(sweep))


def _kept_bytes(sweep: Sweep) -> int:
    """Bytes of a row's powers."""
    return point_count(sweep.axes) * DataType.Float.itemsize
