"""CUDA C++: which function prints a node, and which one a loop, by what runs it."""

from __future__ import annotations

from typing import assert_never

from fuser.codegen.cuda import folds, scans, scatter, teams
from fuser.codegen.cuda.blocks import over_blocks
from fuser.codegen.cuda.kept import copy_ahead, is_copied, join_to_row, row_array
from fuser.codegen.cuda.kernel import CudaKernel
from fuser.codegen.cuda.lanes import (
    combine_lanes,
    load_lanes,
    load_run,
    over_lanes,
    store_lanes,
    store_run,
)
from fuser.codegen.cuda.lists import by_lists
from fuser.codegen.cuda.points import over_ends, over_points
from fuser.codegen.cuda.rows import accumulate, finish, region
from fuser.codegen.cuda.tiles import over_tile, tile_node, tiled_loops
from fuser.codegen.indices import if_place_exists
from fuser.codegen.tiles import tiled_nest
from fuser.schedule.tree import row_statements as rows
from fuser.schedule.tree import scatter_nodes as scatters
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import (
    Alone,
    Loop,
    Meet,
    ProcessorNode,
    Region,
    RowNode,
    RunNode,
    Share,
)
from fuser.schedule.tree.statements import (
    CheckedIndex,
    Load,
    LoadRun,
    Prefetch,
    Store,
    StoreRun,
    TileNode,
)


class CudaPrinter(CudaKernel):
    """Kernels of points, of rows and of scatters."""

    def loop(self, loop: Loop) -> None:
        match loop.binding:
            case Binding.BLOCK | Binding.THREAD_X | Binding.THREAD_Y | Binding.TILED:
                over = tiled_loops if tiled_nest(loop) else over_blocks
                over(self, loop)
            case Binding.TILE_LINES | Binding.TILE_COLUMNS:
                over_tile(self, loop)
            case Binding.LANES:
                over_lanes(self, loop)
            case Binding.TEAMS:
                teams.over_rows(self, loop)
            case Binding.TEAM:
                over_points(self, loop)
            case Binding.ENDS:
                over_ends(self, loop)
            case Binding.SCAN:
                scans.in_order(self, loop)
            case Binding.SERIAL:
                teams.in_turn(self, loop)
            case _:
                raise AssertionError(f"no kernel of a GPU has loops that are {loop.binding.name}")

    def load(self, load: Load) -> None:
        if is_copied(self, load.name):
            copy_ahead(self, load)
        elif load.lanes == 1:
            super().load(load)
        else:
            load_lanes(self, load)

    def read(self, load: Load, at: str) -> str:
        return super().read(load, self.read_at(load, at))

    def store(self, store: Store) -> None:
        with if_place_exists(self, store.at):
            if store.joins is not None:
                scatter.join_to_memory(self, store)
            elif store.lanes == 1:
                with teams.once_a_row(self):
                    super().store(store)
            else:
                with teams.of_a_column(self):
                    store_lanes(self, store)

    def prefetch(self, prefetch: Prefetch) -> None:
        raise AssertionError("other warps hide the latency of loads on a GPU: nothing to prefetch")

    def own_node(self, node: RowNode | RunNode | TileNode) -> None:
        if isinstance(node, ProcessorNode):
            super().own_node(node)
            return
        if isinstance(node, TileNode):
            tile_node(self, node)
            return
        match node:
            case LoadRun():
                load_run(self, node)
            case StoreRun():
                store_run(self, node)
            case CheckedIndex():
                teams.checked_index(self, node)
            case rows.Keep() | rows.Kept() | rows.RowArray():
                row_array(self, node)
            case rows.KeepAt():
                join_to_row(self, node)
            case Alone():
                teams.alone(self, node)
            case Meet():
                teams.meet(self)
            case Region():
                region(self, node)
            case rows.Accumulate():
                accumulate(self, node)
            case rows.Finish():
                finish(self, node)
            case rows.FinishPowers():
                folds.finish_powers(self, node)
            case rows.Combine():
                combine_lanes(self, node)
            case rows.ScanLanes():
                scans.scan_lanes(self, node)
            case Share():
                scans.share(self, node)
            case scatters.WarpPoints():
                scatter.warp_points(self, node)
            case scatters.WarpElements():
                scatter.warp_elements(self, node)
            case scatters.ByLists():
                by_lists(self, node)
            case _:
                assert_never(node)
