"""The axes of a row body: in the order of memory, and merged where every access allows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from fuser.schedule.code.axes import coalesce, merge_axes, replace_axes
from fuser.schedule.code.row_body import RowBody, Sweep, indices_in, indices_of, names_in
from fuser.schedule.cuda_parameters import WARP
from fuser.schedule.indices.index import Axis, Index, Variable, of_axis
from fuser.schedule.tree.counts import ceil_div, point_count

_MOST_LANES = WARP
"""Of a warp; vectors have fewer."""


def arrange_rows(body: RowBody) -> RowBody:
    """`body` with its rows and the axes of every sweep from the slowest to the fastest, merged."""
    steps = _Steps(body)
    references = [_reference(stage, steps) for stage in body.stages]
    stages = tuple(map(_arranged, body.stages, references))
    indices = indices_of(stages)
    reference = max(references, key=lambda steps: (len(steps.keys() & body.rows), len(steps)))
    rows, replaced = merge_axes(_by_stride(body.rows, reference), indices)
    return dataclasses.replace(
        body,
        rows=rows,
        stages=tuple(replace_axes(stage, replaced) for stage in stages),
        epilogue=tuple(_arranged(sweep, _reference(sweep, steps)) for sweep in body.epilogue),
    )


def turned_axes(body: RowBody, axes: Iterable[Axis]) -> RowBody:
    """`body` with axes walked the other way."""
    turned = {axis: Index(axis.extent - 1) + of_axis(axis) * -1 for axis in axes}
    stages = tuple(replace_axes(stage, turned) for stage in body.stages)
    return dataclasses.replace(body, stages=stages)


def lanes_across_rows(body: RowBody, at_once: int = 1) -> bool:
    """Whether neighbouring rows, and not neighbouring elements of a row, are next in memory.

    Lanes go where fewer accesses are of elements apart, and of two such ways, where more elements
    are consecutive; of windows that slide by one element, where more lanes have an element. Lanes
    across rows may have so many neighbours of a row `at_once`, in one access.
    """
    if not body.rows:
        return False
    steps = _Steps(body)
    apart, consecutive, lanes = [0, 0], [0, 0], [0, 0]
    for sweep in body.swept:
        ways = sweep.axes[-1], body.rows[-1]
        for way, axis in enumerate(ways):
            lanes[way] += min(axis.extent, _MOST_LANES)
        for at in (*(access.at for access in sweep.accesses), *(f.at for f in sweep.folds)):
            walked = steps.of(at)
            elements = point_count([a for a in (*body.rows, *sweep.axes) if a in walked])
            for way, axis in enumerate(ways):
                consecutive[way] += elements * (walked.get(axis) == 1)
                are_together = walked.get(ways[0]) == 1  # neighbours of a row
                accesses = ceil_div(point_count(sweep.axes), at_once if are_together else 1)
                apart[way] += accesses * (walked.get(axis, 0) > 1)
    along, across = ((apart[way], -consecutive[way], -lanes[way]) for way in range(2))
    return across < along


class _Steps:
    """How far accesses move for a step of each axis that they depend on."""

    def __init__(self, body: RowBody) -> None:
        self._axes: dict[str, frozenset[Axis]] = {}
        """The axes that each name depends on."""
        for node in (node for sweep in body.sweeps for node in sweep.code):
            self._axes[node.name] = frozenset[Axis]().union(
                (axis for index in indices_in(node) for axis in self.of(index)),
                *(self._axes.get(name, ()) for name in names_in((node,))),
            )

    def of(self, at: Index) -> dict[Axis, int]:
        """The step of each axis. An index that is computed moves by one line at the least."""
        steps: dict[Axis, int] = {}
        for term, step in at.terms:
            moved = [term] if isinstance(term, Axis) else []
            if isinstance(term, Variable):
                moved += self._axes.get(term.name, ())
            for axis in moved:
                steps[axis] = max(steps.get(axis, 0), abs(step))
        return steps


def _arranged(sweep: Sweep, reference: dict[Axis, int]) -> Sweep:
    axes = sweep.axes
    if not sweep.scans:
        axes = _by_stride(axes, reference)
        # Elements that are repeated are read again, rather than one by one for every repetition.
        axes.sort(key=lambda axis: axis in reference)
    return coalesce(dataclasses.replace(sweep, axes=tuple(axes)))


def _reference(sweep: Sweep, steps: _Steps) -> dict[Axis, int]:
    """The access whose memory the axes follow: of those over the most axes, the last."""
    accesses = [access.at for access in sweep.accesses]
    return max(map(steps.of, [*reversed(accesses), Index()]), key=len)


def _by_stride(axes: Sequence[Axis], steps: dict[Axis, int]) -> list[Axis]:
    return sorted(axes, key=lambda axis: -steps.get(axis, 0))
