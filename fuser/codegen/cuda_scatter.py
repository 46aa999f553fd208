"""CUDA C++ for scatters: what memory adds, and what a warp adds up before."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from fuser.codegen.cuda_rows import CudaRowPrinter
from fuser.schedule.bindings import Binding
from fuser.schedule.counts import ceil_div, point_count
from fuser.schedule.index import Axis, Index
from fuser.schedule.loop_tree import Loop, RowNode, WarpElements, WarpPoints
from fuser.schedule.statements import Store


class CudaScatterPrinter(CudaRowPrinter):
    """`extern "C" __global__ void name(...)`.

    In `step` after step, a warp does each of the points of its `tile`: those of one place one after
    the other, as `turn` tells.
    """

    def store(self, store: Store) -> None:
        with self.if_place_exists(store.at):
            self._store(store)

    def _store(self, store: Store) -> None:
        if store.joins is None:
            super().store(store)
            return
        assert self._sharing is not None
        place = f"{store.tensor}_out + ({self.sizes.index(store.at, store.tensor.name)})"
        if store.lanes == 1:
            added = self.expressions.print(store.source, store.tensor.name)
            self.out.line(f"{self.expressions.use('add_to')}({place}, {added});")
        elif self._sharing.whole:
            self.out.line(f"{self.expressions.use('add_vector')}({self.lanes_of(store)}, {place});")
        else:
            call = f"{self.expressions.use('add_part')}({self.lanes_of(store)}, {place}, "
            self.out.line(f"{call}{self._valid()});")

    def row_node(self, node: RowNode) -> None:
        match node:
            case WarpPoints() | WarpElements():
                self.warp(node)
            case _:
                super().row_node(node)

    def warp(self, node: WarpPoints | WarpElements) -> None:
        """What a warp does together."""
        _, y, _ = self.nest.launch.block
        self.out.line(f"const {self.index} warp = {self.index}(blockIdx.x) * {y} + threadIdx.y;")
        if isinstance(node, WarpPoints):
            self._warp_points(node)
        else:
            self._warp_elements(node)

    def _warp_elements(self, node: WarpElements) -> None:
        store, name = node.store, f"{node.store.tensor}"
        type_ = self.expressions.type(store.tensor.dtype)
        count = point_count(node.axes)
        points = self.sizes.parameter(f"{name}_points", count)
        self.out.line(f"const {self.index} point = warp * 32 + {self.index}(threadIdx.x);")
        self.out.line(f"{type_}* {name}_place = nullptr;")
        self.out.line(f"{type_} {name}_added = {type_}(0);")
        with self.out.block(f"if (point < {points})"):
            self._unravel_point(node.axes, "point")
            self.nodes(node.code)
            place = f"{name}_out + ({self.sizes.index(store.at, name)})"
            self.out.line(f"{name}_place = {self._or(place, store.at, 'nullptr')};")
            self.out.line(f"{name}_added = {self.expressions.print(store.source, name)};")
        self.out.line(f"{self.expressions.use('add_of_warp')}({name}_place, {name}_added);")

    def _warp_points(self, node: WarpPoints) -> None:
        name, index, loop = f"{node.store.tensor}", self.index, node.columns
        type_ = self.expressions.type(node.store.tensor.dtype)
        column, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
        count = point_count(node.axes)
        points = self.sizes.parameter(f"{name}_points", count)
        warps = self.sizes.parameter("column_warps", ceil_div(loop.axis.extent, 32 * loop.step))
        self.out.line(f"const {index} tile = warp / {warps} * 32;")
        lane = f"(warp % {warps} * 32 + {index}(threadIdx.x)) * {loop.step}"
        self.out.line(f"const {index} own = {lane.removesuffix(' * 1')};")
        self.out.line(f"const {index} {column} = own < {extent} ? own : 0;")
        self.out.line(f"long long {name}_place = -1;")
        own = f"tile + {index}(threadIdx.x)"
        with self.out.block(f"if ({own} < {points})"):
            self._unravel_point(node.axes, own)
            self.nodes(node.code)
            place = self.sizes.index(node.place, name)
            self.out.line(f"{name}_place = {self._or(place, node.place, '-1')};")
        self.out.line("bool is_last;")
        turn = f"{self.expressions.use('turn_of_lane')}({name}_place, is_last)"
        self.out.line(f"const int turn = {turn};")
        self.out.line(f"{type_} {name}_sum[{loop.step}];")
        self._each_lane(node, f"{name}_sum[lane] = {self.expressions.print(node.fill, name)};")
        with self.out.block(f"for (int step = 0; step < 32; step += {node.ahead})"):
            self.out.line(f"{type_} {name}_added[{node.ahead}][{loop.step}];")
            self._load_points(node, points)
            self._add_points(node)

    def _load_points(self, node: WarpPoints, points: str) -> None:
        """What some points add. There is always something to read, so that loads can be early."""
        name, index = f"{node.store.tensor}", self.index
        with self._each_step(node):
            self.out.line(f"const {index} point = tile + {index}(lane_at_turn);")
            self.out.line(f"const {index} read = point < {points} ? point : {points} - 1;")
            self._unravel_point(node.axes, "read")
            self._sharing = node.columns
            self.nodes(node.columns.body)
            self._sharing = None
            source = self.expressions.print(node.store.source, name)
            self._each_lane(node, f"{name}_added[ahead][lane] = {source};")

    def _add_points(self, node: WarpPoints) -> None:
        """Sums of what goes to one place, added when they are complete."""
        name, everyone = f"{node.store.tensor}", "0xffffffffu"
        extent = self.sizes.extent(node.columns.axis)
        with self._each_step(node):
            place = f"__shfl_sync({everyone}, {name}_place, lane_at_turn)"
            self.out.line(f"const long long {name}_at = {place};")
            last = f"__shfl_sync({everyone}, int(is_last), lane_at_turn)"
            self.out.line(f"const bool ends = {last} != 0;")
            self._each_lane(node, f"{name}_sum[lane] += {name}_added[ahead][lane];")
            self.out.line("if (!ends) continue;")
            at, call = self.sizes.index(node.store.at, name), self.expressions.use("add_vector")
            added = f"{call}({name}_sum, {name}_out + ({name}_at + {at}));"
            self.out.line(f"if ({name}_at >= 0 && own < {extent}) {added}")
            fill = self.expressions.print(node.fill, name)
            self._each_lane(node, f"{name}_sum[lane] = {fill};")

    @contextmanager
    def _each_step(self, node: WarpPoints) -> Generator[None]:
        self.out.line("#pragma unroll")
        with self.out.block(f"for (int ahead = 0; ahead < {node.ahead}; ++ahead)"):
            ballot = "__ballot_sync(0xffffffffu, turn == step + ahead)"
            self.out.line(f"const int lane_at_turn = __ffs({ballot}) - 1;")
            yield

    def _or(self, place: str, at: Index, none: str) -> str:
        """A place, or `none` if there is none."""
        exists = self.place_exists(at)
        return f"{exists} ? {place} : {none}" if exists else place

    def _each_lane(self, node: WarpPoints, line: str) -> None:
        self.out.line("#pragma unroll")
        self.out.line(f"for (int lane = 0; lane < {node.columns.step}; ++lane) {line}")

    def _unravel_point(self, axes: tuple[Axis, ...], number: str) -> None:
        if len(axes) == 1:
            self.out.line(f"const {self.index} {self.sizes.axis(axes[0])} = {number};")
        elif axes:
            self._unravel([Loop(axis, Binding.TEAM, ()) for axis in axes], number)
