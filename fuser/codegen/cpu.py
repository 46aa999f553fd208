"""C++ for the CPU target: OpenMP over outer loops, `omp simd`, a chunk or a row copy inside."""

from __future__ import annotations

from fuser.codegen.cpu_tiles import CpuTilePrinter
from fuser.codegen.target import CPU
from fuser.codegen.tiles import tiled_nest
from fuser.schedule.index import Index, substitute
from fuser.schedule.loop_tree import Binding, Drawn, Load, Loop, Prefetch, Store


class CpuPrinter(CpuTilePrinter):
    """`extern "C" void name(..., const bool threaded)`."""

    target = CPU

    def signature(self, parameters: str) -> str:
        return f'extern "C" void {self.nest.name}({parameters}, const bool threaded)'

    def loop(self, loop: Loop) -> None:
        if loop.binding is Binding.TILE_LINES:
            self.tile_lines(loop)
        elif tiled_nest(loop):
            self.tiled_loops(loop)
        elif loop.axis is not self.nest.axes[0]:
            self._inner(loop)
        elif self._innermost().binding in (Binding.STREAM, Binding.CHUNKS):
            self.out.line("#pragma omp parallel if (threaded)")
            with self.out.block(""):
                self.out.line(f"#pragma omp for{self._collapse()}")
                self._inner(loop)
                self.out.line(f"{self.expressions.use('stream_fence')}();")
        elif loop.binding is Binding.SIMD:
            self.out.line("#pragma omp parallel for simd if (parallel : threaded)")
            self._for(loop)
        else:
            self.out.line(f"#pragma omp parallel for{self._collapse()} if (threaded)")
            self._for(loop)

    def load(self, load: Load) -> None:
        if load.drawn is None or load.lanes == 1:
            if not load.in_lanes:
                self.expressions.lane_arrays.discard(load.name)
            super().load(load)
            return
        type_ = self.expressions.type(load.tensor.dtype)
        self.out.line(f"{self.draw_room(load, load.drawn)};")
        self.out.line(f"const {type_}* const {self.drawn_lanes(load, load.drawn)};")

    def draw_room(self, load: Load, drawn: Drawn) -> str:
        """The declaration of room for lanes that are drawn, which may begin within a block."""
        type_, numbers = self.expressions.type(load.tensor.dtype), self.drawn_numbers(load, drawn)
        return f"{type_} {load.name}_room[{load.lanes} + {numbers}::count]"

    def drawn_lanes(self, load: Load, drawn: Drawn) -> str:
        """The assignment of where lanes are that are drawn."""
        self.expressions.lane_arrays.add(load.name)
        draw, numbers = self.expressions.use("draw_lanes"), self.drawn_numbers(load, drawn)
        given = f"{load.name}_room, {self.drawn_at(load, drawn)}"
        return f"{load.name} = {draw}<{numbers}, {load.lanes}>({given})"

    def store(self, store: Store) -> None:
        if store.lanes == 1:
            super().store(store)
            return
        at = self.sizes.index(store.at, store.tensor.name)
        write = self.expressions.use(self.chunk_store(store))
        kept = "" if self.nest.launch.past_cache else ", false"
        self.out.line(f"{write}({store.tensor}_out + {at}, {self.lanes_of(store)}{kept});")

    def chunk_store(self, store: Store) -> str:
        """The function that stores a chunk: one that rounds it, if it is wider than the tensor."""
        same = store.source.dtype is store.tensor.dtype
        return "stream_chunk" if same else "stream_rounded"

    def prefetch(self, prefetch: Prefetch) -> None:
        at = self.sizes.index(prefetch.at, prefetch.tensor.name)
        ask = self.expressions.use("prefetch_ahead")
        self.out.line(f"{ask}<{prefetch.lanes}>({prefetch.tensor}_in + {at});")

    def _inner(self, loop: Loop) -> None:
        if loop.binding is Binding.STREAM:
            self._stream(loop)
        elif loop.binding is Binding.CHUNKS:
            self._chunks(loop)
        elif loop.binding is Binding.SIMD and loop.axis not in self.nest.axes:
            self._lanes(loop)
        else:
            if loop.binding is Binding.SIMD:
                self.out.line("#pragma omp simd")
            self._for(loop)

    def _for(self, loop: Loop) -> None:
        name, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
        index = self.expressions.type(self.nest.index_dtype)
        with self.out.block(f"for ({index} {name} = 0; {name} < {extent}; ++{name})"):
            for node in loop.body:
                self.node(node)

    def _chunks(self, loop: Loop) -> None:
        """Whole chunks only: the last one starts early enough to end in range."""
        index = self.expressions.type(self.nest.index_dtype)
        name, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
        chunks = self.sizes.parameter("chunks", -(-loop.axis.extent // loop.step))
        last = f"{extent} - {loop.step}"
        with self.out.block(f"for ({index} chunk = 0; chunk < {chunks}; ++chunk)"):
            start = f"chunk * {loop.step}"
            self.out.line(f"const {index} {name} = {start} < {last} ? {start} : {last};")
            for node in loop.body:
                self.node(node)

    def _lanes(self, loop: Loop) -> None:
        self.sizes.name_axis(loop.axis, "lane")
        self.out.line("#pragma omp simd")
        with self.out.block(f"for (int lane = 0; lane < {loop.axis.extent}; ++lane)"):
            for node in loop.body:
                self.node(node)

    def _stream(self, loop: Loop) -> None:
        """The innermost row of a copy: its load and store in one call."""
        load, store = loop.body
        assert isinstance(load, Load)
        assert isinstance(store, Store)
        start = {loop.axis: Index()}
        to = self.sizes.index(substitute(store.at, start), store.tensor.name)
        at = self.sizes.index(substitute(load.at, start), load.name)
        copy = self.expressions.use("stream_row")
        row = f"{store.tensor}_out + {to}, {load.tensor}_in + {at}, {self.sizes.extent(loop.axis)}"
        self.out.line(f"{copy}({row});")

    def _innermost(self) -> Loop:
        loop = self.nest.body[0]
        assert isinstance(loop, Loop)
        while isinstance(loop.body[0], Loop):  # up to a chunk, whose lanes come after other nodes
            loop = loop.body[0]
        return loop

    def _collapse(self) -> str:
        """How many loops are divided over the threads: those outside the vector loop, at most two.

        Two have enough iterations, and the loops inside them keep their base addresses.
        """
        in_chunks = self._innermost().binding is Binding.CHUNKS
        depth = min(len(self.nest.axes) if in_chunks else len(self.nest.axes) - 1, 2)
        return f" collapse({depth})" if depth > 1 else ""
