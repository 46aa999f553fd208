"""C++ for rows on the CPU target: threads over rows, lanes along a row or across rows."""

from __future__ import annotations

from fuser.codegen.printer import KernelPrinter
from fuser.codegen.target import CPU
from fuser.ir.dtypes import DataType
from fuser.schedule.emit import convert
from fuser.schedule.index import Axis
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
    Prefetch,
    Ref,
    Region,
    RowArray,
)
from fuser.segmenter import Segment

_OVER_THREADS = (Binding.PARALLEL, Binding.TILE, Binding.BLOCKS)


class CpuRowPrinter(KernelPrinter):
    """`extern "C" void name(..., const bool threaded)`."""

    target = CPU
    _threads_started = False
    """Whether a parallel region is open, so that loops only share out their iterations."""
    _dividing = False
    """Whether an outer loop shares out its iterations."""
    _threads_counted = False
    _sweeps = 0

    def __init__(self, segment: Segment, nest: LoopNest) -> None:
        super().__init__(segment, nest)
        self._own_parts: set[str] = set()
        """Partials that one thread keeps for itself."""
        self._ranges: dict[Axis, tuple[str, str]] = {}
        """Where sweeps over an axis start and end, if not at its ends."""

    def signature(self, parameters: str) -> str:
        return f'extern "C" void {self.nest.name}({parameters}, const bool threaded)'

    def region(self, node: Region) -> None:
        if node.partials and node.threaded:
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
        self.out.line("#pragma omp parallel num_threads(threads)")
        with self.out.block(""):
            for partial in node.partials:
                self._own_part(partial)
            self._threads_started = True
            self._all(node.body)
            self._threads_started = False
        self._all(node.epilogue)
        for partial in node.partials:
            self.out.line(f"__builtin_free({partial.name}_parts);")

    def loop(self, loop: Loop) -> None:
        match loop.binding:
            case Binding.PARALLEL | Binding.TILE | Binding.BLOCKS:
                self._over_threads(loop)
            case Binding.SWEEP:
                self._sweep(loop)
            case Binding.TILE_LANES:
                self.sizes.name_axis(loop.axis, "lane")
                self.out.line("#pragma omp simd")
                with self.out.block("for (int lane = 0; lane < rows; ++lane)"):
                    self._all(loop.body)
            case Binding.SIMD:
                alone = not self._dividing and not self._threads_started
                threads = "parallel for simd if (parallel : threaded)" if alone else "simd"
                self.out.line(f"#pragma omp {threads}")
                self._for(loop)
            case _:
                self._for(loop)

    def checked_index(self, node: CheckedIndex) -> None:
        name = f"{node.name}[lane]" if node.in_lanes else f"const long long {node.name}"
        self.out.line(f"{name} = {self.reported_index(node)};")

    def row_array(self, node: Keep | Kept | RowArray) -> None:
        array, type_ = f"{node.name}_row", self.expressions.type(node.dtype)
        match node:
            case RowArray():
                self.out.line(f"{type_} {array}[{self.sizes.extent(node.axis)}];")
            case Keep():
                self.out.line(f"{array}[{self.sizes.axis(node.axis)}] = {node.name};")
            case Kept():
                kept = f"{array}[{self.sizes.axis(node.axis)}]"
                self.out.line(f"const {type_} {node.name} = {kept};")

    def combine(self, node: Combine) -> None:
        type_ = self.expressions.type(node.kept)
        x, y = Ref("x", node.kept), Ref("y", node.kept)
        joined = self.expressions.print(Call(node.operation, (x, y), node.kept), node.name)
        join = f"[]({type_} x, {type_} y) {{ return {joined}; }}"
        lanes = f"{self.expressions.use('join_lanes')}<{node.count}>({node.lanes}, {join})"
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

    def prefetch(self, prefetch: Prefetch) -> None:
        raise AssertionError("rows are read in order: nothing to prefetch")

    def _all(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            self.node(node)

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

    def _over_threads(self, loop: Loop) -> None:
        """The outermost loop over threads shares out its iterations, with those of the next."""
        if not self._dividing:
            depth = self._nested_over_threads(loop)
            collapse = f" collapse({depth})" if depth > 1 else ""
            start = "for" if self._threads_started else "parallel for"
            condition = "" if self._threads_started else " if (threaded)"
            self.out.line(f"#pragma omp {start}{collapse}{condition}")
        outer, self._dividing = self._dividing, True
        self._for(loop)
        self._dividing = outer

    @staticmethod
    def _nested_over_threads(loop: Loop) -> int:
        inside = loop.body[0]
        nested = isinstance(inside, Loop) and inside.binding in _OVER_THREADS
        return 2 if nested and len(loop.body) == 1 else 1

    def _for(self, loop: Loop) -> None:
        name, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
        index = self.expressions.type(self.nest.index_dtype)
        if loop.binding is Binding.BLOCKS:
            self._blocks(loop, index, extent)
            return
        step = f"{name} += {loop.step}" if loop.binding is Binding.TILE else f"++{name}"
        with self.out.block(f"for ({index} {name} = 0; {name} < {extent}; {step})"):
            if loop.binding is Binding.TILE:
                left = f"{extent} - {name}"
                self.out.line(f"const int rows = {left} < {loop.step} ? {left} : {loop.step};")
            self._all(loop.body)

    def _blocks(self, loop: Loop, index: str, extent: str) -> None:
        with self.out.block(f"for ({index} block = 0; block < {extent}; block += {loop.step})"):
            left = f"{extent} - block"
            end = f"block + ({left} < {loop.step} ? {left} : {loop.step})"
            self.out.line(f"const {index} block_end = {end};")
            self._ranges[loop.axis] = ("block", "block_end")
            self._all(loop.body)
            del self._ranges[loop.axis]

    def _sweep(self, loop: Loop) -> None:
        """One body for the rounds of lanes and for what is left of the row."""
        number, self._sweeps = self._sweeps, self._sweeps + 1
        index = self.expressions.type(self.nest.index_dtype)
        name = self.sizes.axis(loop.axis)
        first, extent = self._ranges.get(loop.axis) or ("0", self.sizes.extent(loop.axis))
        body, start = f"sweep{number}", f"start{number}"
        head = f"const auto {body} = [&](const {index} {name}, const int lane)"
        with self.out.block(f"{head} __attribute__((always_inline))", end="};"):
            self._all(loop.body)
        self.out.line(f"{index} {start} = {first};")
        with self.out.block(f"for (; {start} + {loop.step} <= {extent}; {start} += {loop.step})"):
            self.out.line("#pragma omp simd")
            each = f"for (int lane = 0; lane < {loop.step}; ++lane)"
            self.out.line(f"{each} {body}({start} + lane, lane);")
        each = f"for (int lane = 0; lane < {extent} - {start}; ++lane)"
        self.out.line(f"{each} {body}({start} + lane, lane);")
