"""Tiles: where a body reads along another axis than it stores along, blocks of both at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from fuser.schedule.body import Body
from fuser.schedule.heuristics import CpuParameters, CudaParameters
from fuser.schedule.index import Axis
from fuser.schedule.loop_tree import Binding, Load, Loop, Node, Tile, TileLine
from fuser.schedule.vectors import step_along


@dataclass(frozen=True, slots=True)
class Turned:
    """Loads of a body whose memory is consecutive `along` one axis, while its last store's is
    `across` another, the innermost; `rest` is the body without them."""

    along: Axis
    across: Axis
    loads: tuple[Load, ...]
    rest: Body

    @property
    def outer(self) -> tuple[Axis, ...]:
        """The axes that tiles do not extend over."""
        return tuple(axis for axis in self.rest.axes if axis not in (self.along, self.across))

    def limited(self, count: int) -> Turned:
        """The same for the first `count` of the loads."""
        rest = dataclasses.replace(self.rest, loads=(*self.rest.loads, *self.loads[count:]))
        return dataclasses.replace(self, loads=self.loads[:count], rest=rest)


def find_turned(body: Body) -> Turned | None:
    """The loads that tiles should make, of the axis along which most bytes are read; None if there
    are none.

    An index may divide or clamp the other axes: it is computed once for each row of memory.
    """
    if len(body.axes) < 2 or step_along(body.stores[-1].at, body.axes[-1]) != 1:
        return None
    *others, across = body.axes
    found: dict[Axis, list[Load]] = {}
    for load in body.loads:
        if step_along(load.at, across) not in (-1, 0, 1):
            along = next((axis for axis in others if step_along(load.at, axis) == 1), None)
            if along is not None:
                found.setdefault(along, []).append(load)
    if not found:
        return None
    along = max(found, key=lambda axis: sum(load.tensor.dtype.itemsize for load in found[axis]))
    left = tuple(load for load in body.loads if load not in found[along])
    rest = dataclasses.replace(body, loads=left)
    return Turned(along, across, tuple(found[along]), rest)


def cpu_tiles(turned: Turned, parameters: CpuParameters) -> tuple[Tile, ...]:
    """Tiles no larger than their axes: the last ones are moved back to end in range. Those with few
    columns have more lines."""
    read = min(load.tensor.dtype.itemsize for load in turned.loads)
    stored = min(store.tensor.dtype.itemsize for store in turned.rest.stores)
    most = parameters.tile_line_bytes // stored
    columns = _within(turned.across.extent, most)
    lines = _within(turned.along.extent, parameters.tile_read_bytes // read * (most // columns))
    return _tiles(turned, lines, columns)


def cuda_tiles(turned: Turned, parameters: CudaParameters) -> tuple[Tile, ...]:
    """Tiles that fit the shared memory of a block, longer where one of the axes is short.

    They reach beyond axes that are no multiple of them. Loads for which there is no room left are
    not tiled.
    """
    side = parameters.tile
    tiles = _tiles_of_side(turned, side)
    while side > parameters.tile // 4 and sum(map(shared_bytes, tiles)) > parameters.tile_bytes:
        side //= 2
        tiles = _tiles_of_side(turned, side)
    room = parameters.tile_bytes // max(map(shared_bytes, tiles))
    return tiles[:room]


def pitch(tile: Tile) -> int:
    """Elements from column to column in shared memory: an odd number of words or of elements, so
    that neither the threads that write a tile nor those that read it meet in a bank."""
    return tile.lines + max(4 // tile.tensor.dtype.itemsize, 1)


def shared_bytes(tile: Tile) -> int:
    """What a tile takes of the shared memory of a block."""
    return tile.columns * pitch(tile) * tile.tensor.dtype.itemsize


def _tiles_of_side(turned: Turned, side: int) -> tuple[Tile, ...]:
    along, across = _power_above(turned.along.extent), _power_above(turned.across.extent)
    columns = min(across, side * side // min(along, side))
    lines = min(along, side * side // columns)
    return _tiles(turned, lines, columns)


def _tiles(turned: Turned, lines: int, columns: int) -> tuple[Tile, ...]:
    return tuple(
        Tile(load.name, load.tensor, load.at, turned.along, turned.across, lines, columns)
        for load in turned.loads
    )


def loops_over_tiles(
    turned: Turned,
    tiles: Sequence[Tile],
    ahead: tuple[Node, ...],
    work: tuple[Node, ...],
    outer: Binding,
    lanes: int,
) -> tuple[Node, ...]:
    """The loops of a tiled body: what is done `ahead`, the tiles, then `work` line by line, for
    `lanes` neighbours at once.

    Tiles that are read from the same rows of memory follow each other.
    """
    lines, columns = tiles[0].lines, tiles[0].columns
    read = [TileLine(tile.name, tile.tensor.dtype, lanes) for tile in tiles]
    each_line = Loop(turned.along, Binding.TILE_LINES, (*read, *work), lanes)
    nodes: tuple[Node, ...] = (*ahead, *tiles, each_line)
    nodes = (Loop(turned.along, Binding.TILED, nodes, lines),)
    nodes = (Loop(turned.across, Binding.TILED, nodes, columns),)
    for axis in reversed(turned.outer):
        nodes = (Loop(axis, outer, nodes),)
    return nodes


def _within(extent: int, most: int) -> int:
    """`most`, a quarter of it, ...: what fits an extent of at least 2. Few sizes have a text of
    their own."""
    while most > extent:
        most //= 4
    return max(most, 2)


def _power_above(number: int) -> int:
    """The smallest power of two that is not below `number`."""
    return 1 << (number - 1).bit_length()
