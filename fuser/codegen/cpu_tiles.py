"""C++ for tiles on the CPU target: blocks turned in registers on the way from and to memory."""

from __future__ import annotations

from typing import assert_never

from fuser.codegen.printer import KernelPrinter
from fuser.codegen.tiles import column_of, side, sides, tiled_nest, tiles_along
from fuser.schedule.bindings import Binding
from fuser.schedule.expressions import Ref
from fuser.schedule.loop_tree import Loop, Node
from fuser.schedule.statements import (
    DrainTile,
    FillTile,
    Prefetch,
    Store,
    TileKeep,
    TileLine,
    TileNode,
    TileRoom,
)


class CpuTilePrinter(KernelPrinter):
    """Loops over tiles, all of them shared out over the threads."""

    def tile(self, node: TileNode) -> None:
        match node:
            case TileRoom(name, dtype):
                along, across = sides(self.nest)
                type_ = self.expressions.type(dtype)
                self.out.line(f"alignas(64) {type_} {name}_tile[{along.step}][{across.step}];")
            case FillTile(tile, ahead=ahead):
                fill = self.expressions.use("fill_tile") + ("<true>" if ahead else "")
                self.out.line(f"{fill}({tile}_tile, {self._columns(node)});")
            case DrainTile(tile):
                drain = f"{self.expressions.use('drain_tile')}<{str(node.past_cache).lower()}>"
                self.out.line(f"{drain}({tile}_tile, {self._columns(node)});")
            case TileLine(name, dtype):
                self.expressions.lane_arrays.add(name)
                self.out.line(
                    f"const {self.expressions.type(dtype)}* const {name} = {name}_tile[line];"
                )
            case TileKeep(tile, source, lanes):
                assert isinstance(source, Ref)
                each = f"for (int lane = 0; lane < {lanes}; ++lane)"
                self.out.line(f"{each} {tile}_tile[line][lane] = {source.name}[lane];")
            case _:
                assert_never(node)

    def tiled_loops(self, loop: Loop) -> None:
        """Print the loops around a tile."""
        nest = tiled_nest(loop)
        collapse = f" collapse({len(nest)})"
        if not any(map(_has_chunks, nest[-1].body)):
            self.out.line(f"#pragma omp parallel for{collapse} if (threaded)")
            self._over_tiles(nest)
            return
        self.out.line("#pragma omp parallel if (threaded)")
        with self.out.block(""):
            self.out.line(f"#pragma omp for{collapse}")
            self._over_tiles(nest)
            self.out.line(f"{self.expressions.use('stream_fence')}();")

    def tile_lines(self, loop: Loop) -> None:
        """Print a loop over the lines of a tile."""
        over, across_over = sides(self.nest)
        along, across = side(self.sizes, over.axis), side(self.sizes, across_over.axis)
        with self.out.block(f"for (int line = 0; line < {over.step}; ++line)"):
            line = f"{along.index} = {along.first} + line"
            self.out.line(f"const {self.index} {line}, {across.index} = {across.first};")
            for node in loop.body:
                if isinstance(node, Prefetch):
                    self.ask("prefetch_lanes", node)
                else:
                    self.node(node)

    def ask(self, function: str, prefetch: Prefetch) -> None:
        """Print a request for memory."""
        at = self.sizes.index(prefetch.at, prefetch.tensor.name)
        ask = self.expressions.use(function)
        asked = f"{ask}<{prefetch.lanes}>({prefetch.tensor}_in + {at});"
        if prefetch.pays is not None:
            asked = f"if ({self.sizes.parameter('asks_ahead', int(prefetch.pays))}) {asked}"
        self.out.line(asked)

    def _columns(self, node: FillTile | DrainTile) -> str:
        """The first column of a tile, and what says where each lies in memory."""
        along, across = sides(self.nest)
        column = side(self.sizes, across.axis)
        address = column_of(self.sizes, node, along.axis)
        return f"{column.first}, [&]({self.index} {column.index}) {{ return {address}; }}"

    def _over_tiles(self, nest: list[Loop], depth: int = 0) -> None:
        """Whole tiles only: the last ones begin early enough to end in range."""
        if depth == len(nest):
            for loop in nest:
                if loop.binding is Binding.TILED:
                    self._begin_tile(loop)
            self.nodes(nest[-1].body)
            return
        loop = nest[depth]
        name, count = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
        if loop.binding is Binding.TILED:
            name, count = side(self.sizes, loop.axis).tile, tiles_along(self.sizes, loop)
        with self.out.block(f"for ({self.index} {name} = 0; {name} < {count}; ++{name})"):
            self._over_tiles(nest, depth + 1)

    def _begin_tile(self, loop: Loop) -> None:
        axis = side(self.sizes, loop.axis)
        start, last = f"{axis.tile} * {loop.step}", f"{axis.extent} - {loop.step}"
        first = f"{start} < {last} ? {start} : {last}"
        self.out.line(f"const {self.index} {axis.first} = {first};")


def _has_chunks(node: Node) -> bool:
    """Whether something is stored past the cache."""
    match node:
        case Loop(binding=Binding.TILE_LINES):
            return any(isinstance(inside, Store) for inside in node.body)
        case DrainTile():
            return node.past_cache
        case _:
            return False
