"""C++ for scans on the CPU target: chunks of a row in order, or a part of it for every thread."""

from __future__ import annotations

from fuser.codegen.cpu_batches import CpuBatchPrinter
from fuser.schedule.bindings import Binding
from fuser.schedule.emit import join
from fuser.schedule.expressions import Ref
from fuser.schedule.index import ZERO, substitute
from fuser.schedule.loop_tree import Loop, Share
from fuser.schedule.row_statements import Carry, ScanLanes
from fuser.schedule.statements import Store

_JOINS = {
    "add": "running_sum",
    "mul": "running_product",
    "maximum": "running_maximum",
    "minimum": "running_minimum",
}


class CpuScanPrinter(CpuBatchPrinter):
    """Loops that go through a row in order. `count` lanes of a chunk have a point."""

    _threads_counted = False

    def loop(self, loop: Loop) -> None:
        if loop.binding is Binding.SCAN:
            self._scan_chunks(loop)
        else:
            super().loop(loop)

    def store(self, store: Store) -> None:
        if store.lanes == 1 or self._lanes_used is None:
            super().store(store)
            return
        at = self.sizes.index(store.at, store.tensor.name)
        past_cache = self.sizes.parameter("past_cache", int(self.nest.launch.past_cache))
        whole, some = map(self.expressions.use, (self.chunk_store(store), "store_lanes"))
        moved = f"{store.tensor}_out + {at}, {self.lanes_of(store)}"
        self.out.line(f"if (count == {store.lanes}) {whole}({moved}, {past_cache});")
        self.out.line(f"else {some}({moved}, count);")

    def scan(self, node: Carry | ScanLanes | Share) -> None:
        """What goes on from point to point of a row."""
        match node:
            case Carry():
                fill = self.expressions.print(node.fill, node.name)
                self.out.line(f"{self.expressions.type(node.dtype)} {node.name} = {fill};")
            case ScanLanes():
                self._scan_lanes(node)
            case Share():
                self._share(node)

    def _scan_lanes(self, node: ScanLanes) -> None:
        join = self.expressions.use(_JOINS[node.carry.operation])
        none = self.expressions.print(node.carry.fill, node.array)
        backwards = "true" if self._turned else "false"
        call = f"{self.expressions.use('scan_lanes')}<{join}, {backwards}>"
        self.out.line(f"{call}({node.array}, count, {none}, {node.carry.name});")

    def _scan_chunks(self, loop: Loop) -> None:
        """Chunks in order; what is stored past the cache begins where memory is aligned."""
        number, self._sweeps = self._sweeps, self._sweeps + 1
        index, name = self.index, self.sizes.axis(loop.axis)
        first, extent = self.range_of(loop.axis)
        known = set(self.expressions.lane_arrays)
        given = "begin" if loop.turned else name
        head = f"const auto scan{number} = [&](const {index} {given}, const int count)"
        with self.out.block(f"{head} __attribute__((always_inline))", end="};"):
            self._chunk_axis, self._lanes_used, self._turned = loop.axis, "count", loop.turned
            if loop.turned:
                self.out.line(f"const {index} {name} = begin + count - 1;")
            self.out.line(f"const {index} first = {name};")
            self.nodes(loop.body)
            self._chunk_axis, self._lanes_used, self._turned = None, None, False
        self.expressions.lane_arrays.intersection_update(known)
        length = f"length{number}"
        self.out.line(f"int {length} = {self._first_chunk(loop, first)};")
        start = f"start{number}"
        onwards = f"{start} += {length}, {length} = {loop.step}"
        loop_head = f"for ({index} {start} = {first}; {start} < {extent}; {onwards})"
        with self.out.block(loop_head):
            left = f"{extent} - {start}"
            self.out.line(f"if ({length} > {left}) {length} = int({left});")
            self.out.line(f"if ({length} == {loop.step}) scan{number}({start}, {loop.step});")
            self.out.line(f"else scan{number}({start}, {length});")

    def _first_chunk(self, loop: Loop, first: str) -> str:
        """Elements up to where memory is aligned as stores past the cache need it; as many as of
        other chunks, if it is so from the beginning."""
        store = next((n for n in loop.body if isinstance(n, Store) and n.lanes > 1), None)
        if store is None:
            return str(loop.step)
        self.expressions.use("stream_vector")
        at = self.sizes.index(substitute(store.at, {loop.axis: ZERO}), store.tensor.name)
        place = f"{store.tensor}_out" if at == "0" else f"{store.tensor}_out + {at}"
        if first != "0":
            place += f" - {first}" if loop.turned else f" + {first}"
        if loop.turned:  # chunks end before what is given
            return f"{self.expressions.use('down_to_alignment')}({place} + 1, {loop.step})"
        return f"{self.expressions.use('up_to_alignment')}({place}, {loop.step})"

    # -- a row on all threads --------------------------------------------------------------------

    def count_threads(self) -> None:
        """Print how many threads there may be, once."""
        if not self._threads_counted:
            count = self.expressions.use("thread_count")
            self.out.line(f"const int threads = threaded ? {count}() : 1;")
            self._threads_counted = True

    def _share(self, node: Share) -> None:
        """Every thread has the total of a part, then what comes before it, then scans the part."""
        self.count_threads()
        for carry in node.carries:
            type_ = self.expressions.type(carry.dtype)
            room = f"static_cast<{type_}*>(__builtin_malloc(sizeof({type_}) * threads * 2))"
            self.out.line(f"{type_}* const {carry.total}s = {room};")
        index, extent = self.index, self.sizes.extent(node.axis)
        here, number = self.expressions.use("threads_here"), self.expressions.use("thread_number")
        self.out.line("#pragma omp parallel num_threads(threads)")
        with self.out.block(""):
            self.out.line(f"const int team = {here}(), thread = {number}();")
            for carry in node.carries:
                self.node(carry)
            onwards = f"block += {index}({node.step}) * team, turn ^= 1"
            with self.out.block(f"for ({index} block = 0, turn = 0; block < {extent}; {onwards})"):
                self._part(node, index, extent)
            self.out.line(f"{self.expressions.use('stream_fence')}();")
        for carry in node.carries:
            self.out.line(f"__builtin_free({carry.total}s);")

    def _part(self, node: Share, index: str, extent: str) -> None:
        """What a thread does of each block; totals of one are kept while those of the next are
        made, so that threads meet once a block."""
        for name, first in (("begin", "thread"), ("end", "(thread + 1)")):
            place = f"block + {index}({node.step}) * {first}"
            self.out.line(f"const {index} {name} = {place} < {extent} ? {place} : {extent};")
        with self.out.block(""):
            with self.in_range(node.axis, "begin", "end"):
                self.nodes(node.totals)
            for carry in node.carries:
                self.out.line(f"{carry.total}s[turn * threads + thread] = {carry.total};")
        self.out.line("#pragma omp barrier")
        for carry in node.carries:
            self._carry_to_part(carry)
        with self.in_range(node.axis, "begin", "end"):
            self.nodes(node.body)
        for carry in node.carries:
            self.out.line(f"{carry.name} = {carry.name}_next;")

    def _carry_to_part(self, carry: Carry) -> None:
        """The carry at the beginning of this thread's part, and that of the next block."""
        following = f"{carry.name}_next"
        self.out.line(f"{self.expressions.type(carry.dtype)} {following} = {carry.name};")
        with self.out.block("for (int other = 0; other < team; ++other)"):
            self.out.line(f"if (other == thread) {carry.name} = {following};")
            total = f"{carry.total}s[turn * threads + other]"
            parts = Ref(following, carry.dtype), Ref(total, carry.dtype)
            joined = self.expressions.print(join(carry.operation, *parts), following)
            self.out.line(f"{following} = {joined};")
