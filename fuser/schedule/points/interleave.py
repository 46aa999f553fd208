"""Short innermost axes: their elements are done one after the other, their neighbours in lanes.

    for i < 64: for j < 2: out[2 i + j] = x[i]
->  for i < 64: out[2 i] = x[i]; out[2 i + 1] = x[i]

Few iterations make no vectors. Beside each other, the elements read common operands once, and what
they store is consecutive again. Pieces that are one element wide are interleaved in the same way: a
stack of two tensors along its last dimension is one loop that stores pairs.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from fuser.schedule.code.body import Body
from fuser.schedule.code.pieces import part_of, refined
from fuser.schedule.code.straight_line import StraightLine
from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.points.tiling import Turned
from fuser.schedule.tree.counts import costly_arithmetic
from fuser.schedule.tree.statements import Load
from fuser.schedule.tree.vectors import SHORTEST_VECTOR, step_along


def interleaved(parts: Sequence[Body], parameters: CpuParameters) -> list[Body]:
    """`parts` in the same order, with some neighbouring elements in the body of a loop."""
    groups: list[list[Body]] = []
    most = parameters.interleaved
    for part in parts:
        units = _units(part, _most(part, parameters, most))
        if groups and _fit(groups[-1][-1], units[0], most) and len(groups[-1] + units) <= most:
            groups[-1] += units
        else:
            groups.append(units)
    return [_side_by_side(group) for group in groups]


def together(body: Body, most: int) -> Body:
    """A body with the elements of its innermost axes one after the other, if these are at most so
    many; itself, if they are more."""
    return _side_by_side(_units(body, most))


def in_turn_where_short(turned: Turned, part: Body, parameters: CpuParameters) -> Body | None:
    """A body whose memory is turned, with the elements of both axes one after the other: the pixels
    of a patch, whose channels become the innermost. None if these are too many."""
    along, across = turned.along.extent, turned.across.extent
    most = _most(part, parameters, parameters.turned_in_turn)
    if min(along, across) > parameters.turned_line or along * across > most:
        return None
    axes = (*turned.outer, turned.along, turned.across)
    done = together(dataclasses.replace(part, axes=axes), along * across)
    return None if turned.along in done.axes else done


def _units(part: Body, most: int) -> list[Body]:
    """A part cut into the elements of its innermost axes, as many as may be interleaved."""
    units = [part]
    if part.draws or _is_vector(part, most):
        return units
    while len(part.axes) > 1 and 0 < len(units) * part.axes[-1].extent <= most:
        inner = part.axes[-1]
        cuts = [[_element(unit, inner, place) for place in range(inner.extent)] for unit in units]
        units = list(itertools.chain.from_iterable(cuts))
        if any(unit.axes != units[0].axes for unit in units):
            return [part]
        part = units[0]
    return units


def _is_vector(part: Body, most: int) -> bool:
    """Whether the innermost axis is a whole vector of consecutive elements, and the next ones are
    so far away that vectors of those would be gathered: eight of the 64 that a head has, turned by
    their position."""
    if len(part.axes) < 2 or part.axes[-1].extent < SHORTEST_VECTOR:
        return False
    *_, outer, inner = part.axes
    accesses = [access.at for access in part.accesses]
    next_ones = [step_along(at, outer) for at in accesses]
    return all(step_along(at, inner) in (0, 1) for at in accesses) and all(
        step is None or step == 0 or abs(step) > most for step in next_ones
    )


def _most(part: Body, parameters: CpuParameters, most: int) -> int:
    """How many of its elements may be one body, of at most so many."""
    statements = max(len(part.code), 1)
    costly = max(costly_arithmetic(part.lets), 1)
    return min(
        most,
        parameters.processor.most_statements // statements,
        parameters.interleaved_costly // costly,
    )


def _element(unit: Body, axis: Axis, place: int) -> Body:
    return refined(part_of(unit, axis, place, (place, place + 1)))


def _fit(one: Body, other: Body, most: int) -> bool:
    """Whether two bodies store over each other, element by element of the same axes."""
    if one.axes != other.axes or not one.axes:
        return False
    steps = (step_along(store.at, one.axes[-1]) for store in (*one.stores, *other.stores))
    return all(step is not None and 1 < step <= most for step in steps)


def _side_by_side(bodies: Sequence[Body]) -> Body:
    """Bodies over the same axes as one; what several load or compute is loaded or computed once."""
    first, *others = bodies
    if not others:
        return first
    line = StraightLine()
    for body in bodies:
        add_point(line, body)
    return in_one(first, line)


def add_point(line: StraightLine, body: Body) -> None:
    """Add what a body does at a point."""
    line.add((*body.loads, *body.lets), body.stores)


def in_one(first: Body, line: StraightLine) -> Body:
    """What several bodies over the axes of the first do at a point, as one."""
    loads_first = sorted(line.code, key=lambda node: not isinstance(node, Load))
    return dataclasses.replace(first, code=tuple(loads_first), stores=tuple(line.stores))
