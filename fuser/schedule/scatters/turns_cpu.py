"""Points that a processor places one after the other; what is much work, side by side before.

    for i0 < T: T4_index = T2[i0]; T4[T4_index] += sin(T3[i0])

->  for 64 points at a time:
      lanes    T4_placed = sin(T3[i0])
      in turn  T4_index = T2[i0]; T4[T4_index] += T4_placed

Two points may have one place, so a loop that places them makes no vectors of what it computes. The
index is made side by side, too, if it is computed. One that is only read had better not wait for an
array: until it is known where an element was added, nobody reads the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fuser.schedule.code.lane_calls import with_lane_calls
from fuser.schedule.code.row_body import Code, as_lane, names_in, nodes_read
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.indices.rewrites import variables_of
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import arithmetic
from fuser.schedule.tree.expressions import Ref, convert
from fuser.schedule.tree.loop_tree import Loop
from fuser.schedule.tree.row_statements import KeepAt
from fuser.schedule.tree.statements import CheckedIndex, Lanes, Let, Store, draws


def placed_in_turn(
    axis: Axis,
    code: Sequence[Code],
    placed: KeepAt | Store,
    given: CpuRowParameters,
    span: tuple[int, int] | None = None,
) -> Loop:
    """The loop over the points of an axis, or of a span: `code` makes what is `placed`, and where.
    A last round is moved back; points that were placed before are not placed again."""
    start, end = span or (0, axis.extent)
    count = min(given.processor.chunk, 1 << max(end - start, 1).bit_length() - 1)
    too_few = count < given.shortest_part
    if too_few or draws(code) or arithmetic(code) < given.placed_in_lanes:
        return Loop(axis, Binding.SERIAL, (*code, placed), span=span)
    each = Loop(axis, Binding.SIMD, (), count)
    name = f"{placed.tensor if isinstance(placed, Store) else placed.name}_placed"
    dtype = placed.dtype
    made = Let(name, dtype, convert(placed.source, dtype), in_lanes=True)
    value = nodes_read(code, set(names_in((made,))), reporting=False)
    held, phases = with_lane_calls((*value, made), count, each)
    placed = replace(placed, source=Ref(name, dtype))
    wanted = {variable.name for variable in variables_of(placed.at)}
    index = nodes_read(code, set(wanted))
    places: list[Code] = []
    if arithmetic(index) >= given.indexed_in_lanes:
        places = [node for node in index if node.name in wanted]
        lanes = (_as_lane(node) if node in places else node for node in index)
        phases, index = [replace(each, body=tuple(lanes)), *phases], ()
    arrays = (*(Lanes(node.name, node.dtype, count) for node in places), Lanes(name, dtype, count))
    in_turn = Loop(axis, Binding.CHUNK_IN_TURN, (*index, placed), count)
    return Loop(axis, Binding.ROUNDS, (*arrays, *held, *phases, in_turn), count, span=span)


def _as_lane(node: Code) -> Code:
    """An index that names no place where it is out of range, which is asked in turn."""
    if isinstance(node, CheckedIndex):
        node = replace(node, skips=False, outside=-1)
    return as_lane(node)
