"""Rows of a few elements on a processor: neighbouring rows in lanes, all of a row in each.

    means of T0 [1000, 4]     for i0 < 1000: T1 = T0[4 i0] + T0[4 i0 + 1] + ...; store T1 / 4

Nothing is kept in memory between sweeps, and what two of them compute is computed once.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator

from fuser.ir.dtypes import Category
from fuser.ir.nodes import Value
from fuser.schedule.code.axes import places_along, replace_axes
from fuser.schedule.code.row_body import Fold, RowBody
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.rows.cpu.folds import in_own_type, widened_blocks
from fuser.schedule.rows.cpu.sweeps import Ways, sweep_along
from fuser.schedule.rows.straight import straight_row
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import ceil_div, point_count
from fuser.schedule.tree.loop_tree import Loop, Node, nested
from fuser.schedule.tree.row_statements import Running
from fuser.schedule.tree.statements import CheckedIndex, Let, Load, Store
from fuser.schedule.tree.vectors import PERMUTED_STEPS, SHORTEST_VECTOR, step_along
from fuser.segmenter.refusal import Refusal


def as_whole(body: RowBody, parameters: CpuRowParameters) -> RowBody | Refusal:
    """Rows in an order in which one lane does each, if they are short, and near each other in
    memory; few that lie between them are done by the same lane."""
    refusals: list[Refusal] = []
    for place in reversed(range(len(body.rows))):
        ordered = _ordered(body, place, parameters)
        refusal = _refusal(ordered, parameters)
        if refusal is None:
            return ordered
        refusals.append(refusal)
    return refusals[0] if refusals else Refusal("there is one row only")


def _ordered(body: RowBody, place: int, parameters: CpuRowParameters) -> RowBody:
    """A body with the axis of rows at a place innermost. Rows along the axes that were inside it,
    if they are as few elements as one row may have, are stages of one row:

        for i0 < 3: for i1 < 1000: sum T0[9 i1 + 3 i0], ...
    ->  for i1 < 1000: sum T0[9 i1], ...; sum T0[9 i1 + 3], ...; sum T0[9 i1 + 6], ...
    """
    outer, inner, between = body.rows[:place], body.rows[place], body.rows[place + 1 :]
    together = point_count(between) * body.longest <= parameters.whole_matrix
    if not together or body.folds_over_rows:
        return dataclasses.replace(body, rows=(*outer, *between, inner))
    rows = places_along(between)
    stages = (replace_axes(stage, row) for row in rows for stage in body.stages)
    return dataclasses.replace(body, rows=(*outer, inner), stages=tuple(stages))


def _refusal(body: RowBody, parameters: CpuRowParameters) -> Refusal | None:
    """Why neighbours along the innermost axis of rows are not done by a lane each."""
    inner, longest = body.rows[-1], body.longest
    most = parameters.whole_window if _is_window(body) else parameters.whole_row
    if longest > most:
        return Refusal(f"a row has {longest} elements, more than {most}")
    if longest > parameters.surely_whole_row and not _is_window(body):
        if body.folds_over_rows:
            return Refusal(f"rows of {longest} elements fold into each other")
        if _work_alone(body, parameters) > _work_along(body, parameters):
            return Refusal("moving each element by itself takes longer than lanes along the row")
    if inner.extent < parameters.whole_rows:
        return Refusal(f"{inner.extent} rows are neighbours, fewer than {parameters.whole_rows}")
    if not body.swept:
        return Refusal("nothing is swept")
    statements = parameters.processor.most_statements
    if sum(point_count(sweep.axes) * len(sweep.code) for sweep in body.stages) > statements:
        return Refusal(f"a row would be more than {statements} statements")
    if not all(isinstance(node, Load | Let | CheckedIndex | Running) for node in body.code):
        return Refusal("a row is more than straight-line code")
    touched = (each for sweep in body.stages for each in (*sweep.accesses, *sweep.folds))
    if not all(_is_near(each, inner, parameters.whole_matrix) for each in touched):
        return Refusal("neighbouring rows are not near each other in memory")
    return None


def _work_alone(body: RowBody, parameters: CpuRowParameters) -> float:
    """Instructions for one of the rows that are side by side in lanes, roughly. What compilers
    neither find side by side nor permute is moved by itself."""
    inner, steps = body.rows[-1], (0, 1, *PERMUTED_STEPS)
    moved = {
        (access.tensor, access.at): point_count(sweep.axes)
        for sweep in body.swept
        for access in sweep.accesses
        if step_along(access.at, inner) not in steps
    }
    swept = sum(sweep.cost * point_count(sweep.axes) for sweep in body.swept)
    return sum(moved.values()) * parameters.moved_alone + swept / parameters.processor.vector


def _work_along(body: RowBody, parameters: CpuRowParameters) -> float:
    """Instructions for a row that has lanes along it, in half vectors, roughly: twice as many where
    narrow numbers are read or stored."""
    accesses = [access for sweep in body.swept for access in sweep.accesses]
    rounds = ceil_div(body.longest, SHORTEST_VECTOR)
    joins = sum(len(sweep.folds_of_row) for sweep in body.swept)
    work = sum(sweep.cost for sweep in body.swept) * rounds + parameters.work_of_join * joins
    return work * (2 if any(access.dtype.itemsize < 4 for access in accesses) else 1)


def whole_rows(body: RowBody, ways: Ways) -> tuple[Node, ...]:
    """Loops over rows, the innermost over lanes. As one sweep, neighbouring rows fold into what is
    folded over the rows; the last ones are moved back to end in range, where they may be done
    twice."""
    *outer, inner = body.rows
    rows, parameters = straight_row(body), ways.parameters
    rows = dataclasses.replace(rows, stores=tuple(_along_rows(rows.stores)))
    if not rows.folds:
        loop = Loop(inner, Binding.SIMD, (*rows.code, *rows.stores))
        return nested(outer, Binding.PARALLEL, (loop,))
    swept = sweep_along(rows, ways, in_own_type)
    nodes = (*swept, *widened_blocks(body, parameters.row_block, outer, side_by_side=inner))
    blocks = Loop(inner, Binding.BLOCKS, nodes, parameters.block)
    return nested(outer, Binding.PARALLEL, (blocks,))


def _along_rows(stores: Iterable[Store]) -> Iterator[Store]:
    """Stores of a row, of which compilers make vectors along the rows only: neighbours are not
    alike. (Of truth values they are, as g++ 12 fails where these are kept apart.)"""
    stored = Counter[Value]()
    for store in stores:
        stored[store.tensor] += 1
        is_number = store.dtype.category in (Category.FLOAT, Category.INTEGER)
        yield dataclasses.replace(store, apart=is_number and stored[store.tensor] % 2 == 0)


def _is_window(body: RowBody) -> bool:
    """Whether all that is swept has several axes, too short for vectors along them."""
    return all(
        len(sweep.axes) > 1 and sweep.axes[-1].extent < SHORTEST_VECTOR for sweep in body.swept
    )


def _is_near(access: Load | Store | Fold, inner: Axis, most: int) -> bool:
    """Whether an access, or what rows are added to, takes short steps from row to row, or goes
    where an index says."""
    step = step_along(access.at, inner)
    is_drawn = isinstance(access, Load) and access.drawn is not None
    return not is_drawn and step is not None and 0 <= step <= most
