"""CUDA C++ for blocks over points: which points, or which tile of them, each has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fuser.codegen.cuda.kernel import CudaKernel
from fuser.codegen.cuda.lanes import times
from fuser.codegen.tiles import side, tiles_along
from fuser.ir.dtypes import DataType
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import ceil_div
from fuser.schedule.tree.loop_tree import Loop

_LETTERS = {Binding.THREAD_X: "x", Binding.THREAD_Y: "y"}
"""The dimension of a block along which its threads share an axis."""


def over_blocks(kernel: CudaKernel, loop: Loop) -> None:
    """Loops over points: each thread has its own, or leaves where they are out of range."""
    nest: list[Loop] = [loop]
    while isinstance(nest[-1].body[0], Loop) and nest[-1].body[0].binding is not Binding.LANES:
        nest.append(nest[-1].body[0])
    if len(nest) == 1:
        _place_along_one_axis(kernel, loop)
    else:
        outside = place_block(kernel, nest)
        kernel.out.line(f"if ({' || '.join(outside)}) return;")
    with kernel.sharing(nest[-1]):
        kernel.nodes(nest[-1].body)


def _place_along_one_axis(kernel: CudaKernel, loop: Loop) -> None:
    name, index = kernel.sizes.axis(loop.axis), kernel.index
    wide = kernel.nest.index_dtype is DataType.Int
    block = f"{index}(blockIdx.x)" if wide else "blockIdx.x"
    thread = times(f"{block} * blockDim.x + threadIdx.x", loop.step)
    kernel.out.line(f"const {index} {name} = {thread};")
    kernel.out.line(f"if ({name} >= {kernel.sizes.extent(loop.axis)}) return;")


def place_block(kernel: CudaKernel, nest: Sequence[Loop]) -> list[str]:
    """Where the points of this thread, or the tile of this block, begin; what is so of threads that
    have no points."""
    outside: list[str] = []
    for loop, number, rest in _block_numbers(kernel, nest):
        name, place, letter = kernel.sizes.axis(loop.axis), number, _LETTERS.get(loop.binding)
        if loop.binding is Binding.TILED:
            name = side(kernel.sizes, loop).first
            place = f"{kernel.index}({number}) * {loop.step}"
        elif letter is not None:
            thread = f"{kernel.index}({number}) * blockDim.{letter} + threadIdx.{letter}"
            place = times(thread, loop.step)
            outside.insert(0, f"{name} >= {kernel.sizes.extent(loop.axis)}")
        kernel.out.line(f"const {kernel.index} {name} = {place};{rest}")
    return outside


def _block_numbers(kernel: CudaKernel, nest: Sequence[Loop]) -> Iterator[tuple[Loop, str, str]]:
    """Which of the blocks along each axis of a nest this one is, from the innermost, and what then
    leaves its number along the others.

    The two innermost axes have a dimension of the grid each, and all others share the third; or
    all share the first.
    """
    dimension = "x" if kernel.nest.launch.numbered else "z"
    if dimension == "z":
        *nest, y, x = nest
        yield x, "blockIdx.x", ""
        yield y, "blockIdx.y", ""
    number = f"blockIdx.{dimension}"
    if len(nest) > 1:
        kernel.out.line(f"unsigned int tile = {number};")
        number = "tile"
    for loop in reversed(nest[1:]):
        count = _blocks_along(kernel, loop)
        yield loop, f"tile % {count}", f" tile /= {count};"
    if nest:
        yield nest[0], number, ""


def _blocks_along(kernel: CudaKernel, loop: Loop) -> str:
    """How many blocks there are along an axis."""
    letter = _LETTERS.get(loop.binding)
    if letter is not None:
        width = kernel.nest.launch.block["xy".index(letter)] * loop.step
        return kernel.sizes.parameter(f"{letter}_tiles", ceil_div(loop.axis.extent, width))
    is_tiled = loop.binding is Binding.TILED
    return tiles_along(kernel.sizes, loop) if is_tiled else kernel.sizes.extent(loop.axis)
