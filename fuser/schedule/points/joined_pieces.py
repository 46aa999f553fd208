"""Pieces over as many points that read or compute the same, as one loop.

    for i < 64: out[i] = exp(x[i])
    for j < 64: out[64 + j] = exp(x[j]) + 1
->  for i < 64: t = exp(x[i]); out[i] = t; out[64 + i] = t + 1

What is stacked is often made of the same numbers: colors of three channels, steps one after the
other, rows of a small matrix. Pieces that have nothing in common stay loops of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from fuser.schedule.code.axes import replace_axes
from fuser.schedule.code.body import Body
from fuser.schedule.code.straight_line import StraightLine
from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.indices.index import Axis, of_axis
from fuser.schedule.indices.rewrites import substitution
from fuser.schedule.points.interleave import add_point, in_one
from fuser.schedule.tree.counts import costly_arithmetic
from fuser.schedule.tree.statements import Load
from fuser.schedule.tree.vectors import step_along


class _Group:
    """Pieces over the same axes, one after the other at each point."""

    def __init__(self, first: Body, loads: frozenset[Load]) -> None:
        self.first = first
        self.count = 1
        self.line = StraightLine()
        self._loads = loads
        self._costly = costly_arithmetic(first.lets)
        """Instructions of costly functions, of the piece that has most."""
        add_point(self.line, first)

    def take(self, part: Body, loads: frozenset[Load], parameters: CpuParameters) -> bool:
        """Do a piece beside those of the group, if it has as many points and reads some of the
        same, and the loop is none that compilers take long over."""
        first = self.first
        if self.count == parameters.joined or self._loads.isdisjoint(loads):
            return False
        if part.draws or first.draws or _extents(part) != _extents(first):
            return False
        line = self.line.copy()
        add_point(line, _over(first.axes, part))
        costly = max(self._costly, costly_arithmetic(part.lets))
        most = max(parameters.interleaved_costly, costly)
        if len(line.code) > parameters.joined_statements or costly_arithmetic(line.code) > most:
            return False
        self.line, self._costly = line, costly
        self._loads |= loads
        self.count += 1
        return True


def joined(parts: Sequence[Body], parameters: CpuParameters) -> list[Body]:
    """`parts` in the order of the first of those that are joined."""
    groups: list[_Group] = []
    for part in parts:
        loads = frozenset(_varying_loads(part))
        if not any(group.take(part, loads, parameters) for group in groups):
            groups.append(_Group(part, loads))
    return [in_one(group.first, group.line) if group.count > 1 else group.first for group in groups]


def _extents(part: Body) -> list[int]:
    return [axis.extent for axis in part.axes]


def _over(axes: tuple[Axis, ...], part: Body) -> Body:
    """A piece over other axes, of the same extents."""
    places = {own: of_axis(axis) for own, axis in zip(part.axes, axes, strict=True)}
    return dataclasses.replace(replace_axes(part, places), axes=axes)


def _varying_loads(part: Body) -> Iterator[Load]:
    """What is loaded of neighbours, whatever its name and those of the axes are."""
    numbered = (Axis((number,), axis.extent) for number, axis in enumerate(part.axes))
    places = {axis: of_axis(other) for axis, other in zip(part.axes, numbered, strict=True)}
    change = substitution(places)
    for load in part.loads if part.axes else ():
        if step_along(load.at, part.axes[-1]) != 0:
            yield dataclasses.replace(load, name="", at=change(load.at))
