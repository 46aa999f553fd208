"""C++ for scans on the CPU target: chunks of a row in order, or a part of it for every thread."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from fuser.codegen.cpu_batches import CpuBatchPrinter
from fuser.schedule.bindings import Binding
from fuser.schedule.emit import join
from fuser.schedule.expressions import Ref
from fuser.schedule.index import ZERO, Axis, substitute
from fuser.schedule.loop_tree import Loop, Share
from fuser.schedule.row_statements import Carry, ScanLanes
from fuser.schedule.statements import Lanes, Store

_JOINS = {
    "add": "running_sum",
    "mul": "running_product",
    "maximum": "running_maximum",
    "minimum": "running_minimum",
}

_COLUMNS = 128
"""Columns whose totals are whole lines of the cache, two of them, of any type."""


class CpuScanPrinter(CpuBatchPrinter):
    """Loops that go through a row in order. `count` lanes of a chunk have a point."""

    _threads_counted = False

    def loop(self, loop: Loop) -> None:
        if loop.binding is Binding.SCAN:
            self._scan_chunks(loop)
            return
        if any(isinstance(node, Share) for node in loop.body):
            self.count_threads()
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
        """Every thread has the totals of a part, then what comes before it, then scans the part."""
        self.count_threads()
        places = "threads * 2"
        if node.columns:
            of_lines = f"({self.lanes_used(1)} + {_COLUMNS - 1}) / {_COLUMNS} * {_COLUMNS}"
            self.out.line(f"const int slots = {of_lines};")
            places += " * slots"
        for carry in node.carries:
            type_, room = self.expressions.type(carry.dtype), self.expressions.use("on_own_lines")
            self.out.line(f"{type_}* const {carry.total}s = {room}<{type_}>({places});")
        self.out.line("#pragma omp parallel num_threads(threads)")
        with self.out.block(""):
            self._on_team(node)
            self.out.line(f"{self.expressions.use('stream_fence')}();")
        for carry in node.carries:
            self.out.line(f"__builtin_free({carry.total}s);")

    def _on_team(self, node: Share) -> None:
        """What each thread does: totals of a part are kept while those of the next are made, so
        that threads meet once a part."""
        index, extent = self.index, self.sizes.extent(node.axis)
        here, number = self.expressions.use("threads_here"), self.expressions.use("thread_number")
        self.out.line(f"const int team = {here}(), thread = {number}();")
        step = self.sizes.parameter(f"{node.carries[0].name}_step", node.step)
        part = f"{self.expressions.use('part_of_round')}({extent}, team, {step}, {node.unit})"
        self.out.line(f"const {index} part = {part};")
        for carry in node.carries:
            self.node(_in_columns(carry, node.columns) if node.columns else carry)
        onwards = "block += part * team, turn ^= 1"
        with self.out.block(f"for ({index} block = 0, turn = 0; block < {extent}; {onwards})"):
            for name, first in (("begin", "thread"), ("end", "(thread + 1)")):
                place = f"block + part * {first}"
                self.out.line(f"const {index} {name} = {place} < {extent} ? {place} : {extent};")
            with self.out.block("if (team > 1)"):
                self._totals(node)
                self.out.line("#pragma omp barrier")
            self._join_parts(node, "0", "thread")
            with self.in_range(node.axis, "begin", "end"):
                self.nodes(node.body)
            self._join_parts(node, "thread + 1", "team")

    def _totals(self, node: Share) -> None:
        """What this thread's part comes to, where all threads can read it."""
        with self.in_range(node.axis, "begin", "end"):
            self.nodes(node.totals)
        with self._each_column(node):
            for carry in node.carries:
                own = f"{carry.total}s{_place(node, 'thread')}"
                self.out.line(f"{own} = {carry.total}{_column(node)};")

    def _join_parts(self, node: Share, first: str, end: str) -> None:
        """Joins to the carries what the parts of some threads come to."""
        with (
            self.out.block(f"for (int other = {first}; other < {end}; ++other)"),
            self._each_column(node),
        ):
            for carry in node.carries:
                held = Ref(f"{carry.name}{_column(node)}", carry.dtype)
                total = Ref(f"{carry.total}s{_place(node, 'other')}", carry.dtype)
                joined = self.expressions.print(join(carry.operation, held, total), carry.name)
                self.out.line(f"{held.name} = {joined};")

    def _each_column(self, node: Share) -> AbstractContextManager[None]:
        """A loop over the rows side by side, if there are any."""
        return self.rows_side_by_side() if node.columns else nullcontext()


def _in_columns(carry: Carry, columns: Axis) -> Lanes:
    return Lanes(carry.name, carry.dtype, columns.extent, carry.fill)


def _column(node: Share) -> str:
    """Which of a thread's numbers is a column's."""
    return "[lane]" if node.columns else ""


def _place(node: Share, thread: str) -> str:
    """Which of the totals is a thread's, or in it a column's."""
    place = f"turn * threads + {thread}"
    return f"[({place}) * slots + lane]" if node.columns else f"[{place}]"
