"""Tiles: where a body reads or stores along another axis than it stores its last result along,
blocks of both axes at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fuser.schedule.code.body import Body
from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.cuda_parameters import CudaParameters
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import power_of_two
from fuser.schedule.tree.expressions import Expression, Ref
from fuser.schedule.tree.loop_tree import Loop, Node, nested
from fuser.schedule.tree.names import lanes_name
from fuser.schedule.tree.statements import (
    ColumnKeep,
    DrainTile,
    FillTile,
    Lanes,
    Let,
    Load,
    Store,
    TileKeep,
    TileLine,
    TileRoom,
    pitch,
    reads_in,
)
from fuser.schedule.tree.vectors import step_along

_WORD = 4
"""Bytes of a float32."""


@dataclass(frozen=True, slots=True)
class Turned:
    """Loads and stores of a body whose memory is consecutive `along` one axis, while its last
    store's is `across` another, the innermost; `rest` is the body without them.

    The rest is done on lines, across. It reads the tiles that are `filled`, from loads or by what
    is computed on `columns`, along memory, and leaves those that are `drained` to stores.
    """

    along: Axis
    across: Axis
    loads: tuple[Load, ...]
    stores: tuple[Store, ...]
    rest: Body
    filled: tuple[Load | Let, ...]
    drained: tuple[Store, ...]
    columns: Body | None = None

    @property
    def outer(self) -> tuple[Axis, ...]:
        """The axes that tiles do not extend over."""
        return tuple(axis for axis in self.rest.axes if axis not in (self.along, self.across))

    @property
    def sizes(self) -> list[int]:
        """Bytes of an element of each tile."""
        return [tile.dtype.itemsize for tile in (*self.filled, *self.drained)]

    @property
    def computed(self) -> tuple[Let, ...]:
        """The tiles that columns fill."""
        return tuple(tile for tile in self.filled if isinstance(tile, Let))

    def limited(self, count: int) -> Turned:
        """The same, without columns, with at most `count` tiles, those of loads first."""
        assert self.columns is None, "what columns compute is no longer in the rest"
        stored = max(count - len(self.loads), 0)
        code = (*self.rest.loads, *self.loads[count:], *self.rest.lets)
        stores = (*self.stores[stored:], *self.rest.stores)
        rest = dataclasses.replace(self.rest, code=code, stores=stores)
        loads, stores = self.loads[:count], self.stores[:stored]
        return Turned(self.along, self.across, loads, stores, rest, loads, stores)

    def work(self, lanes: int) -> Body:
        """The rest of the body, with what is kept of several lanes for the stores of tiles."""
        return _keeping(self.rest, {_lanes(s): s.source for s in self.drained}, lanes)

    def column_work(self, lanes: int) -> Body:
        """The columns, with what is kept of several lanes for the tiles that they fill."""
        assert self.columns is not None, "columns compute something"
        kept = {_column(let): Ref(let.name, let.dtype) for let in self.computed}
        return _keeping(self.columns, kept, lanes)


@dataclass(frozen=True, slots=True)
class TileShape:
    """How many steps of both axes a tile has: of the one along memory, and of the other."""

    lines: int
    columns: int


def find_turned(body: Body) -> Turned | None:
    """The loads and stores that tiles should make, of the axis along which most bytes are moved;
    None if there are none.

    An index may divide or clamp the other axes: it is computed once for each row of memory.
    """
    if len(body.axes) < 2 or step_along(body.stores[-1].at, body.axes[-1]) != 1:
        return None
    *others, across = body.axes
    accesses = (*reads_in(body.loads), *body.stores)
    turned = {access: _axis_of_memory(access.at, others, across) for access in accesses}
    moved = dict.fromkeys(others, 0)
    for access, axis in turned.items():
        if axis is not None:
            moved[axis] += access.dtype.itemsize
    along = max(others, key=lambda axis: moved[axis])
    if not moved[along]:
        return None
    loads = [load for load in body.loads if turned.get(load) == along]
    stores = [store for store in body.stores if turned[store] == along]
    rest = dataclasses.replace(
        body,
        code=tuple(node for node in body.code if node not in loads),
        stores=tuple(store for store in body.stores if store not in stores),
    )
    read, stored = tuple(loads), tuple(stores)
    return Turned(along, across, read, stored, rest, read, stored)


def _axis_of_memory(at: Index, others: Sequence[Axis], across: Axis) -> Axis | None:
    """Which of the other axes memory is consecutive along, if it is not along `across`."""
    if step_along(at, across) in (-1, 0, 1):
        return None
    return next((axis for axis in others if step_along(at, axis) == 1), None)


def cpu_shape(turned: Turned, parameters: CpuParameters, *, past_cache: bool) -> TileShape:
    """A tile no larger than its axes: the last ones are moved back to end in range. One with few
    columns has more lines."""
    stored = min(store.dtype.itemsize for store in turned.rest.stores)
    most = parameters.tile_line_bytes // stored
    if stored <= _WORD and not past_cache and not _in_few_sets(turned, parameters):
        most = max(most, parameters.cached_columns)
    columns = _within(turned.across.extent, most)
    length = parameters.tile_line_bytes if turned.stores else parameters.tile_read_bytes
    moved = min(access.dtype.itemsize for access in (*turned.loads, *turned.stores))
    lines = _within(turned.along.extent, length // moved * (most // columns))
    return TileShape(lines, columns)


def _in_few_sets(turned: Turned, parameters: CpuParameters) -> bool:
    """Whether what is read of the columns of a tile shares sets of a cache."""
    return any(
        load.at.coefficient(turned.across) * load.dtype.itemsize % parameters.page_part == 0
        for load in turned.loads
    )


def cuda_shape(turned: Turned, parameters: CudaParameters) -> TileShape:
    """A tile, longer where one of its axes is short, so that all tiles fit the shared memory of a
    block, if they can. They reach beyond axes that are no multiple of them."""
    side = parameters.tile
    shape = _shape_of_side(turned, side)
    while side > parameters.tile // 4 and shared_bytes(turned, shape) > parameters.tile_bytes:
        side //= 2
        shape = _shape_of_side(turned, side)
    return shape


def within_shared(turned: Turned, shape: TileShape, parameters: CudaParameters) -> Turned:
    """The same with as many tiles as the shared memory of a block has room for."""
    largest = max(_tile_bytes(shape, size) for size in turned.sizes)
    return turned.limited(parameters.tile_bytes // largest)


def shared_bytes(turned: Turned, shape: TileShape) -> int:
    """What all tiles take of the shared memory of a block."""
    return sum(_tile_bytes(shape, size) for size in turned.sizes)


def tile_nodes(
    turned: Turned,
    work: Sequence[Node],
    lanes: int,
    moved: dict[Load | Store, int] | None = None,
    *,
    columns: Sequence[Node] = (),
    past_cache: bool = False,
) -> tuple[Node, ...]:
    """What is done of a tile: it is read, or filled by `columns`; `work` is done line by line for
    `lanes` neighbours at once, and what that keeps is stored. `moved`: elements that an access
    moves."""
    moved = moved or {}
    rooms = [TileRoom(tile.name, tile.dtype) for tile in turned.filled]
    rooms += [TileRoom(store.tensor.name, store.dtype) for store in turned.drained]
    fills = [
        FillTile(n.name, n.tensor, n.at, moved.get(n, 1))
        for n in turned.filled
        if isinstance(n, Load)
    ]
    drains = [
        DrainTile(n.tensor.name, n.tensor, n.at, moved.get(n, 1), past_cache=past_cache)
        for n in turned.drained
    ]
    lines = [TileLine(tile.name, tile.dtype, lanes) for tile in turned.filled]
    arrays = [Lanes(_lanes(s), s.source.dtype, lanes) for s in turned.drained if lanes > 1]
    keeps = [TileKeep(s.tensor.name, _kept(s, lanes), lanes) for s in turned.drained]
    each = (*lines, *arrays, *work, *keeps)
    whole = turned.across.extent % lanes == 0
    over_lines = Loop(turned.along, Binding.TILE_LINES, each, lanes, whole=whole)
    return (*rooms, *columns, *fills, over_lines, *drains)


def column_nodes(turned: Turned, work: Sequence[Node], lanes: int) -> tuple[Node, ...]:
    """What fills tiles: `work`, column by column, for `lanes` neighbours along memory."""
    computed = turned.computed
    arrays = [Lanes(_column(let), let.dtype, lanes) for let in computed if lanes > 1]
    sources = [_column(let) if lanes > 1 else let.name for let in computed]
    keeps = [
        ColumnKeep(let.name, Ref(source, let.dtype), lanes)
        for let, source in zip(computed, sources, strict=True)
    ]
    each = (*arrays, *work, *keeps)
    whole = turned.along.extent % lanes == 0
    return (Loop(turned.across, Binding.TILE_COLUMNS, each, lanes, whole=whole),)


def loops_over_tiles(
    turned: Turned, shape: TileShape, nodes: tuple[Node, ...], outer: Binding
) -> tuple[Node, ...]:
    """Loops around what is done of a tile. Tiles of the same rows of memory follow each other."""
    nodes = (Loop(turned.along, Binding.TILED, nodes, shape.lines),)
    nodes = (Loop(turned.across, Binding.TILED, nodes, shape.columns),)
    return nested(turned.outer, outer, nodes)


def _keeping(body: Body, kept: Mapping[str, Expression], lanes: int) -> Body:
    """A body that also leaves each of several lanes in arrays of these names."""
    if lanes == 1:
        return body
    lets = (Let(name, source.dtype, source, in_lanes=True) for name, source in kept.items())
    return dataclasses.replace(body, code=(*body.code, *lets))


def _column(let: Let) -> str:
    """The array of neighbouring lines of a column. Stores of the same have arrays of lanes."""
    return f"{let.name}_column"


def _lanes(store: Store) -> str:
    return lanes_name(str(store.tensor))


def _kept(store: Store, lanes: int) -> Expression:
    return Ref(_lanes(store), store.source.dtype) if lanes > 1 else store.source


def _tile_bytes(shape: TileShape, size: int) -> int:
    return shape.columns * pitch(shape.lines, size) * size


def _shape_of_side(turned: Turned, side: int) -> TileShape:
    along, across = power_of_two(turned.along.extent), power_of_two(turned.across.extent)
    columns = min(across, side * side // min(along, side))
    return TileShape(min(along, side * side // columns), columns)


def _within(extent: int, most: int) -> int:
    """`most`, a quarter of it, ...: what fits an extent of at least 2. Few sizes have a text of
    their own."""
    while most > extent:
        most //= 4
    return max(most, 2)
