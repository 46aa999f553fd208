"""CUDA C++ for tiles: a block reads one to shared memory, and stores what its lines give."""

from __future__ import annotations

import math

from fuser.codegen.printer import KernelPrinter
from fuser.codegen.tiles import row_of, side, sides, tiled_nest, tiles_along
from fuser.schedule.loop_tree import Binding, Loop, Tile, TileLine
from fuser.schedule.tiling import pitch

_UNROLLED = 4
"""Rounds of a block over a tile's lines whose loads are to be on their way at once."""


class CudaTilePrinter(KernelPrinter):
    """Blocks over tiles."""

    def tile(self, tile: Tile) -> None:
        along, across = side(self.sizes, tile.along), side(self.sizes, tile.across)
        name, type_ = f"{tile.name}_tile", self.expressions.type(tile.tensor.dtype)
        self.out.line(f"__shared__ {type_} {name}[{tile.columns}][{pitch(tile)}];")
        shape = f"{self._threads()}, {tile.moved}, {tile.lines}"
        fill = f"{self.expressions.use('fill_tile')}<{shape}>"
        row = f"[&]({self._index_type} {across.index}) {{ return {row_of(self.sizes, tile)}; }}"
        left = f"{along.extent} - {along.first}, {across.extent} - {across.first}"
        self.out.line(f"{fill}({name}, {across.first}, {left}, {row});")

    def tile_line(self, line: TileLine) -> None:
        type_, name = self.expressions.type(line.dtype), line.name
        if line.lanes == 1:
            self.out.line(f"const {type_} {name} = {name}_tile[column][line];")
            return
        self.expressions.lane_arrays.add(name)
        self.out.line(f"{type_} {name}[{line.lanes}];")
        self.out.line(f"{self.expressions.use('tile_line')}({name}, {name}_tile, line, column);")

    def tiled_loops(self, loop: Loop) -> None:
        """Print which tile a block has, and what it does with it."""
        nest = tiled_nest(loop)
        self.out.line("unsigned int tile = blockIdx.x;")
        for loop in reversed(nest):
            self._place_tile(loop, last=loop is nest[0])
        *tiles, lines = nest[-1].body
        for node in tiles:
            self.node(node)
        self.out.line("__syncthreads();")
        self.node(lines)

    def tile_lines(self, loop: Loop) -> None:
        """Print the loop over the lines of a tile: a thread has `step` neighbours of one."""
        over, across_over = sides(self.nest)
        along, across = side(self.sizes, over.axis), side(self.sizes, across_over.axis)
        threads, in_line = self._threads(), across_over.step // loop.step
        rounds = over.step * in_line // threads
        self.out.line(f"#pragma unroll{f' {_UNROLLED}' if rounds > _UNROLLED else ''}")
        with self.out.block(f"for (int round = 0; round < {rounds}; ++round)"):
            self.out.line(f"const int place = round * {threads} + threadIdx.x;")
            column = f"place % {in_line}" + (f" * {loop.step}" if loop.step > 1 else "")
            self.out.line(f"const int line = place / {in_line}, column = {column};")
            line = f"{along.index} = {along.first} + line"
            self.out.line(
                f"const {self._index_type} {line}, {across.index} = {across.first} + column;"
            )
            outside = f"{along.index} >= {along.extent} || {across.index} >= {across.extent}"
            self.out.line(f"if ({outside}) continue;")
            for node in loop.body:
                self.node(node)

    @property
    def _index_type(self) -> str:
        return self.expressions.type(self.nest.index_dtype)

    def _threads(self) -> int:
        return math.prod(self.nest.launch.block)

    def _place_tile(self, loop: Loop, *, last: bool) -> None:
        """One of the indices of a block's tile; the outermost is what is left of its number."""
        name, count, scale = self.sizes.axis(loop.axis), "", ""
        if loop.binding is Binding.TILED:
            name, scale = side(self.sizes, loop.axis).first, f" * {loop.step}"
        if not last:
            count = tiles_along(self.sizes, loop) if scale else self.sizes.extent(loop.axis)
        number = f"tile % {count}" if count else "tile"
        number = f"{self._index_type}({number}){scale}" if scale else number
        self.out.line(
            f"const {self._index_type} {name} = {number};{f' tile /= {count};' if count else ''}"
        )
