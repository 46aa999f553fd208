"""C++ for rows on the CPU target: threads over rows, lanes along a row or across rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from fuser.codegen.cpu_scans import CpuScanPrinter
from fuser.codegen.printer import RowNode
from fuser.ir.dtypes import DataType
from fuser.schedule.bindings import Binding
from fuser.schedule.counts import ceil_div
from fuser.schedule.emit import join
from fuser.schedule.expressions import Call, Convert, Expression, Literal, Ref
from fuser.schedule.folds import lowest_finite
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import (
    IfListed,
    IfPastCache,
    ListLoop,
    Loop,
    Node,
    PointLists,
    PointOf,
    Region,
    Share,
    WarpElements,
    WarpPoints,
    every_node,
)
from fuser.schedule.names import block_name, part_name
from fuser.schedule.row_statements import (
    Accumulate,
    Carry,
    Combine,
    Finish,
    FinishPowers,
    JoinGroups,
    Keep,
    KeepAt,
    KeepLanes,
    Kept,
    Partial,
    Raise,
    RowArray,
    RowOfTile,
    RowTile,
    ScanLanes,
    Widen,
)
from fuser.schedule.statements import CheckedIndex, Let
from fuser.segmenter import Segment

_LINES = 128
"""Bytes of two lines of the cache."""


class CpuRowPrinter(CpuScanPrinter):
    """`extern "C" void name(..., const bool threaded)`."""

    def __init__(self, segment: Segment, nest: LoopNest) -> None:
        super().__init__(segment, nest)
        self._own_parts: set[str] = set()
        """Partials that one thread keeps for itself."""

    def row_node(self, node: RowNode) -> None:
        match node:
            case CheckedIndex():
                self.checked_index(node)
            case Keep() | Kept() | RowArray():
                self.row_array(node)
            case RowTile() | RowOfTile():
                self.row_tile(node)
            case Region():
                self.region(node)
            case Combine():
                self.combine(node)
            case KeepLanes():
                self.keep_lanes(node)
            case JoinGroups():
                self.join_groups(node)
            case Accumulate():
                self.accumulate(node)
            case Widen():
                self.widen(node)
            case Raise():
                self.raised(node)
            case Finish():
                self.finish(node)
            case Carry() | ScanLanes() | Share():
                self.scan(node)
            case IfPastCache():
                self._either(node)
            case PointLists() | PointOf() | IfListed() | ListLoop() | KeepAt():
                super().row_node(node)
            case FinishPowers() | WarpPoints() | WarpElements():
                super().row_node(node)
            case _:
                assert_never(node)

    def _either(self, node: IfPastCache) -> None:
        """One way to do something, or the other."""
        past_cache = self.sizes.parameter("past_cache", int(self.nest.launch.past_cache))
        with self.out.block(f"if ({past_cache})"):
            self.nodes(node.body)
        with self.out.block("else"):
            self.nodes(node.otherwise)

    def region(self, node: Region) -> None:
        if node.threaded and (node.partials or _streams(node.body)):
            self._on_threads(node)
            return
        for partial in node.partials:
            self._only_part(partial)
        outer, self._dividing = self._dividing, self._dividing or not node.threaded
        self.nodes(node.body)
        self._dividing = outer
        if not outer and not node.threaded and _streams(node.body):
            self.out.line(f"{self.expressions.use('stream_fence')}();")
        self.nodes(node.epilogue)

    def _on_threads(self, node: Region) -> None:
        """Every thread folds into a part of its own; the epilogue joins them."""
        if node.partials:
            self._parts_of_threads(node)
        threads = "num_threads(threads)" if node.partials else "if (threaded)"
        self.out.line(f"#pragma omp parallel {threads}")
        with self.out.block(""):
            for partial in node.partials:
                self._own_part(partial)
            for widened in _counted(node.body):
                self.out.line(f"int {widened.partial.name}_rows = 0;")
                if widened.span:
                    name = widened.partial.name
                    self.out.line(f"long long {name}_first = {name}_slots, {name}_end = 0;")
            self._threads_started = True
            self.nodes(node.body)
            self._threads_started = False
            if _streams(node.body):
                self.out.line(f"{self.expressions.use('stream_fence')}();")
        self.nodes(node.epilogue)
        for partial in node.partials:
            self.out.line(f"__builtin_free({part_name(partial.name)}s);")
            if partial.in_blocks:
                self.out.line(f"__builtin_free({block_name(partial.name)}s);")

    def _parts_of_threads(self, node: Region) -> None:
        self.count_threads()
        for partial in node.partials:
            slots = self.sizes.parameter(f"{partial.name}_slots", _apart(partial))
            count = f"threads * {slots}"
            self._room(f"{part_name(partial.name)}s", partial.kept, count, partial.fill)
            if partial.in_blocks:
                fill = partial.block_fill
                self._room(f"{block_name(partial.name)}s", partial.dtype, count, fill)

    def _room(self, name: str, dtype: DataType, count: str, fill: Literal) -> None:
        """Room for `count` numbers, each `fill`."""
        type_ = self.expressions.type(dtype)
        room = f"{self.expressions.use('on_own_lines')}<{type_}>({count})"
        self.out.line(f"{type_}* const {name} = {room};")
        each = f"for (long long slot = 0; slot < {count}; ++slot)"
        self.out.line(f"{each} {name}[slot] = {self.expressions.print(fill, name)};")

    def row_array(self, node: Keep | Kept | RowArray) -> None:
        """What a row keeps between sweeps."""
        array, type_ = f"{node.name}_row", self.expressions.type(node.dtype)
        match node:
            case RowArray():
                self.out.line(f"{type_} {array}[{self.kept_count(node.axis, node.outer)}];")
            case Keep():
                source = node.source or Ref(node.name, node.dtype)
                kept = self.expressions.print(source, node.name)
                self.out.line(f"{array}[{self.kept_at(node.axis, node.outer)}] = {kept};")
            case Kept():
                self.expressions.lane_arrays.discard(node.name)
                kept = f"{array}[{self.kept_at(node.axis, node.outer)}]"
                self.out.line(f"const {type_} {node.name} = {kept};")

    def row_tile(self, node: RowTile | RowOfTile) -> None:
        """What is turned of some rows, or which of them is at hand."""
        tile = f"{node.name}_tile"
        if isinstance(node, RowOfTile):
            row = f"const {self.expressions.type(node.dtype)}* const {node.name}_row"
            self.out.line(f"{row} = {tile}[{self.sizes.axis(node.rows)}];")
            return
        type_, name = self.expressions.type(node.tensor.dtype), self.sizes.axis(node.axis)
        # The sizes are numbers: the compiler unrolls the turning by them.
        self.out.line(f"alignas(64) {type_} {tile}[{node.rows.extent}][{node.most}];")
        at = f"{node.tensor}_in + {self.sizes.index(node.at, node.tensor.name)}"
        columns = f"{self.index}(0), [&]({self.index} {name}) {{ return {at}; }}"
        fill, count = self.expressions.use("fill_tile"), self.sizes.extent(node.axis)
        self.out.line(f"{fill}({tile}, {columns}, int({count}));")

    def keep_lanes(self, node: KeepLanes) -> None:
        """Lanes of a row are kept until all rows of a batch have some."""
        join = node.join
        joiner = self.joiner(join.operation, join.kept, join.name)
        use = self.expressions.use("keep_lanes")
        given = ", ".join((f"{join.name}_batch[row]", joiner, *join.arrays))
        self.out.line(f"{use}({given});")

    def combine(self, node: Combine) -> None:
        """A fold's result from its lanes."""
        if self.in_batch:
            joiner = self.joiner(node.operation, node.kept, node.name, generic=True)
            use = self.expressions.use("join_batch")
            self.out.line(f"{use}({node.name}_row, {joiner}, {node.name}_batch);")
            return
        if self.rows_of_strip:
            kept = self.expressions.type(node.dtype)
            join = f"{self.expressions.use('join_rows')}<{kept}>"
            given = self.joiner(node.operation, node.dtype, node.name, generic=True), *node.arrays
            joined = f"{join}({', '.join(given)}, {self.lanes_used(node.count)})"
            self._result(node.name, node.dtype, joined, node.dtype)
            return
        given = ", ".join((self.joiner(node.operation, node.kept, node.name), *node.arrays))
        lanes = f"{self.expressions.use('join_lanes')}<{node.count}>({given})"
        self._result(node.name, node.dtype, lanes, node.kept)

    def join_groups(self, node: JoinGroups) -> None:
        """Lanes that are joined group by group."""
        array = node.array
        joiner = self.joiner(node.operation, array.dtype, array.name)
        group = self.sizes.parameter("group", node.group)
        join = self.expressions.use("join_groups")
        self.out.line(f"{join}({joiner}, {array.name}, {self.lanes_used(1)}, {group});")

    def accumulate(self, node: Accumulate) -> None:
        """One more value of a fold over the rows."""
        partial = node.partial
        at = self.sizes.index(node.at, partial.name)
        if partial.in_blocks:
            held = Ref(f"{block_name(partial.name)}[{at}]", partial.dtype)
        else:
            held = Ref(f"{part_name(partial.name)}[{at}]", partial.kept)
        self._add_to(held, node.value, partial)

    def _add_to(self, held: Ref, value: Expression, partial: Partial) -> None:
        joined = join(partial.operation, held, value)
        self.out.line(f"{held.name} = {self.expressions.print(joined, partial.name)};")

    def widen(self, node: Widen) -> None:
        """Joins blocks of folds over the rows to what is kept of them."""
        name = node.partial.name
        first, end = "0", f"{name}_slots"
        if node.every == 1:
            self._join_block(node.partial, first, end)
            return
        if node.span:
            first, end = f"{name}_first", f"{name}_end"
            place, span = f"{name}_place", self.sizes.parameter(f"{name}_span", node.span)
            self.out.line(f"const {self.index} {place} = {self.sizes.index(node.first, name)};")
            self.out.line(f"{first} = {place} < {first} ? {place} : {first};")
            self.out.line(f"{end} = {place} + {span} > {end} ? {place} + {span} : {end};")
        every = self.sizes.parameter(f"{name}_rows_of_block", node.every)
        with self.out.block(f"if (++{name}_rows == {every})"):
            self._join_block(node.partial, first, end)
            self.out.line(f"{name}_rows = 0;")
            if node.span:  # from here on, no place has been added to
                self.out.line(f"{first} = {name}_slots;")
                self.out.line(f"{end} = 0;")

    def _join_block(self, partial: Partial, first: str, end: str) -> None:
        """Joins the places of a block from `first` to before `end` to what is kept."""
        self.out.line("#pragma omp simd")
        with self.out.block(f"for (long long slot = {first}; slot < {end}; ++slot)"):
            block = Ref(f"{block_name(partial.name)}[slot]", partial.dtype)
            self._add_to(Ref(f"{part_name(partial.name)}[slot]", partial.kept), block, partial)
            fill = self.expressions.print(partial.block_fill, partial.name)
            self.out.line(f"{block.name} = {fill};")

    def raised(self, node: Raise) -> None:
        """A maximum grows, and sums that depend on it are scaled."""
        dtype, wide = node.largest.kept, DataType.Double
        held = Ref(f"{part_name(node.largest.name)}[0]", dtype)
        finite = join("maximum", held, lowest_finite(dtype))
        before, after = Ref(f"{node.name}_before", dtype), Ref(node.name, dtype)
        self.node(Let(before.name, dtype, finite))
        self._add_to(held, node.value, node.largest)
        self.node(Let(after.name, dtype, finite))
        risen = Call("sub", (Convert(before, wide), Convert(after, wide)), wide)
        scale = Ref(f"{node.name}_scale", wide)
        self.node(Let(scale.name, wide, Call("exp", (risen,), wide)))
        for partial in node.sums:
            part = Ref(f"{part_name(partial.name)}[0]", partial.kept)
            scaled = Call("mul", (part, scale), wide)
            self.out.line(f"{part.name} = {self.expressions.print(scaled, partial.name)};")

    def finish(self, node: Finish) -> None:
        """A result of a fold over the rows."""
        partial = node.partial
        if partial.name in self._own_parts:
            self._result(partial.name, partial.dtype, f"{part_name(partial.name)}[0]", partial.kept)
            return
        type_, name = self.expressions.type(partial.kept), f"{partial.name}_all"
        at = self.sizes.index(node.at, partial.name)
        part = f"{part_name(partial.name)}s[thread * {partial.name}_slots + {at}]"
        more = join(partial.operation, Ref(name, partial.kept), Ref(part, partial.kept))
        joined = self.expressions.print(more, name)
        self.out.line(f"{type_} {name} = {self.expressions.print(partial.fill, name)};")
        self.out.line(f"for (int thread = 0; thread < threads; ++thread) {name} = {joined};")
        self._result(partial.name, partial.dtype, name, partial.kept)

    def _result(self, name: str, dtype: DataType, value: str, kept: DataType) -> None:
        type_ = self.expressions.type(dtype)
        converted = value if dtype is kept else f"{type_}({value})"
        self.out.line(f"const {type_} {name} = {converted};")

    def _only_part(self, partial: Partial) -> None:
        """A number that one thread folds alone: an array of one, as parts of threads are arrays."""
        assert partial.slots == 1, f"{partial.name} is {partial.slots} numbers, not one"
        fill = self.expressions.print(partial.fill, partial.name)
        type_, name = self.expressions.type(partial.kept), part_name(partial.name)
        self.out.line(f"{type_} {name}[1] = {{{fill}}};")
        self._own_parts.add(partial.name)

    def _own_part(self, partial: Partial) -> None:
        """This thread's part of a fold over the rows. All are filled before: fewer threads may come
        than were asked for."""
        name, number = partial.name, self.expressions.use("thread_number")
        held = {part_name(name): partial.kept}
        if partial.in_blocks:
            held[block_name(name)] = partial.dtype
        for part, dtype in held.items():
            own = f"{part}s + {number}() * {name}_slots"
            type_ = f"{self.expressions.type(dtype)}* {self.target.restrict}"
            self.out.line(f"{type_} const {part} = {own};")


def _streams(nodes: tuple[Node, ...]) -> bool:
    """Whether stores bypass the cache."""
    for node in nodes:
        match node:
            case Loop(binding=Binding.CHUNKS | Binding.SCAN):
                return True
            case (
                Loop(body=body) | IfListed(body=body) | ListLoop(body=body) | IfPastCache(body=body)
            ):
                if _streams(body):
                    return True
            case _:
                pass
    return False


def _counted(nodes: Iterable[Node]) -> list[Widen]:
    """What joins blocks at some rows only."""
    return [node for node in every_node(nodes) if isinstance(node, Widen) and node.every > 1]


def _apart(partial: Partial) -> int:
    """Room for the slots of a partial, so that no two threads write to one line of the cache, nor
    to two that are brought together: of what is kept, nor of the blocks, which may be narrower."""
    narrowest = partial.kept.itemsize
    if partial.in_blocks:
        narrowest = min(narrowest, partial.dtype.itemsize)
    apart = _LINES // narrowest
    return ceil_div(partial.slots, apart) * apart
