"""C++ for chunks of a row on the CPU target: computed in registers, then stored at once."""

from __future__ import annotations

from fuser.codegen.cpu_ranges import CpuRangePrinter
from fuser.schedule.bindings import Binding
from fuser.schedule.expressions import REPEATED
from fuser.schedule.index import ZERO, Axis, substitute
from fuser.schedule.loop_tree import Loop
from fuser.schedule.row_body import names_in
from fuser.schedule.row_statements import Accumulate
from fuser.schedule.statements import Let, Store


class CpuChunkPrinter(CpuRangePrinter):
    """Chunks of an axis, and loops over the lanes of the chunk at hand."""

    _sweeps = 0
    """How many loops have variables of their own, whose names end in the number."""
    _chunk_axis: Axis | None = None
    """The axis along which a chunk is at hand."""
    _repeating = False
    """Whether the first lanes of that chunk may have been done before."""
    _turned = False
    """Whether the lanes of the chunk at hand are from its last point to its first."""

    def bound(self, loop: Loop) -> None:
        match loop.binding:
            case Binding.CHUNKS:
                self._chunks(loop)
            case Binding.SIMD if loop.axis == self._chunk_axis:
                self.sizes.in_lanes(loop.axis)
                self._lanes_of_chunk(loop)
            case _:
                super().bound(loop)

    def store(self, store: Store) -> None:
        if store.lanes == 1:
            super().store(store)
            return
        at = self.sizes.index(store.at, store.tensor.name)
        write = self.expressions.use(self.chunk_store(store))
        if self._repeating:  # rounds do not begin where lines do
            rest = "false"
        else:
            past_cache = self.sizes.parameter("past_cache", int(self.nest.launch.past_cache))
            rest = f"moved, {past_cache}" if self._stored_part else past_cache
        self.out.line(f"{write}({store.tensor}_out + {at}, {self.lanes_of(store)}, {rest});")

    def _chunks(self, loop: Loop) -> None:
        """Chunks that start where vectors are aligned in the first tensor that is stored. The ones
        at the ends are moved into range, and of them is stored what no other chunk has."""
        index, name = self.index, self.sizes.axis(loop.axis)
        (begin, end), chunk = self.range_of(loop.axis), f"chunk{self._sweeps}"
        self._sweeps += 1
        self.expressions.use("stream_vector")
        store = next(node for node in loop.body if isinstance(node, Store))
        at = self.sizes.index(substitute(store.at, {loop.axis: ZERO}), store.tensor.name)
        inside = begin != "0"
        at = f"{at} + {begin}" if inside else at
        size = self.expressions.type(store.tensor.dtype)
        past = f"{index}(past_alignment({store.tensor}_out + {at}) / sizeof({size}))"
        start = f"{begin} - {past}" if inside else f"-{past}"
        head = f"{index} {chunk} = {start}; {chunk} < {end}; {chunk} += {loop.step}"
        with self.out.block(f"for ({head})"):
            last = f"{end} - {loop.step}"
            in_range = f"{chunk} < {begin} ? {begin} : {chunk} < {last} ? {chunk} : {last}"
            self.out.line(f"const {index} {name} = {in_range};")
            self.out.line(f"const {index} first = {name};")
            self.out.line(f"const {index} moved = {name} - {chunk};")
            self._chunk_axis, self._stored_part = loop.axis, "moved"
            self.nodes(loop.body)
            self._chunk_axis, self._stored_part = None, ""

    def _lanes_of_chunk(self, loop: Loop) -> None:
        """The elements of a chunk side by side; inside, the axis is that of the element."""
        index, name = self.index, self.sizes.axis(loop.axis)
        lanes = f"for (int lane = 0; lane < {self.lanes_used(loop.step)}; ++lane)"
        with self.side_by_side(loop, "simd"), self.out.block(lanes):
            self.out.line(f"const {index} {name} = first {'-' if self._turned else '+'} lane;")
            if self._repeating and REPEATED.name in _read_in(loop):
                self.out.line(f"const bool {REPEATED.name} = lane < done;")
            self.nodes(loop.body)


def _read_in(loop: Loop) -> set[str]:
    """The names that are read in each lane."""
    return set(names_in(node for node in loop.body if isinstance(node, Let | Accumulate)))
