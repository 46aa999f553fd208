"""C++ for rows on the CPU target: threads over rows, lanes along a row or across rows."""

from __future__ import annotations

from fuser.codegen.cpu_sweeps import CpuSweepPrinter
from fuser.ir.dtypes import DataType
from fuser.schedule.emit import convert
from fuser.schedule.loop_tree import (
    Accumulate,
    Binding,
    Call,
    CheckedIndex,
    Combine,
    Finish,
    Keep,
    Kept,
    Loop,
    LoopNest,
    Node,
    Partial,
    Ref,
    Region,
    RowArray,
)
from fuser.segmenter import Segment


class CpuRowPrinter(CpuSweepPrinter):
    """`extern "C" void name(..., const bool threaded)`."""

    _threads_counted = False

    def __init__(self, segment: Segment, nest: LoopNest) -> None:
        super().__init__(segment, nest)
        self._own_parts: set[str] = set()
        """Partials that one thread keeps for itself."""

    def region(self, node: Region) -> None:
        if node.threaded and (node.partials or _streams(node.body)):
            self._on_threads(node)
            return
        for partial in node.partials:
            fill = self.expressions.print(partial.fill, partial.name)
            type_ = self.expressions.type(partial.kept)
            self.out.line(f"{type_} {partial.name}_part[{partial.slots}] = {{{fill}}};")
            self._own_parts.add(partial.name)
        self._all(node.body)
        self._all(node.epilogue)

    def _on_threads(self, node: Region) -> None:
        """Every thread folds into a part of its own; the epilogue joins them."""
        if node.partials:
            self._parts_of_threads(node)
        threads = "num_threads(threads)" if node.partials else "if (threaded)"
        self.out.line(f"#pragma omp parallel {threads}")
        with self.out.block(""):
            for partial in node.partials:
                self._own_part(partial)
            self._threads_started = True
            self._all(node.body)
            self._threads_started = False
            if _streams(node.body):
                self.out.line(f"{self.expressions.use('stream_fence')}();")
        self._all(node.epilogue)
        for partial in node.partials:
            self.out.line(f"__builtin_free({partial.name}_parts);")

    def _parts_of_threads(self, node: Region) -> None:
        if not self._threads_counted:
            count = self.expressions.use("thread_count")
            self.out.line(f"const int threads = threaded ? {count}() : 1;")
            self._threads_counted = True
        for partial in node.partials:
            type_ = self.expressions.type(partial.kept)
            slots = self.sizes.parameter(f"{partial.name}_slots", partial.slots)
            room = f"sizeof({type_}) * threads * {slots}"
            self.out.line(
                f"{type_}* const {partial.name}_parts = "
                f"static_cast<{type_}*>(__builtin_malloc({room}));"
            )
            fill = self.expressions.print(partial.fill, partial.name)
            each = f"for (long long slot = 0; slot < threads * {slots}; ++slot)"
            self.out.line(f"{each} {partial.name}_parts[slot] = {fill};")

    def checked_index(self, node: CheckedIndex) -> None:
        name = f"{node.name}[lane]" if node.in_lanes else f"const long long {node.name}"
        self.out.line(f"{name} = {self.reported_index(node)};")

    def row_array(self, node: Keep | Kept | RowArray) -> None:
        array, type_ = f"{node.name}_row", self.expressions.type(node.dtype)
        match node:
            case RowArray():
                self.out.line(f"{type_} {array}[{self.sizes.extent(node.axis)}];")
            case Keep():
                source = node.source or Ref(node.name, node.dtype)
                kept = self.expressions.print(source, node.name)
                self.out.line(f"{array}[{self.sizes.axis(node.axis)}] = {kept};")
            case Kept():
                kept = f"{array}[{self.sizes.axis(node.axis)}]"
                self.out.line(f"const {type_} {node.name} = {kept};")

    def combine(self, node: Combine) -> None:
        type_ = self.expressions.type(node.kept)
        x, y = Ref("x", node.kept), Ref("y", node.kept)
        joined = self.expressions.print(Call(node.operation, (x, y), node.kept), node.name)
        join = f"[]({type_} x, {type_} y) {{ return {joined}; }}"
        arrays = ", ".join(node.arrays)
        lanes = f"{self.expressions.use('join_lanes')}<{node.count}>({join}, {arrays})"
        self._result(node.name, node.dtype, lanes, node.kept)

    def accumulate(self, node: Accumulate) -> None:
        partial = node.partial
        at = self.sizes.index(node.at, partial.name)
        held = Ref(f"{partial.name}_part[{at}]", partial.kept)
        value = convert(node.value, partial.kept)
        joined = self.expressions.print(
            Call(partial.operation, (held, value), partial.kept), partial.name
        )
        self.out.line(f"{held.name} = {joined};")

    def finish(self, node: Finish) -> None:
        partial = node.partial
        if partial.name in self._own_parts:
            self._result(partial.name, partial.dtype, f"{partial.name}_part[0]", partial.kept)
            return
        type_, name = self.expressions.type(partial.kept), f"{partial.name}_all"
        at = self.sizes.index(node.at, partial.name)
        part = f"{partial.name}_parts[thread * {partial.name}_slots + {at}]"
        parts = Ref(name, partial.kept), Ref(part, partial.kept)
        joined = self.expressions.print(Call(partial.operation, parts, partial.kept), name)
        self.out.line(f"{type_} {name} = {self.expressions.print(partial.fill, name)};")
        self.out.line(f"for (int thread = 0; thread < threads; ++thread) {name} = {joined};")
        self._result(partial.name, partial.dtype, name, partial.kept)

    def _result(self, name: str, dtype: DataType, value: str, kept: DataType) -> None:
        type_ = self.expressions.type(dtype)
        converted = value if dtype is kept else f"{type_}({value})"
        self.out.line(f"const {type_} {name} = {converted};")

    def _own_part(self, partial: Partial) -> None:
        """This thread's part of a fold over the rows. All are filled before: fewer threads may come
        than were asked for."""
        type_, name = self.expressions.type(partial.kept), partial.name
        own = f"{name}_parts + {self.expressions.use('thread_number')}() * {name}_slots"
        self.out.line(f"{type_}* {self.target.restrict} const {name}_part = {own};")


def _streams(nodes: tuple[Node, ...]) -> bool:
    """Whether stores bypass the cache."""
    loops = [node for node in nodes if isinstance(node, Loop)]
    return any(loop.binding is Binding.CHUNKS or _streams(loop.body) for loop in loops)
