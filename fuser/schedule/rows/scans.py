"""A sweep that scans, in phases: what is done at some neighbouring points before and after a scan.

    sweep  T0 = load           lanes   T0 = load; T1 = T0          phase 1
           T1 = running sum    scan T1, and go on from the carry
           store T1 - T0       lanes   store T1 - T0               phase 2

Sums and products of float32 are made in float64, so that the error does not grow with the length of
the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fuser.schedule.code.row_body import Code, Fold, RowBody, Sweep, as_lane, names_in, nodes_read
from fuser.schedule.rows.axes import turned_axes
from fuser.schedule.tree.expressions import Ref, convert, join
from fuser.schedule.tree.folds import kept_dtype, neutral
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.row_statements import Carry, Keep, Kept, Running, ScanLanes
from fuser.schedule.tree.statements import Lanes, Let, Store
from fuser.schedule.tree.vectors import step_along, stores_of_lanes

Phase = tuple[Code, ...]


def carry_of(scan: Running) -> Carry:
    """What a scan has come to: of float32, a float64, except where nothing is rounded."""
    dtype = kept_dtype(scan.operation, scan.dtype)
    return Carry(scan.carry, dtype, scan.operation, neutral(scan.operation, dtype))


def turned_with_scans(body: RowBody) -> RowBody:
    """`body` with its rows walked from the last one to the first, if a scan goes so along a row."""
    return turned_axes(body, body.rows) if any(map(is_turned, body.stages)) else body


def is_turned(sweep: Sweep) -> bool:
    """Whether a sweep that scans goes back through memory."""
    if not sweep.scans:
        return False
    steps = [step_along(access.at, sweep.axes[-1]) for access in sweep.accesses]
    return steps.count(-1) > steps.count(1)


def scanned_lanes(
    sweep: Sweep,
    within: Sequence[Node],
    stores: Sequence[Store],
    count: int,
    lane_loop: Loop,
    *,
    filled: bool,
) -> tuple[Node, ...]:
    """What is done at `count` neighbouring points: phases in a `lane_loop`, and scans between them.

    The last phase does `within` too, and fills what `stores` move at once. Names that a later phase
    needs become arrays. If `filled`, those that are scanned hold at first what changes no result:
    not all lanes may have a point.
    """
    ends = (*sweep.folds, *sweep.stores, *stores)
    phases = _kept_read_again(_phases(sweep.code), ends)
    crossing = _crossing(phases, ends)
    arrays: list[Lanes] = []
    nodes: list[Node] = []
    for phase in phases[:-1]:
        *before, scan = phase
        assert isinstance(scan, Running)
        fill = neutral(scan.operation, scan.dtype) if filled else None
        made, inside = _handed_on(before, crossing, count)
        arrays += (*made, Lanes(scan.name, scan.dtype, count, fill))
        given = Let(scan.name, scan.dtype, convert(scan.value, scan.dtype), in_lanes=True)
        nodes.append(replace(lane_loop, body=(*inside, given)))
        nodes.append(ScanLanes(scan.name, scan.dtype, count, carry_of(scan)))
    made, inside = _handed_on(phases[-1], crossing, count)
    in_arrays = crossing | {scan.name for scan in sweep.scans}
    held, fills, moved = stores_of_lanes(stores, count, in_arrays)
    if ending := (*inside, *within, *fills):
        nodes.append(replace(lane_loop, body=ending))
    return (*arrays, *made, *held, *nodes, *moved)


def _handed_on(
    phase: Sequence[Code], crossing: set[str], count: int
) -> tuple[list[Lanes], list[Code]]:
    """Arrays for what later phases need of this one, and the phase, which fills a lane of each."""
    handed_on = [n for n in phase if n.name in crossing and not isinstance(n, Keep)]
    arrays = [Lanes(node.name, node.dtype, count) for node in handed_on]
    return arrays, [as_lane(node) if node in handed_on else node for node in phase]


def point_by_point(code: Sequence[Code]) -> list[Code]:
    """A sweep's code where each lane goes from point to point: it joins a carry of its own."""
    nodes: list[Code] = []
    for node in code:
        if not isinstance(node, Running):
            nodes.append(node)
            continue
        carry = carry_of(node)
        held = Ref(carry.name, carry.dtype)
        nodes.append(
            Let(carry.name, carry.dtype, join(carry.operation, held, node.value), in_lanes=True)
        )
        nodes.append(Let(node.name, node.dtype, convert(held, node.dtype)))
    return nodes


def independent(sweep: Sweep) -> bool:
    """Whether no scan of a sweep needs another: then what parts of a row come to can be joined."""
    varying: set[str] = set()
    for node in sweep.code:
        if not varying.isdisjoint(names_in((node,))):
            if isinstance(node, Running):
                return False
            varying.add(node.name)
        elif isinstance(node, Running):
            varying.add(node.name)
    return True


def scans_in_parts(sweep: Sweep) -> bool:
    """Whether threads may scan a part of a sweep each, if it is scanned."""
    return not sweep.scans or (len(sweep.axes) == 1 and not sweep.folds and independent(sweep))


def totals_of(sweep: Sweep) -> Sweep:
    """The sweep that makes the totals of independent scans."""
    folds: list[Fold] = []
    for scan in sweep.scans:
        carry = carry_of(scan)
        value = convert(scan.value, carry.dtype)
        folds.append(Fold(carry.total, carry.operation, value, carry.dtype))
    return Sweep(sweep.axes, _before_scans(sweep), tuple(folds), ())


def _before_scans(sweep: Sweep) -> tuple[Code, ...]:
    """The code that leads to what independent scans join."""
    others = [node for node in sweep.code if not isinstance(node, Running)]
    return nodes_read(others, set(names_in(sweep.scans)), reporting=False)


def _phases(code: Sequence[Code]) -> list[Phase]:
    """The code up to each scan, which it ends with, and after the last."""
    phases: list[list[Code]] = [[]]
    for node in code:
        phases[-1].append(node)
        if isinstance(node, Running):
            phases.append([])
    return list(map(tuple, phases))


def _kept_read_again(phases: list[Phase], ends: Sequence[Fold | Store]) -> list[Phase]:
    """The phases, each of which reads what it needs of what an earlier sweep kept."""
    kept = [node for phase in phases for node in phase if isinstance(node, Kept)]
    again: list[Phase] = []
    for number, phase in enumerate(phases):
        own = [node for node in phase if not isinstance(node, Kept)]
        needed = set(names_in((*own, *(ends if number + 1 == len(phases) else ()))))
        again.append((*(node for node in kept if node.name in needed), *own))
    return again


def _crossing(phases: Sequence[Phase], ends: Sequence[Fold | Store]) -> set[str]:
    """Names that a phase makes and a later one needs; scans are arrays anyway."""
    crossing: set[str] = set()
    for number, phase in enumerate(phases):
        later = [node for other in phases[number + 1 :] for node in other]
        if number + 1 < len(phases):
            made = {node.name for node in phase if not isinstance(node, Running | Kept)}
            crossing |= made.intersection(names_in((*later, *ends)))
    return crossing
