"""CUDA C++ for tiles: which of them a block has, and how it turns it in shared memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from fuser.codegen.printer import KernelPrinter
from fuser.codegen.tiles import column_of, side, sides, tiled_nest, tiles_along
from fuser.schedule.bindings import Binding
from fuser.schedule.expressions import Ref
from fuser.schedule.loop_tree import Loop, Node
from fuser.schedule.statements import DrainTile, FillTile, TileKeep, TileLine, TileNode, TileRoom
from fuser.schedule.tiling import pitch

_UNROLLED = 4
"""Rounds of a block over a tile's lines whose loads are to be on their way at once."""


class CudaTilePrinter(KernelPrinter):
    """Blocks over tiles, or over axes."""

    def tile(self, node: TileNode) -> None:
        match node:
            case TileRoom(name, dtype):
                along, across = sides(self.nest)
                shape = f"[{across.step}][{pitch(along.step, dtype.itemsize)}]"
                self.out.line(f"__shared__ {self.expressions.type(dtype)} {name}_tile{shape};")
            case FillTile():
                self._move_tile("fill_tile", node)
            case DrainTile():
                self._move_tile("drain_tile", node)
            case TileLine():
                self._take_line(node)
            case TileKeep():
                self._keep_line(node)
            case _:
                assert_never(node)

    def tiled_loops(self, loop: Loop) -> None:
        """Print which tile a block has, and what it does with it."""
        nest = tiled_nest(loop)
        for number in self.block_numbers(nest, self._tiles_along):
            self._place_tile(number)
        before: Node | None = None
        for node in nest[-1].body:
            if _crosses_threads(before, node):
                self.out.line("__syncthreads();")
            self.node(node)
            before = node

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
            at = f"{along.index} = {along.first} + line, {across.index} = {across.first} + column"
            self.out.line(f"const {self.index} {at};")
            outside = f"{along.index} >= {along.extent} || {across.index} >= {across.extent}"
            self.out.line(f"if ({outside}) continue;")
            self.nodes(loop.body)

    def _threads(self) -> int:
        return math.prod(self.nest.launch.block)

    def _move_tile(self, function: str, node: FillTile | DrainTile) -> None:
        """Between a tile and memory, column by column."""
        over, across_over = sides(self.nest)
        along, across = side(self.sizes, over.axis), side(self.sizes, across_over.axis)
        call = f"{self.expressions.use(function)}<{self._threads()}, {node.moved}, {over.step}>"
        left = f"{along.extent} - {along.first}, {across.extent} - {across.first}"
        address = column_of(self.sizes, node, over.axis)
        column = f"[&]({self.index} {across.index}) {{ return {address}; }}"
        self.out.line(f"{call}({node.tile}_tile, {across.first}, {left}, {column});")

    def _take_line(self, line: TileLine) -> None:
        type_, name = self.expressions.type(line.dtype), line.name
        if line.lanes == 1:
            self.out.line(f"const {type_} {name} = {name}_tile[column][line];")
            return
        self.expressions.lane_arrays.add(name)
        self.out.line(f"{type_} {name}[{line.lanes}];")
        self.out.line(f"{self.expressions.use('take_line')}({name}, {name}_tile, line, column);")

    def _keep_line(self, keep: TileKeep) -> None:
        if keep.lanes == 1:
            source = self.expressions.print(keep.source, keep.tile)
            self.out.line(f"{keep.tile}_tile[column][line] = {source};")
            return
        assert isinstance(keep.source, Ref)
        across = side(self.sizes, sides(self.nest)[1].axis)
        valid = f"{across.extent} - {across.index}"
        call = f"{self.expressions.use('keep_line')}({keep.source.name}, {keep.tile}_tile"
        self.out.line(f"{call}, line, column, {valid});")

    def _place_tile(self, number: BlockNumber) -> None:
        """One of the indices of a block's tile."""
        loop, name, place = number.loop, self.sizes.axis(number.loop.axis), number.text
        if loop.binding is Binding.TILED:
            name = side(self.sizes, loop.axis).first
            place = f"{self.index}({place}) * {loop.step}"
        self.out.line(f"const {self.index} {name} = {place};{number.rest}")

    def _tiles_along(self, loop: Loop) -> str:
        is_tiled = loop.binding is Binding.TILED
        return tiles_along(self.sizes, loop) if is_tiled else self.sizes.extent(loop.axis)

    # -- blocks ----------------------------------------------------------------------------------

    def block_numbers(
        self, nest: Sequence[Loop], blocks: Callable[[Loop], str]
    ) -> Iterator[BlockNumber]:
        """Which of the `blocks` along each axis of a nest this one is, from the innermost.

        The two innermost axes have a dimension of the grid each, and all others share the third; or
        all share the first.
        """
        if self.nest.launch.numbered:
            yield from self._numbers_along("x", nest, blocks)
            return
        *others, y, x = nest
        yield BlockNumber(x, "blockIdx.x")
        yield BlockNumber(y, "blockIdx.y")
        yield from self._numbers_along("z", others, blocks)

    def _numbers_along(
        self, dimension: str, nest: Sequence[Loop], blocks: Callable[[Loop], str]
    ) -> Iterator[BlockNumber]:
        """Those of axes that share a dimension of the grid: the number along it is divided."""
        number = f"blockIdx.{dimension}"
        if len(nest) > 1:
            self.out.line(f"unsigned int tile = {number};")
            number = "tile"
        for loop in reversed(nest[1:]):
            count = blocks(loop)
            yield BlockNumber(loop, f"tile % {count}", f" tile /= {count};")
        if nest:
            yield BlockNumber(nest[0], number)


@dataclass(frozen=True, slots=True)
class BlockNumber:
    """Which of the blocks along the axis of a loop is at hand; `rest` leaves the number of the
    block along the others."""

    loop: Loop
    text: str
    rest: str = ""


def _crosses_threads(before: Node | None, node: Node) -> bool:
    """Whether threads take what others have left in shared memory."""
    return (isinstance(before, FillTile) and isinstance(node, Loop)) or (
        isinstance(before, Loop) and isinstance(node, DrainTile)
    )
