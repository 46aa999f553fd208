"""C++ for the CPU target: OpenMP over outer loops, `omp simd`, a chunk or a row copy inside.

Where a domain is cut into pieces, threads share out the loops of one after the other.
"""

from __future__ import annotations

from fuser.codegen.cpu_tiles import CpuTilePrinter
from fuser.codegen.target import CPU
from fuser.codegen.tiles import tiled_nest
from fuser.ir.dtypes import DataType
from fuser.schedule.bindings import Binding
from fuser.schedule.counts import ceil_div
from fuser.schedule.index import Index, substitute
from fuser.schedule.lane_loads import widens_vectors
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import Loop, Node, Peel, Region, RowNode, every_node
from fuser.schedule.row_body import variables_of
from fuser.schedule.statements import CheckedIndex, Drawn, Let, Load, Prefetch, Store
from fuser.segmenter import Segment

_WORD = 4
"""The bytes of the least numbers that processors gather."""


class CpuPrinter(CpuTilePrinter):
    """`extern "C" void name(..., const bool threaded)`."""

    target = CPU
    _stored_part = ""
    """What is stored of the chunk at hand, if not all of it: a "part" between `first` and `last`,
    or, of one that was "moved" into range, what no other chunk has."""
    _in_region = False
    """Whether pieces are at hand, whose loops the region shares out."""

    def __init__(self, segment: Segment, nest: LoopNest) -> None:
        super().__init__(segment, nest)
        self._made: set[str] = set()
        """What the loop at hand has computed, by name."""

    def signature(self, parameters: str) -> str:
        return f'extern "C" void {self.nest.name}({parameters}, const bool threaded)'

    def row_node(self, node: RowNode) -> None:
        if isinstance(node, Region):
            self.region(node)
        else:
            super().row_node(node)

    def region(self, node: Region) -> None:
        """Pieces, whose loops are shared out one after the other without waiting."""
        self.sizes.has_pieces = self._in_region = True
        self.out.line("#pragma omp parallel if (threaded)")
        with self.out.block(""):
            for loop in node.body:
                assert isinstance(loop, Loop), "every piece has a loop"
                simd = " simd" if loop.binding is Binding.SIMD else ""
                self.out.line(f"#pragma omp for{simd}{_collapse(loop)} nowait")
                self._for(loop) if simd else self._inner(loop)
            if any(map(_in_chunks, node.body)):
                self._fence()

    def node(self, node: Node) -> None:
        outside = self._made
        if isinstance(node, Loop):
            self._made = set()
        super().node(node)
        self._made = outside
        if isinstance(node, Let | CheckedIndex):
            self._made.add(node.name)

    def loop(self, loop: Loop) -> None:
        if loop.binding is Binding.TILE_LINES:
            self.tile_lines(loop)
        elif tiled_nest(loop):
            self.tiled_loops(loop)
        elif self._in_region or loop.axis != self.nest.axes[0]:
            self._inner(loop)
        elif _in_chunks(loop):
            self.out.line("#pragma omp parallel if (threaded)")
            with self.out.block(""):
                self.out.line(f"#pragma omp for{_collapse(loop)}")
                self._inner(loop)
                self._fence()
        elif loop.binding is Binding.SIMD:
            self.out.line("#pragma omp parallel for simd if (parallel : threaded)")
            self._for(loop)
        else:
            self.out.line(f"#pragma omp parallel for{_collapse(loop)} if (threaded)")
            self._for(loop)

    def load(self, load: Load) -> None:
        if load.lanes == 1:
            if not load.in_lanes:
                self.expressions.lane_arrays.discard(load.name)
            super().load(load)
            return
        if load.drawn is None:
            self.out.line(f"{self.wide_room(load)};")
            self.out.line(f"{self.wide_lanes(load)};")
            return
        type_ = self.expressions.type(load.tensor.dtype)
        self.out.line(f"{self.draw_room(load, load.drawn)};")
        self.out.line(f"const {type_}* const {self.drawn_lanes(load, load.drawn)};")

    def read(self, load: Load, at: str) -> str:
        """An element; by the word that it lies in, where its place is computed for each: of other
        sizes, no vectors are gathered, nor made of the loop around them."""
        dtype = load.tensor.dtype
        is_narrow = dtype.is_floating and dtype.itemsize < _WORD
        if is_narrow and any(v.name in self._made for v in variables_of((load.at,))):
            return f"{self.expressions.use('gathered')}({load.tensor}_in, {at})"
        return super().read(load, at)

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

    def wide_room(self, load: Load) -> str:
        """The declaration of room for what lanes read at once, in 32 bits."""
        type_ = "float" if load.tensor.dtype.is_floating else "int"
        return f"alignas(64) {type_} {load.name}[{load.lanes}]"

    def wide_lanes(self, load: Load) -> str:
        """What reads truth values, narrow numbers or numbers in steps, of all lanes."""
        dtype = load.tensor.dtype
        self.expressions.loaded(load.name, dtype)
        self.expressions.lane_arrays.add(load.name)
        at = self.sizes.index(load.at, load.tensor.name)
        if dtype is DataType.Bool:
            read = f"{self.expressions.use('read_flags')}<{load.lanes}, {load.step}>"
        elif load.step > 1:
            read = f"{self.expressions.use('read_steps')}<{load.lanes}, {load.step}>"
        elif widens_vectors(load, load.lanes):
            read = self.expressions.use(f"read_{dtype.spelling}")
        else:
            self.expressions.type(dtype)
            kind = "floats" if dtype.is_floating else "integers"
            read = self.expressions.use(f"read_narrow_{kind}")
        return f"{read}({load.name}, {load.tensor}_in + {at})"

    def store(self, store: Store) -> None:
        if store.lanes == 1:
            super().store(store)
            return
        at = self.sizes.index(store.at, store.tensor.name)
        write = self.expressions.use(self.chunk_store(store))
        rest = ", first, last" if self._stored_part else ""
        if not self._stored_part and not self.nest.launch.past_cache:
            rest = ", false"
        self.out.line(f"{write}({store.tensor}_out + {at}, {self.lanes_of(store)}{rest});")

    def chunk_store(self, store: Store) -> str:
        """The function that stores a chunk, or a part of it: one that rounds it, if it is wider
        than the tensor."""
        dtype = store.tensor.dtype
        if store.source.dtype is dtype:
            return f"stream_{self._stored_part or 'chunk'}"
        self.expressions.use(f"round_{dtype.spelling}")
        return f"stream_rounded_{self._stored_part}" if self._stored_part else "stream_rounded"

    def prefetch(self, prefetch: Prefetch) -> None:
        self.ask("prefetch_lanes" if prefetch.there else "prefetch_ahead", prefetch)

    def _fence(self) -> None:
        if self.nest.launch.past_cache:
            self.out.line(f"{self.expressions.use('stream_fence')}();")

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
        if loop.binding is Binding.SIMD:
            self.sizes.in_lanes(loop.axis)
        name, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
        index = self.index
        with self.out.block(f"for ({index} {name} = 0; {name} < {extent}; ++{name})"):
            self.nodes(loop.body)

    def _chunks(self, loop: Loop) -> None:
        """Whole chunks only: the last one starts early enough to end in range."""
        self.sizes.in_lanes(loop.axis)
        index = self.index
        name, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
        owner = f"chunks_{name[1:]}" if self._in_region else "chunks"
        whole = ceil_div(loop.axis.extent, loop.step)
        chunks = self.sizes.parameter(owner, whole + (loop.peel is not None))
        last = f"{extent} - {loop.step}"
        with self.out.block(f"for ({index} chunk = 0; chunk < {chunks}; ++chunk)"):
            start = f"chunk * {loop.step}"
            if loop.peel is not None:
                self._start_at_line(loop.peel, index, extent)
                start = "start"
            inside = f"{start} < {last} ? {start} : {last}"
            inside = f"{start} < 0 ? 0 : {inside}" if loop.peel else inside
            self.out.line(f"const {index} {name} = {inside};")
            if loop.peel is not None:
                self.out.line(f"const {index} first = start < {name} ? 0 : start - {name};")
                end = f"start + {loop.step} < {extent} ? start + {loop.step} : {extent}"
                self.out.line(f"const {index} last = ({end}) - {name};")
            self._stored_part = "part" if loop.peel else ""
            self.nodes(loop.body)
            self._stored_part = ""

    def _start_at_line(self, peel: Peel, index: str, extent: str) -> None:
        """Where a chunk begins if those before it do at whole lines; it may be past the end."""
        at = self.sizes.index(peel.at, peel.tensor.name)
        past = f"{self.expressions.use('past_line')}({peel.tensor}_out + {at})"
        self.out.line(f"const {index} start = chunk * {peel.lanes} - {past};")
        self.out.line(f"if (start >= {extent}) continue;")

    def _lanes(self, loop: Loop) -> None:
        self.sizes.name_axis(loop.axis, "lane")
        self.sizes.in_lanes(loop.axis)
        self.out.line("#pragma omp simd")
        with self.out.block(f"for (int lane = 0; lane < {loop.axis.extent}; ++lane)"):
            self.nodes(loop.body)

    def _stream(self, loop: Loop) -> None:
        """The innermost row of a copy: its load and store in one call."""
        load, store = loop.body
        assert isinstance(load, Load)
        assert isinstance(store, Store)
        start = {loop.axis: Index()}
        to = self.sizes.index(substitute(store.at, start), store.tensor.name)
        at = self.sizes.index(substitute(load.at, start), load.tensor.name)
        copy = self.expressions.use("stream_row")
        row = f"{store.tensor}_out + {to}, {load.tensor}_in + {at}, {self.sizes.extent(loop.axis)}"
        self.out.line(f"{copy}({row});")


def _in_chunks(node: Node) -> bool:
    """Whether rows are copied, or done in chunks."""
    loops = (inside for inside in every_node((node,)) if isinstance(inside, Loop))
    return any(loop.binding in (Binding.STREAM, Binding.CHUNKS) for loop in loops)


def _collapse(loop: Loop) -> str:
    """How many loops are divided over the threads: those outside the vector loop, at most two.

    Two have enough iterations, and the loops inside them keep their base addresses.
    """
    match loop.body:
        case (Loop(binding=Binding.PARALLEL | Binding.CHUNKS),) if loop.binding is Binding.PARALLEL:
            return " collapse(2)"
        case _:
            return ""
