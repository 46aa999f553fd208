"""CUDA C++ for tiles: which of them a block has, and how it turns it in shared memory."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from fuser.codegen.cuda.blocks import place_block
from fuser.codegen.cuda.kernel import CudaKernel
from fuser.codegen.cuda.lanes import declare_lanes, on_lanes
from fuser.codegen.tiles import column_of, sides, tiled_nest
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import Ref
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.statements import (
    ColumnKeep,
    DrainTile,
    FillTile,
    TileKeep,
    TileLine,
    TileNode,
    TileRoom,
    pitch,
)

_UNROLLED = 4
"""Rounds of a block over a tile's lines whose loads are to be on their way at once."""


def tile_node(kernel: CudaKernel, node: TileNode) -> None:
    """What is done with a tile, or a line of it."""
    match node:
        case TileRoom(name, dtype):
            along, across = sides(kernel)
            shape = f"[{across.step}][{pitch(along.step, dtype.itemsize)}]"
            kernel.out.line(f"__shared__ {kernel.expressions.type(dtype)} {name}_tile{shape};")
        case FillTile():
            _move_tile(kernel, "fill_tile", node)
        case DrainTile():
            _move_tile(kernel, "drain_tile", node)
        case TileLine():
            _take_line(kernel, node)
        case TileKeep():
            _keep_line(kernel, node)
        case ColumnKeep():
            _keep_column(kernel, node)
        case _:
            assert_never(node)


def tiled_loops(kernel: CudaKernel, loop: Loop) -> None:
    """Print which tile a block has, and what it does with it."""
    nest = tiled_nest(loop)
    place_block(kernel, nest)
    *_, across, along = nest
    before: Node | None = None
    with kernel.within(tile=(along, across)):
        for node in along.body:
            if _crosses_threads(before, node):
                kernel.out.line("__syncthreads();")
            kernel.node(node)
            before = node


def over_tile(kernel: CudaKernel, loop: Loop) -> None:
    """Print the loop over the lines of a tile, or its columns: a thread has `step` neighbours of
    one, which lie along the other side."""
    along, across = sides(kernel)
    if loop.binding is Binding.TILE_LINES:
        one, neighbours, names = along, across, ("line", "column")
    else:
        one, neighbours, names = across, along, ("column", "line")
    threads, in_one = kernel.facts.block_threads, neighbours.step // loop.step
    rounds, left = divmod(one.step * in_one, threads)
    kernel.out.line(f"#pragma unroll{f' {_UNROLLED}' if rounds > _UNROLLED else ''}")
    with kernel.out.block(f"for (int round = 0; round < {rounds + (left > 0)}; ++round)"):
        kernel.out.line(f"const int place = round * {threads} + threadIdx.x;")
        neighbour = f"place % {in_one}" + (f" * {loop.step}" if loop.step > 1 else "")
        kernel.out.line(f"const int {names[0]} = place / {in_one}, {names[1]} = {neighbour};")
        at = f"{along.index} = {along.first} + line, {across.index} = {across.first} + column"
        kernel.out.line(f"const {kernel.index} {at};")
        outside = f"{along.index} >= {along.extent} || {across.index} >= {across.extent}"
        beyond = f" || {names[0]} >= {one.step}" if left else ""
        kernel.out.line(f"if ({outside}{beyond}) continue;")
        with kernel.sharing(replace(loop, axis=neighbours.axis)):
            kernel.nodes(loop.body)


def _move_tile(kernel: CudaKernel, function: str, node: FillTile | DrainTile) -> None:
    """Between a tile and memory, column by column."""
    along, across = sides(kernel)
    move, threads = kernel.expressions.use(function), kernel.facts.block_threads
    call = f"{move}<{threads}, {node.moved}, {along.step}>"
    left = f"{along.extent} - {along.first}, {across.extent} - {across.first}"
    address = column_of(kernel.sizes, node, along)
    column = f"[&]({kernel.index} {across.index}) {{ return {address}; }}"
    kernel.out.line(f"{call}({node.tile}_tile, {across.first}, {left}, {column});")


def _take_line(kernel: CudaKernel, line: TileLine) -> None:
    name = line.name
    kernel.expressions.known.loaded(name, line.dtype)
    if line.lanes == 1:
        type_ = kernel.expressions.type(line.dtype)
        kernel.out.line(f"const {type_} {name} = {name}_tile[column][line];")
        return
    declare_lanes(kernel, name, line.dtype, line.lanes)
    kernel.out.line(f"{kernel.expressions.use('take_line')}({name}, {name}_tile, line, column);")


def _keep_line(kernel: CudaKernel, keep: TileKeep) -> None:
    if keep.lanes == 1:
        source = kernel.expressions.print(keep.source, keep.tile)
        kernel.out.line(f"{keep.tile}_tile[column][line] = {source};")
        return
    assert isinstance(keep.source, Ref)
    _, across = sides(kernel)
    valid = f"{across.extent} - {across.index}"
    call = f"{kernel.expressions.use('keep_line')}({keep.source.name}, {keep.tile}_tile"
    kernel.out.line(f"{call}, line, column, {valid});")


def _keep_column(kernel: CudaKernel, keep: ColumnKeep) -> None:
    if keep.lanes == 1:
        kernel.out.line(f"{keep.tile}_tile[column][line] = {keep.source.name};")
        return
    kept = f"{keep.tile}_tile[column][line + lane] = {keep.source.name}[lane];"
    on_lanes(kernel, keep.lanes, kept)


def _crosses_threads(before: Node | None, node: Node) -> bool:
    """Whether threads take what others have left in shared memory."""
    lines = isinstance(node, Loop) and node.binding is Binding.TILE_LINES
    return lines or (isinstance(before, Loop) and isinstance(node, DrainTile))
