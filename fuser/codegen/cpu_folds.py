"""C++ for folds on the CPU target: lanes of a row that are joined, and folds over the rows.

Every thread has a part of a fold over the rows, in lines of the cache that no other writes to, and
joins blocks of rows to it where it is wider than they are. The epilogue of a region joins parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fuser.codegen.cpu_scans import CpuScanPrinter
from fuser.ir.dtypes import DataType
from fuser.schedule.counts import ceil_div
from fuser.schedule.emit import join
from fuser.schedule.expressions import Call, Convert, Expression, Literal, Ref
from fuser.schedule.folds import lowest_finite
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import Node, every_node
from fuser.schedule.names import block_name, part_name
from fuser.schedule.row_statements import (
    Accumulate,
    Combine,
    Finish,
    JoinGroups,
    KeepLanes,
    Partial,
    Raise,
    Widen,
)
from fuser.schedule.statements import Let
from fuser.segmenter import Segment

_LINES = 128
"""Bytes of two lines of the cache."""


class CpuFoldPrinter(CpuScanPrinter):
    """Prints what becomes of folded lanes, and the parts that threads have of folds."""

    def __init__(self, segment: Segment, nest: LoopNest) -> None:
        super().__init__(segment, nest)
        self._own_parts: set[str] = set()
        """Partials that one thread keeps for itself."""

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

    # -- parts of threads ------------------------------------------------------------------------

    def _parts_of_threads(self, partials: Sequence[Partial]) -> None:
        """Room for the parts of all threads."""
        self.count_threads()
        for partial in partials:
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

    def _freed(self, partials: Sequence[Partial]) -> None:
        """Gives the room back."""
        for partial in partials:
            self.out.line(f"__builtin_free({part_name(partial.name)}s);")
            if partial.in_blocks:
                self.out.line(f"__builtin_free({block_name(partial.name)}s);")

    def _counters(self, nodes: Iterable[Node]) -> None:
        """What a thread counts where it joins blocks at some rows only."""
        for node in every_node(nodes):
            if isinstance(node, Widen) and node.every > 1:
                name = node.partial.name
                self.out.line(f"int {name}_rows = 0;")
                if node.span:
                    self.out.line(f"long long {name}_first = {name}_slots, {name}_end = 0;")

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


def _apart(partial: Partial) -> int:
    """Room for the slots of a partial, so that no two threads write to one line of the cache, nor
    to two that are brought together: of what is kept, nor of the blocks, which may be narrower."""
    narrowest = partial.kept.itemsize
    if partial.in_blocks:
        narrowest = min(narrowest, partial.dtype.itemsize)
    apart = _LINES // narrowest
    return ceil_div(partial.slots, apart) * apart
