"""CUDA C++: a thread for a few neighbouring elements, vector accesses where memory is aligned."""

from __future__ import annotations

from fuser.codegen.cuda_tiles import CudaTilePrinter
from fuser.codegen.launch_bounds import launch_bounds
from fuser.codegen.target import CUDA
from fuser.codegen.tiles import tiled_nest
from fuser.ir.dtypes import DataType
from fuser.schedule.bindings import Binding
from fuser.schedule.counts import ceil_div
from fuser.schedule.loop_tree import Loop
from fuser.schedule.statements import Drawn, Load, Prefetch, Store

_THREAD_BINDINGS = (Binding.THREAD_X, Binding.THREAD_Y)


class CudaPrinter(CudaTilePrinter):
    """`extern "C" __global__ void name(...)`."""

    target = CUDA

    def signature(self, parameters: str) -> str:
        bounds = launch_bounds(self.nest.launch.max_threads)
        return f'extern "C" __global__ void {bounds}\n{self.nest.name}({parameters})'

    def loop(self, loop: Loop) -> None:
        if loop.binding is Binding.LANES:
            self._lane_loop(loop)
            return
        if loop.binding is Binding.TILE_LINES:
            self.tile_lines(loop)
            return
        if tiled_nest(loop):
            self.tiled_loops(loop)
            return
        nest: list[Loop] = [loop]
        while isinstance(nest[-1].body[0], Loop) and nest[-1].body[0].binding is not Binding.LANES:
            nest.append(nest[-1].body[0])
        self._place_thread(nest)
        self.nodes(nest[-1].body)

    def load(self, load: Load) -> None:
        if load.lanes == 1:
            super().load(load)
            return
        self.expressions.lane_arrays.add(load.name)
        type_ = self.expressions.type(load.tensor.dtype)
        at = self.sizes.index(load.at, load.tensor.name)
        self.out.line(f"{type_} {load.name}[{load.lanes}];")
        if load.drawn is not None:
            self.draw_vector(load, load.drawn)
            return
        read = self.expressions.use("load_part_pieces" if load.piece else "load_part")
        read += f"<{load.piece}>" if load.piece else ""
        self.out.line(f"{read}({load.name}, {load.tensor}_in + {_group(at)}, {self._valid()});")

    def draw_vector(self, load: Load, drawn: Drawn) -> None:
        """Fill the lanes of a load that draws them; their first number is a multiple of a piece."""
        draw, numbers = self.expressions.use("draw_vector"), self.drawn_numbers(load, drawn)
        call = f"{draw}<{numbers}, {load.piece or load.lanes}>"
        self.out.line(f"{call}({load.name}, {self.drawn_at(load, drawn)});")

    def store(self, store: Store) -> None:
        if store.lanes == 1:
            super().store(store)
            return
        at = self.sizes.index(store.at, store.tensor.name)
        source = self.lanes_of(store)
        write = self.expressions.use("store_part")
        self.out.line(f"{write}({source}, {store.tensor}_out + {_group(at)}, {self._valid()});")

    def prefetch(self, prefetch: Prefetch) -> None:
        raise AssertionError("other warps hide the latency of loads on a GPU: nothing to prefetch")

    def _valid(self) -> str:
        """How many elements are left for this thread's lanes."""
        inner = self.nest.axes[-1]
        return f"{self.sizes.extent(inner)} - {self.sizes.axis(inner)}"

    def _lane_loop(self, loop: Loop) -> None:
        self.sizes.name_axis(loop.axis, "lane")
        self.out.line("#pragma unroll")
        count = loop.axis.extent
        with self.out.block(f"for (int lane = 0; lane < {count}; ++lane)"):
            if any(isinstance(node, Load | Store) for node in loop.body):
                self.out.line(f"if (lane >= {self._valid()}) break;")
            self.nodes(loop.body)

    def _place_thread(self, nest: list[Loop]) -> None:
        """Compute this thread's indices, and leave where they are out of range."""
        if len(nest) == 1:
            self._place_along_one_axis(nest[0])
            return
        index = self.index
        self.out.line("unsigned int tile = blockIdx.x;")
        checks: list[str] = []
        for loop in reversed(nest):
            name = self.sizes.axis(loop.axis)
            if loop.binding in _THREAD_BINDINGS:
                self._place_within_tile(loop, name, index, last=loop is nest[0])
                checks.insert(0, f"{name} >= {self.sizes.extent(loop.axis)}")
            elif loop is nest[0]:
                self.out.line(f"const {index} {name} = tile;")
            else:
                extent = self.sizes.extent(loop.axis)
                self.out.line(f"const {index} {name} = tile % {extent}; tile /= {extent};")
        self.out.line(f"if ({' || '.join(checks)}) return;")

    def _place_along_one_axis(self, loop: Loop) -> None:
        name, index = self.sizes.axis(loop.axis), self.index
        wide = self.nest.index_dtype is DataType.Int
        block = f"{index}(blockIdx.x)" if wide else "blockIdx.x"
        thread = f"{block} * blockDim.x + threadIdx.x"
        thread = f"({thread}) * {loop.step}" if loop.step > 1 else thread
        self.out.line(f"const {index} {name} = {thread};")
        self.out.line(f"if ({name} >= {self.sizes.extent(loop.axis)}) return;")

    def _place_within_tile(self, loop: Loop, name: str, index: str, *, last: bool) -> None:
        letter = "x" if loop.binding is Binding.THREAD_X else "y"
        width = self.nest.launch.block[0 if letter == "x" else 1] * loop.step
        tiles = ceil_div(loop.axis.extent, width)
        count = "" if last else self.sizes.parameter(f"{letter}_tiles", tiles)
        tile = "tile" if last else f"tile % {count}"
        position = f"{index}({tile}) * blockDim.{letter} + threadIdx.{letter}"
        position = f"({position}) * {loop.step}" if loop.step > 1 else position
        divide = "" if last else f" tile /= {count};"
        self.out.line(f"const {index} {name} = {position};{divide}")


def _group(text: str) -> str:
    return f"({text})" if " " in text else text
