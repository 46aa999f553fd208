"""The loops around the pieces of a processor's kernel: outer loops are shared where they can be.

    for i0 < 64:                    threads
      for i1 < 512: ...             zeros
      for i2 < 512:
        for i3 < 512: ...           what is read
        for i4 < 511: ...           zeros beside it

So memory is written in order, though every piece has loops of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import Loop, Node, Region


@dataclass(frozen=True, slots=True)
class Row:
    """The innermost loop of a piece, the axes of the loops around it, and of those `within` it."""

    outer: tuple[Axis, ...]
    inner: Loop
    within: tuple[Axis, ...] = ()

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Of all loops: the innermost may have parts, one after the other."""
        parts = self.inner.body if self.inner.binding is Binding.SERIAL else ()
        inside = (node.axis for node in parts if isinstance(node, Loop))
        return (*self.outer, self.inner.axis, *inside, *self.within)


def loops_around(
    rows: Sequence[Row], parameters: CpuParameters, tiles: Sequence[Node] = ()
) -> tuple[Node, ...]:
    """The loops of one piece; of several, in a region whose threads share out each of the loops
    at its top. Loops over the `tiles` of other pieces are not shared."""
    roots = _shared(rows)
    if len(rows) + len(tiles) <= 1:
        return (*roots, *tiles)
    return (Region((), (*_busy(roots, parameters.shared_iterations), *tiles), ()),)


def axes_in_order(rows: Sequence[Row]) -> tuple[Axis, ...]:
    """Every axis once, as they first appear."""
    return tuple(dict.fromkeys(axis for row in rows for axis in row.axes))


def _shared(rows: Sequence[Row]) -> tuple[Loop, ...]:
    """Loops around rows; neighbours with the same outermost axis have one."""
    made: list[Loop] = []
    for axes, group in itertools.groupby(rows, lambda row: row.outer[:1]):
        inside = list(group)
        if axes:
            rest = _shared([replace(row, outer=row.outer[1:]) for row in inside])
            made.append(Loop(axes[0], Binding.PARALLEL, rest))
        else:
            made += [row.inner for row in inside]
    return tuple(made)


def _busy(roots: Sequence[Loop], iterations: int) -> list[Loop]:
    """Loops at the top; one of fewer `iterations` around several is one around each of them."""
    made: list[Loop] = []
    for root in roots:
        if len(_children(root)) > 1 and root.axis.extent < iterations:
            made += [Loop(root.axis, root.binding, (inside,)) for inside in _children(root)]
        else:
            made.append(root)
    return made


def _children(loop: Loop) -> tuple[Node, ...]:
    return loop.body if loop.binding is Binding.PARALLEL else ()
