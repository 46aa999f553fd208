"""Names in the loops over tiles, the same for every target.

Of an axis `i1`, `tile_1` of `tiles_1` begins at `first_1`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fuser.codegen.printer import KernelPrinter
from fuser.codegen.sizes import Sizes
from fuser.schedule.indices.index import Axis
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import ceil_div
from fuser.schedule.tree.loop_tree import Loop
from fuser.schedule.tree.statements import DrainTile, FillTile

_OF_TILE = Binding.TILE_LINES, Binding.TILE_COLUMNS
"""What runs the loops inside a tile."""


@dataclass(frozen=True, slots=True)
class Side:
    """What is said of one of the axes of a tile, which has `step` of its elements."""

    axis: Axis
    step: int
    index: str
    extent: str

    @property
    def first(self) -> str:
        """Where the tile at hand begins."""
        return f"first_{self.index[1:]}"

    @property
    def tile(self) -> str:
        """The number of the tile at hand."""
        return f"tile_{self.index[1:]}"


def side(sizes: Sizes, loop: Loop) -> Side:
    """What is said of the axis of a loop over tiles."""
    return Side(loop.axis, loop.step, sizes.axis(loop.axis), sizes.extent(loop.axis))


def tiles_along(sizes: Sizes, loop: Loop) -> str:
    """How many tiles there are along an axis."""
    count = ceil_div(loop.axis.extent, loop.step)
    return sizes.parameter(f"tiles_{sizes.axis(loop.axis)[1:]}", count)


def column_of(sizes: Sizes, node: FillTile | DrainTile, along: Side) -> str:
    """The address at which a tile's column begins in memory, given the index across."""
    sizes.name_axis(along.axis, along.first)
    at = sizes.index(node.at, node.tile)
    sizes.name_axis(along.axis, along.index)
    return f"{node.tensor}_{'in' if isinstance(node, FillTile) else 'out'} + {at}"


def tiled_nest(loop: Loop) -> list[Loop]:
    """The loops around a tile, from the outermost; empty where there is none."""
    nest = [loop]
    while isinstance(inside := nest[-1].body[0], Loop) and inside.binding not in _OF_TILE:
        nest.append(inside)
    return nest if nest[-1].binding is Binding.TILED else []


def sides(kernel: KernelPrinter[Any]) -> tuple[Side, Side]:
    """Those of the tile at hand: along memory that is read, and across it."""
    assert kernel.around.tile is not None, "there is a tile at hand"
    along, across = kernel.around.tile
    return side(kernel.sizes, along), side(kernel.sizes, across)
