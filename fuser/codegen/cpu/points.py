"""C++ for the CPU target: OpenMP over outer loops, `omp simd`, a chunk or a row copy inside.

Where a domain is cut into pieces, threads share out the loops of one after the other.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from fuser.codegen.cpu.kernel import CpuKernel
from fuser.codegen.cpu.surroundings import Chunk, Stored
from fuser.codegen.cpu.tiles import over_tiles, streams_tiles, tile_columns, tile_lines, tile_node
from fuser.codegen.tiles import tiled_nest
from fuser.schedule.indices.index import Index
from fuser.schedule.indices.rewrites import substitute
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import ceil_div
from fuser.schedule.tree.loop_tree import Loop, Peel, Region, RowNode, RunNode, every_node
from fuser.schedule.tree.statements import Load, Store, TileNode


class CpuPrinter(CpuKernel):
    """Kernels of points."""

    def own_node(self, node: RowNode | RunNode | TileNode) -> None:
        if isinstance(node, Region):
            self.region(node)
        elif isinstance(node, TileNode):
            tile_node(self, node)
        else:
            super().own_node(node)

    def region(self, node: Region) -> None:
        """Pieces, whose loops are shared out one after the other without waiting."""
        self.sizes.has_pieces = True
        self.start_threads("if (threaded)")
        with self.out.block(""), self.within(threads_started=True):
            pieces = [loop for loop in node.body if isinstance(loop, Loop)]
            assert len(pieces) == len(node.body), "every piece has a loop"
            for loop in pieces:
                self._shared_out(loop)
            if self.nest.launch.past_cache and any(map(_streams, pieces)):
                self.fence()

    def loop(self, loop: Loop) -> None:
        if loop.binding is Binding.TILE_LINES:
            tile_lines(self, loop)
        elif loop.binding is Binding.TILE_COLUMNS:
            tile_columns(self, loop)
        elif self.sizes.has_pieces or (loop.axis != self.nest.axes[0] and not tiled_nest(loop)):
            self._inner(loop)
        else:
            self._shared_out(loop)

    def _shared_out(self, loop: Loop) -> None:
        """A loop that no other is around."""
        if nest := tiled_nest(loop):
            with self.shared_out(f" collapse({len(nest)})", streams=_streams(loop)):
                over_tiles(self, nest)
            return
        simd = " simd" if loop.binding is Binding.SIMD else ""
        with self.shared_out(f"{simd}{_collapse(loop)}", streams=_streams(loop)):
            if simd:
                self.sizes.in_lanes(loop.axis)
                self.in_turn(loop)
            else:
                self._inner(loop)

    def store(self, store: Store) -> None:
        if store.lanes == 1:
            super().store(store)
            return
        place, chunk = self.lanes_to_memory(store), self.around.chunk
        if chunk is not None and chunk.stored is Stored.PART:
            part = f"{place}, first, last{self._later_place(store, chunk.peel)}"
            self.out.line(f"{self.chunk_store(store, 'part')}({part});")
        else:
            rest = "" if self.nest.launch.past_cache else ", false"
            self.out.line(f"{self.chunk_store(store)}({place}{rest});")

    def _later_place(self, store: Store, peel: Peel | None) -> str:
        """Where a chunk's store is in the later row whose ends are asked for."""
        if peel is None or peel.later is None:
            return ""
        axis, rows = peel.later
        at = store.at + Index(store.at.coefficient(axis) * rows)
        return f", {store.tensor}_out + {self.sizes.index(at, store.tensor.name)}"

    def _inner(self, loop: Loop) -> None:
        if loop.binding is Binding.STREAM:
            self._stream(loop)
        elif loop.binding is Binding.CHUNKS:
            self._chunks(loop)
        elif loop.binding is Binding.SIMD and loop.axis not in self.nest.axes:
            self._lanes(loop)
        else:
            with self._limited(loop):
                if loop.binding is Binding.SIMD:
                    self.sizes.in_lanes(loop.axis)
                    self.out.line("#pragma omp simd")
                self.in_turn(loop)

    def _limited(self, loop: Loop) -> AbstractContextManager[None]:
        """The part of an axis that axes outside decide, while its loop is printed."""
        if loop.within is None:
            return nullcontext()
        self.sizes.has_pieces = True
        name, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
        first, end = f"{name}_first", f"{name}_end"
        at = self.sizes.index(loop.within.at.without(loop.axis), f"{name}_at")
        count = self.sizes.parameter(f"{name}_within", loop.within.extent)
        self.out.line(f"const {self.index} {name}_at = {at};")
        self.out.line(f"const {self.index} {first} = {name}_at < 0 ? -{name}_at : 0;")
        last = f"{count} - {name}_at"
        self.out.line(f"const {self.index} {end} = {last} < {extent} ? {last} : {extent};")
        return self.in_range(loop.axis, first, end)

    def _chunks(self, loop: Loop) -> None:
        """Whole chunks only: the last one starts early enough to end in range."""
        self.sizes.in_lanes(loop.axis)
        index = self.index
        name, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
        owner = f"chunks_{name[1:]}" if self.sizes.has_pieces else "chunks"
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
            stored = Stored.PART if loop.peel else Stored.WHOLE
            with self.within(chunk=Chunk(loop.axis, stored, peel=loop.peel)):
                self.nodes(loop.body)

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


def _streams(loop: Loop) -> bool:
    """Whether rows are copied, or done in chunks, or tiles are stored past the cache."""
    loops = (inside for inside in every_node((loop,)) if isinstance(inside, Loop))
    in_chunks = any(each.binding in (Binding.STREAM, Binding.CHUNKS) for each in loops)
    return in_chunks or streams_tiles(loop)


def _collapse(loop: Loop) -> str:
    """How many loops are divided over the threads: those outside the vector loop, at most two.

    Two have enough iterations, and the loops inside them keep their base addresses.
    """
    match loop.body:
        case (Loop(binding=Binding.PARALLEL | Binding.CHUNKS),) if loop.binding is Binding.PARALLEL:
            return " collapse(2)"
        case _:
            return ""
