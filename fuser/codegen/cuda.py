"""CUDA C++: a thread for a few neighbouring elements, vector accesses where memory is aligned."""

from __future__ import annotations

from fuser.codegen.cuda_tiles import BlockNumber, CudaTilePrinter
from fuser.codegen.launch_bounds import launch_bounds
from fuser.codegen.target import CUDA
from fuser.codegen.tiles import tiled_nest
from fuser.ir.dtypes import DataType
from fuser.schedule.bindings import Binding
from fuser.schedule.counts import ceil_div
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import Loop
from fuser.schedule.statements import Drawn, Let, Load, Prefetch, Store
from fuser.segmenter import Segment

_THREAD_BINDINGS = (Binding.THREAD_X, Binding.THREAD_Y)


class CudaPrinter(CudaTilePrinter):
    """`extern "C" __global__ void name(...)`."""

    target = CUDA

    def __init__(self, segment: Segment, nest: LoopNest) -> None:
        super().__init__(segment, nest)
        self._sharing: Loop | None = None
        """The loop in which threads have points of their own, so that all of them store."""

    def signature(self, parameters: str) -> str:
        bounds = launch_bounds(self.nest.launch.max_threads)
        return f'extern "C" __global__ void {bounds}\n{self.nest.name}({parameters})'

    def loop(self, loop: Loop) -> None:
        if loop.binding is Binding.LANES:
            self._over_lanes(loop)
            return
        if loop.binding is Binding.TILE_LINES:
            self._sharing = loop
            self.tile_lines(loop)
            self._sharing = None
            return
        if tiled_nest(loop):
            self.tiled_loops(loop)
            return
        nest: list[Loop] = [loop]
        while isinstance(nest[-1].body[0], Loop) and nest[-1].body[0].binding is not Binding.LANES:
            nest.append(nest[-1].body[0])
        self._place_thread(nest)
        self._sharing = nest[-1]
        self.nodes(nest[-1].body)
        self._sharing = None

    # -- memory ----------------------------------------------------------------------------------

    def load(self, load: Load) -> None:
        if load.lanes == 1:
            super().load(load)
            return
        self._declare_lanes(load.name, load.tensor.dtype, load.lanes)
        if load.drawn is not None:
            self.draw_vector(load, load.drawn)
            return
        at = self.sizes.index(load.at, load.tensor.name)
        self._move("load", load.name, f"{load.tensor}_in + {grouped(at)}", load.piece)

    def draw_vector(self, load: Load, drawn: Drawn) -> None:
        """Fill the lanes of a load that draws them; their first number is a multiple of a piece."""
        draw, numbers = self.expressions.use("draw_vector"), self.drawn_numbers(load, drawn)
        call = f"{draw}<{numbers}, {load.piece or load.lanes}>"
        self.out.line(f"{call}({load.name}, {self.drawn_at(load, drawn)});")

    def store(self, store: Store) -> None:
        if store.lanes == 1:
            super().store(store)
            return
        self._store_lanes(store)

    def _store_lanes(self, store: Store) -> None:
        at = self.sizes.index(store.at, store.tensor.name)
        place = f"{store.tensor}_out + {grouped(at)}"
        self._move("store", self.lanes_of(store), place, store.piece)

    def _declare_lanes(self, name: str, dtype: DataType, lanes: int) -> None:
        self.expressions.lane_arrays.add(name)
        self.out.line(f"{self.expressions.type(dtype)} {name}[{lanes}];")

    def _move(self, verb: str, lanes: str, place: str, piece: int = 0) -> None:
        """Between lanes and memory, in pieces or at once; as many of them as there are."""
        assert self._sharing is not None
        if self._sharing.whole:
            function, valid = "pieces" if piece else "vector", ""
        else:
            function, valid = "part_pieces" if piece else "part", f", {self._valid()}"
        call = self.expressions.use(f"{verb}_{function}") + (f"<{piece}>" if piece else "")
        self.out.line(f"{call}({lanes}, {place}{valid});")

    def prefetch(self, prefetch: Prefetch) -> None:
        raise AssertionError("other warps hide the latency of loads on a GPU: nothing to prefetch")

    def _valid(self) -> str:
        """How many elements are left for this thread's lanes."""
        inner = self.nest.axes[-1]
        return f"{self.sizes.extent(inner)} - {self.sizes.axis(inner)}"

    # -- threads and their lanes -----------------------------------------------------------------

    def _over_lanes(self, loop: Loop) -> None:
        assert self._sharing is not None
        self.sizes.name_axis(loop.axis, "lane")
        self.out.line("#pragma unroll")
        with self.out.block(f"for (int lane = 0; lane < {loop.axis.extent}; ++lane)"):
            in_order = self._sharing.binding is Binding.SCAN
            lets = not in_order and all(isinstance(node, Let) for node in loop.body)
            if not self._sharing.whole and not lets:
                self.out.line(f"if (lane >= {self._valid()}) break;")
            self.nodes(loop.body)

    def _place_thread(self, nest: list[Loop]) -> None:
        """Compute this thread's indices, and leave where they are out of range."""
        if len(nest) == 1:
            self._place_along_one_axis(nest[0])
            return
        checks: list[str] = []
        for number in self.block_numbers(nest, self._blocks_along):
            name, place = self.sizes.axis(number.loop.axis), number.text
            if number.loop.binding in _THREAD_BINDINGS:
                place = self._within_block(number)
                checks.insert(0, f"{name} >= {self.sizes.extent(number.loop.axis)}")
            self.out.line(f"const {self.index} {name} = {place};{number.rest}")
        self.out.line(f"if ({' || '.join(checks)}) return;")

    def _place_along_one_axis(self, loop: Loop) -> None:
        name, index = self.sizes.axis(loop.axis), self.index
        wide = self.nest.index_dtype is DataType.Int
        block = f"{index}(blockIdx.x)" if wide else "blockIdx.x"
        thread = f"{block} * blockDim.x + threadIdx.x"
        thread = f"({thread}) * {loop.step}" if loop.step > 1 else thread
        self.out.line(f"const {index} {name} = {thread};")
        self.out.line(f"if ({name} >= {self.sizes.extent(loop.axis)}) return;")

    def _within_block(self, number: BlockNumber) -> str:
        """Where a thread's points begin along an axis that the threads of a block share."""
        letter, step = _letter(number.loop), number.loop.step
        place = f"{self.index}({number.text}) * blockDim.{letter} + threadIdx.{letter}"
        return f"({place}) * {step}" if step > 1 else place

    def _blocks_along(self, loop: Loop) -> str:
        """How many blocks there are along an axis."""
        if loop.binding not in _THREAD_BINDINGS:
            return self.sizes.extent(loop.axis)
        letter = _letter(loop)
        width = self.nest.launch.block["xy".index(letter)] * loop.step
        return self.sizes.parameter(f"{letter}_tiles", ceil_div(loop.axis.extent, width))


def _letter(loop: Loop) -> str:
    """The dimension of a block along which its threads share an axis."""
    return "x" if loop.binding is Binding.THREAD_X else "y"


def grouped(text: str) -> str:
    """The text of an index, in parentheses if it has several words."""
    return f"({text})" if " " in text else text
