"""C++ for rows on the CPU target: threads over rows, lanes along a row or across rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from fuser.codegen.cpu import folds, scans, scatter
from fuser.codegen.cpu.batches import kept_at, kept_count
from fuser.codegen.cpu.checks import checked_index
from fuser.codegen.cpu.chunks import store_lanes
from fuser.codegen.cpu.kernel import CpuKernel
from fuser.codegen.cpu.ranges import over_axis
from fuser.codegen.indices import if_place_exists
from fuser.schedule.tree import row_statements as rows
from fuser.schedule.tree import scatter_nodes as scatters
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import Ref
from fuser.schedule.tree.loop_tree import (
    Alone,
    IfPastCache,
    Loop,
    Meet,
    Node,
    Piece,
    Region,
    RowNode,
    RunNode,
    Share,
)
from fuser.schedule.tree.statements import CheckedIndex, Store, TileNode


class CpuRowPrinter(CpuKernel):
    """Kernels of rows and of scatters."""

    def loop(self, loop: Loop) -> None:
        over_axis(self, loop)

    def store(self, store: Store) -> None:
        with if_place_exists(self, store.at):
            if store.lanes == 1:
                super().store(store)
            else:
                store_lanes(self, store)

    def own_node(self, node: RowNode | RunNode | TileNode) -> None:
        if isinstance(node, RunNode | TileNode):
            super().own_node(node)
            return
        if isinstance(node, scatters.ListNode):
            scatter.list_node(self, node)
            return
        match node:
            case CheckedIndex():
                checked_index(self, node)
            case rows.Keep() | rows.Kept() | rows.RowArray():
                _row_array(self, node)
            case rows.KeepAt():
                scatter.keep_at(self, node)
            case rows.RowTile():
                _row_tile(self, node)
            case rows.RowOfTile():
                _row_of_tile(self, node)
            case rows.DrainRows():
                _drain_rows(self, node)
            case Region():
                _region(self, node)
            case rows.Combine():
                folds.combine(self, node)
            case rows.KeepLanes():
                folds.keep_lanes(self, node)
            case rows.JoinGroups():
                folds.join_groups(self, node)
            case rows.Accumulate():
                folds.accumulate(self, node)
            case rows.Widen():
                folds.widen(self, node)
            case rows.Raise():
                folds.raise_largest(self, node)
            case rows.Finish():
                folds.finish(self, node)
            case rows.ScanLanes():
                scans.scan_lanes(self, node)
            case Share():
                scans.share(self, node)
            case IfPastCache():
                _either(self, node)
            case Piece():
                with self.scope():
                    self.nodes(node.body)
            case (
                rows.FinishPowers()
                | scatters.WarpPoints()
                | scatters.WarpElements()
                | scatters.ByLists()
                | Alone()
                | Meet()
            ):
                super().own_node(node)
            case _:
                assert_never(node)


def _either(kernel: CpuKernel, node: IfPastCache) -> None:
    """One way to do something, or the other."""
    with kernel.out.block(f"if ({kernel.past_cache()})"):
        kernel.nodes(node.body)
    with kernel.out.block("else"):
        kernel.nodes(node.otherwise)


def _region(kernel: CpuKernel, node: Region) -> None:
    """What all threads do, or the one at hand, and then what follows from its folds."""
    if node.threaded and (node.partials or _streams(node.body)):
        _on_threads(kernel, node)
        return
    for partial in node.partials:
        folds.only_part(kernel, partial)
    around = kernel.around
    alone = around.own_parts.union(partial.name for partial in node.partials)
    with kernel.within(own_parts=alone):
        with kernel.within(divided=around.divided or not node.threaded):
            kernel.nodes(node.body)
        if not around.divided and not node.threaded and _streams(node.body):
            kernel.fence()
        kernel.nodes(node.epilogue)


def _on_threads(kernel: CpuKernel, node: Region) -> None:
    """Every thread folds into a part of its own; the epilogue joins them."""
    if node.partials:
        folds.parts_of_threads(kernel, node.partials)
    threads = "num_threads(threads)" if node.partials else "if (threaded)"
    kernel.start_threads(threads)
    with kernel.out.block(""):
        for partial in node.partials:
            folds.own_part(kernel, partial)
        folds.count_rows_of_blocks(kernel, node.body)
        with kernel.within(threads_started=True):
            kernel.nodes(node.body)
        if _streams(node.body):
            kernel.fence()
    kernel.nodes(node.epilogue)
    folds.free_parts(kernel, node.partials)


def _row_array(kernel: CpuKernel, node: rows.Keep | rows.Kept | rows.RowArray) -> None:
    """What a row keeps between sweeps."""
    array, type_ = f"{node.name}_row", kernel.expressions.type(node.dtype)
    match node:
        case rows.RowArray():
            kernel.out.line(f"{type_} {array}[{kept_count(kernel, node.axes)}];")
        case rows.Keep():
            source = node.source or Ref(node.name, node.dtype)
            kept = kernel.expressions.print(source, node.name)
            kernel.out.line(f"{array}[{kept_at(kernel, node.axes)}] = {kept};")
        case rows.Kept():
            kernel.expressions.lane_arrays.discard(node.name)
            kept = f"{array}[{kept_at(kernel, node.axes)}]"
            kernel.define(node.name, node.dtype, kept)


def _row_of_tile(kernel: CpuKernel, node: rows.RowOfTile) -> None:
    """Which row of a tile is at hand."""
    tile = node.tile
    const, type_ = "" if tile.stored else "const ", kernel.expressions.type(tile.tensor.dtype)
    row = f"{tile.name}_tile[{kernel.sizes.axis(tile.rows)}]"
    kernel.out.line(f"{const}{type_}* const {tile.name}_row = {row};")


def _row_tile(kernel: CpuKernel, node: rows.RowTile) -> None:
    """What is turned of some rows."""
    type_ = kernel.expressions.type(node.tensor.dtype)
    # The sizes are numbers: the compiler unrolls the turning by them.
    kernel.out.line(f"alignas(64) {type_} {node.name}_tile[{node.rows.extent}][{node.most}];")
    if not node.stored:
        _move_rows(kernel, node, kernel.expressions.use("fill_tile"), "in")


def _drain_rows(kernel: CpuKernel, node: rows.DrainRows) -> None:
    """What some rows have, turned on its way to memory."""
    _move_rows(kernel, node.tile, f"{kernel.expressions.use('drain_tile')}<false>", "out")


def _move_rows(kernel: CpuKernel, tile: rows.RowTile, move: str, way: str) -> None:
    name, count = kernel.sizes.axis(tile.axis), kernel.sizes.extent(tile.axis)
    at = f"{tile.tensor}_{way} + {kernel.sizes.index(tile.at, tile.tensor.name)}"
    columns = f"{kernel.index}(0), [&]({kernel.index} {name}) {{ return {at}; }}"
    kernel.out.line(f"{move}({tile.name}_tile, {columns}, int({count}));")


def _streams(nodes: Iterable[Node]) -> bool:
    """Whether the threads at hand store past the cache. Those of a share, or of a region inside,
    are others, which wait for their own stores."""
    return any(map(_node_streams, nodes))


def _node_streams(node: Node) -> bool:
    match node:
        case Loop(binding=Binding.CHUNKS | Binding.SCAN):
            return True
        case Loop() | scatters.ListLoop():
            return _streams(node.body)
        case IfPastCache() | scatters.IfBelow():
            return _streams((*node.body, *node.otherwise))
        case scatters.IfListed():
            return _streams((*node.body, *node.otherwise, *node.one))
        case _:
            return False
