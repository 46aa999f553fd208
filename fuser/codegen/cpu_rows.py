"""C++ for rows on the CPU target: threads over rows, lanes along a row or across rows."""

from __future__ import annotations

from typing import assert_never

from fuser.codegen.cpu_folds import CpuFoldPrinter
from fuser.schedule.bindings import Binding
from fuser.schedule.expressions import Ref
from fuser.schedule.loop_tree import (
    IfListed,
    IfPastCache,
    ListLoop,
    Loop,
    Node,
    PointLists,
    PointOf,
    Region,
    RowNode,
    Share,
    UnlistedRows,
    WarpElements,
    WarpPoints,
)
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
    Raise,
    RowArray,
    RowOfTile,
    RowTile,
    ScanLanes,
    Widen,
)
from fuser.schedule.statements import CheckedIndex


class CpuRowPrinter(CpuFoldPrinter):
    """`extern "C" void name(..., const bool threaded)`."""

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
            case PointLists() | PointOf() | IfListed() | UnlistedRows() | ListLoop() | KeepAt():
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
            self._parts_of_threads(node.partials)
        threads = "num_threads(threads)" if node.partials else "if (threaded)"
        self.out.line(f"#pragma omp parallel {threads}")
        with self.out.block(""):
            for partial in node.partials:
                self._own_part(partial)
            self._counters(node.body)
            self._threads_started = True
            self.nodes(node.body)
            self._threads_started = False
            if _streams(node.body):
                self.out.line(f"{self.expressions.use('stream_fence')}();")
        self.nodes(node.epilogue)
        self._freed(node.partials)

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
