"""C++ for tiles on the CPU target: read in blocks that are turned in registers, stored by lines."""

from __future__ import annotations

from fuser.codegen.printer import KernelPrinter
from fuser.codegen.tiles import row_of, side, sides, tiled_nest, tiles_along
from fuser.schedule.loop_tree import Binding, Loop, Node, Prefetch, Store, Tile, TileLine


class CpuTilePrinter(KernelPrinter):
    """Loops over tiles, all of them shared out over the threads."""

    def tile(self, tile: Tile) -> None:
        across = side(self.sizes, tile.across)
        type_ = self.expressions.type(tile.tensor.dtype)
        self.out.line(f"alignas(64) {type_} {tile.name}_tile[{tile.lines}][{tile.columns}];")
        fill = self.expressions.use("fill_tile")
        row = f"[&]({self._index} {across.index}) {{ return {row_of(self.sizes, tile)}; }}"
        self.out.line(f"{fill}({tile.name}_tile, {across.first}, {row});")

    def tile_line(self, line: TileLine) -> None:
        type_ = self.expressions.type(line.dtype)
        self.expressions.lane_arrays.add(line.name)
        self.out.line(f"const {type_}* const {line.name} = {line.name}_tile[line];")

    def tiled_loops(self, loop: Loop) -> None:
        """Print the loops around a tile."""
        nest = tiled_nest(loop)
        collapse = f" collapse({len(nest)})"
        if not _has_chunks(nest[-1].body):
            self.out.line(f"#pragma omp parallel for{collapse} if (threaded)")
            self._over_tiles(nest)
            return
        self.out.line("#pragma omp parallel if (threaded)")
        with self.out.block(""):
            self.out.line(f"#pragma omp for{collapse}")
            self._over_tiles(nest)
            self.out.line(f"{self.expressions.use('stream_fence')}();")

    def tile_lines(self, loop: Loop) -> None:
        """Print the loop over the lines of a tile."""
        over, across_over = sides(self.nest)
        along, across = side(self.sizes, over.axis), side(self.sizes, across_over.axis)
        with self.out.block(f"for (int line = 0; line < {over.step}; ++line)"):
            line = f"{along.index} = {along.first} + line"
            self.out.line(f"const {self._index} {line}, {across.index} = {across.first};")
            for node in loop.body:
                if isinstance(node, Prefetch):
                    self._prefetch_line(node)
                else:
                    self.node(node)

    def _prefetch_line(self, prefetch: Prefetch) -> None:
        at = self.sizes.index(prefetch.at, prefetch.tensor.name)
        ask = self.expressions.use("prefetch_lanes")
        self.out.line(f"{ask}<{prefetch.lanes}>({prefetch.tensor}_in + {at});")

    @property
    def _index(self) -> str:
        return self.expressions.type(self.nest.index_dtype)

    def _over_tiles(self, nest: list[Loop], depth: int = 0) -> None:
        """Whole tiles only: the last ones begin early enough to end in range."""
        if depth == len(nest):
            for loop in nest:
                if loop.binding is Binding.TILED:
                    self._begin_tile(loop)
            for node in nest[-1].body:
                self.node(node)
            return
        loop = nest[depth]
        name, count = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
        if loop.binding is Binding.TILED:
            name, count = side(self.sizes, loop.axis).tile, tiles_along(self.sizes, loop)
        with self.out.block(f"for ({self._index} {name} = 0; {name} < {count}; ++{name})"):
            self._over_tiles(nest, depth + 1)

    def _begin_tile(self, loop: Loop) -> None:
        axis = side(self.sizes, loop.axis)
        start, last = f"{axis.tile} * {loop.step}", f"{axis.extent} - {loop.step}"
        first = f"{start} < {last} ? {start} : {last}"
        self.out.line(f"const {self._index} {axis.first} = {first};")


def _has_chunks(nodes: tuple[Node, ...]) -> bool:
    """Whether the lines of a tile are stored in chunks."""
    lines = nodes[-1]
    assert isinstance(lines, Loop)
    return any(isinstance(node, Store) for node in lines.body)
