"""C++ for tiles on the CPU target: blocks turned in registers on the way from and to memory."""

from __future__ import annotations

from typing import assert_never

from fuser.codegen.cpu.kernel import CpuKernel
from fuser.codegen.tiles import column_of, side, sides, tiled_nest, tiles_along
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import Ref
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.statements import (
    ColumnKeep,
    DrainTile,
    FillTile,
    Prefetch,
    Store,
    TileKeep,
    TileLine,
    TileNode,
    TileRoom,
)


def tile_node(kernel: CpuKernel, node: TileNode) -> None:
    """Print what is done with a tile, or a line of it."""
    match node:
        case TileRoom(name, dtype):
            along, across = sides(kernel)
            type_ = kernel.expressions.type(dtype)
            kernel.out.line(f"alignas(64) {type_} {name}_tile[{along.step}][{across.step}];")
        case FillTile(tile):
            fill = kernel.expressions.use("fill_tile")
            kernel.out.line(f"{fill}({tile}_tile, {_columns(kernel, node)});")
        case DrainTile(tile):
            drain = f"{kernel.expressions.use('drain_tile')}<{str(node.past_cache).lower()}>"
            kernel.out.line(f"{drain}({tile}_tile, {_columns(kernel, node)});")
        case TileLine(name, dtype):
            kernel.expressions.known.loaded(name, dtype)
            kernel.expressions.lane_arrays.add(name)
            kernel.out.line(
                f"const {kernel.expressions.type(dtype)}* const {name} = {name}_tile[line];"
            )
        case TileKeep(tile, source, lanes):
            assert isinstance(source, Ref)
            each = f"for (int lane = 0; lane < {lanes}; ++lane)"
            kernel.out.line(f"{each} {tile}_tile[line][lane] = {source.name}[lane];")
        case ColumnKeep(tile, source, lanes):
            each = f"for (int lane = 0; lane < {lanes}; ++lane)"
            kernel.out.line(f"{each} {tile}_columns[column][lane] = {source.name}[lane];")
        case _:
            assert_never(node)


def streams_tiles(loop: Loop) -> bool:
    """Whether a loop is over tiles of which something is stored past the cache."""
    nest = tiled_nest(loop)
    return bool(nest) and any(map(_streams, nest[-1].body))


def tile_lines(kernel: CpuKernel, loop: Loop) -> None:
    """Print a loop over the lines of a tile."""
    along, across = sides(kernel)
    with kernel.out.block(f"for (int line = 0; line < {along.step}; ++line)"):
        line = f"{along.index} = {along.first} + line"
        kernel.out.line(f"const {kernel.index} {line}, {across.index} = {across.first};")
        for node in loop.body:
            if isinstance(node, Prefetch):
                kernel.ask("prefetch_lanes", node)
            else:
                kernel.node(node)


def tile_columns(kernel: CpuKernel, loop: Loop) -> None:
    """Print a loop over the columns of a tile, which computes them, and what turns these."""
    along, across = sides(kernel)
    kept = [node for node in loop.body if isinstance(node, ColumnKeep)]
    for keep in kept:
        type_ = kernel.expressions.type(keep.source.dtype)
        kernel.out.line(f"alignas(64) {type_} {keep.tile}_columns[{across.step}][{along.step}];")
    with kernel.out.block(f"for (int column = 0; column < {across.step}; ++column)"):
        column = f"{across.index} = {across.first} + column"
        kernel.out.line(f"const {kernel.index} {along.index} = {along.first}, {column};")
        kernel.nodes(loop.body)
    for keep in kept:
        fill = kernel.expressions.use("fill_tile")
        column = f"[&](int column) {{ return {keep.tile}_columns[column]; }}"
        kernel.out.line(f"{fill}({keep.tile}_tile, 0, {column});")


def _columns(kernel: CpuKernel, node: FillTile | DrainTile) -> str:
    """The first column of a tile, and what says where each lies in memory."""
    along, across = sides(kernel)
    address = column_of(kernel.sizes, node, along)
    return f"{across.first}, [&]({kernel.index} {across.index}) {{ return {address}; }}"


def over_tiles(kernel: CpuKernel, nest: list[Loop], depth: int = 0) -> None:
    """Whole tiles only: the last ones begin early enough to end in range."""
    if depth == len(nest):
        for loop in nest:
            if loop.binding is Binding.TILED:
                _begin_tile(kernel, loop)
        *_, across, along = nest
        with kernel.within(tile=(along, across)):
            kernel.nodes(along.body)
        return
    loop = nest[depth]
    name, count = kernel.sizes.axis(loop.axis), kernel.sizes.extent(loop.axis)
    if loop.binding is Binding.TILED:
        name, count = side(kernel.sizes, loop).tile, tiles_along(kernel.sizes, loop)
    with kernel.out.block(f"for ({kernel.index} {name} = 0; {name} < {count}; ++{name})"):
        over_tiles(kernel, nest, depth + 1)


def _begin_tile(kernel: CpuKernel, loop: Loop) -> None:
    axis = side(kernel.sizes, loop)
    start, last = f"{axis.tile} * {loop.step}", f"{axis.extent} - {loop.step}"
    first = f"{start} < {last} ? {start} : {last}"
    kernel.out.line(f"const {kernel.index} {axis.first} = {first};")


def _streams(node: Node) -> bool:
    """Whether something is stored past the cache."""
    match node:
        case Loop(binding=Binding.TILE_LINES | Binding.TILE_COLUMNS):
            return any(isinstance(inside, Store) for inside in node.body)
        case DrainTile():
            return node.past_cache
        case _:
            return False
