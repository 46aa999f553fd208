"""CUDA C++ for scatters: what memory joins, and what a warp joins before.

In `step` after step, a warp does each of the points of its `tile`: those of one place one after the
other, as `turn` tells.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from fuser.codegen.cuda.kernel import CudaKernel
from fuser.codegen.cuda.lanes import on_lanes
from fuser.codegen.cuda.teams import unravel
from fuser.codegen.indices import place_exists
from fuser.schedule.cuda_parameters import WARP
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import ceil_div, point_count
from fuser.schedule.tree.expressions import Ref, join
from fuser.schedule.tree.loop_tree import Loop
from fuser.schedule.tree.scatter_nodes import WarpElements, WarpPoints
from fuser.schedule.tree.statements import Store

WHOLE_WARP = "0xffffffffu"
"""The threads that exchange numbers by shuffles."""


def join_to_memory(kernel: CudaKernel, store: Store) -> None:
    """What each thread joins to memory: an element, as neighbours go anywhere."""
    assert store.lanes == 1, "a warp joins columns before"
    place = f"{store.tensor}_out + ({kernel.sizes.index(store.at, store.tensor.name)})"
    added = kernel.expressions.print(store.source, store.tensor.name)
    call = kernel.expressions.use("join_to")
    kernel.out.line(f"{call}({place}, {added}, {_joiner(kernel, store)});")


def warp_elements(kernel: CudaKernel, node: WarpElements) -> None:
    """An element for each thread of a warp; those of one place are joined before."""
    _number_warp(kernel)
    store, name = node.store, f"{node.store.tensor}"
    type_ = kernel.expressions.type(store.dtype)
    points = kernel.sizes.parameter(f"{name}_points", point_count(node.axes))
    kernel.out.line(f"const {kernel.index} point = warp * 32 + {kernel.index}(threadIdx.x);")
    kernel.out.line(f"{type_}* {name}_place = nullptr;")
    kernel.out.line(f"{type_} {name}_added = {type_}(0);")
    with kernel.out.block(f"if (point < {points})"):
        unravel_point(kernel, node.axes, "point")
        kernel.nodes(node.code)
        place = f"{name}_out + ({kernel.sizes.index(store.at, name)})"
        kernel.out.line(f"{name}_place = {_or(kernel, place, store.at, 'nullptr')};")
        kernel.out.line(f"{name}_added = {kernel.expressions.print(store.source, name)};")
    call, join = kernel.expressions.use("join_of_warp"), _joiner(kernel, store)
    kernel.out.line(f"{call}({name}_place, {name}_added, {join});")


def warp_points(kernel: CudaKernel, node: WarpPoints) -> None:
    """Points of a warp, and some columns: those of one place one after the other."""
    _number_warp(kernel)
    name, index, loop = f"{node.store.tensor}", kernel.index, node.columns
    type_ = kernel.expressions.type(node.store.dtype)
    column, extent = kernel.sizes.axis(loop.axis), kernel.sizes.extent(loop.axis)
    points = kernel.sizes.parameter(f"{name}_points", point_count(node.axes))
    warps = kernel.sizes.parameter("column_warps", ceil_div(loop.axis.extent, WARP * loop.step))
    kernel.out.line(f"const {index} tile = warp / {warps} * 32;")
    lane = f"(warp % {warps} * 32 + {index}(threadIdx.x)) * {loop.step}"
    kernel.out.line(f"const {index} own = {lane.removesuffix(' * 1')};")
    kernel.out.line(f"const {index} {column} = own < {extent} ? own : 0;")
    kernel.out.line(f"long long {name}_place = -1;")
    own = f"tile + {index}(threadIdx.x)"
    with kernel.out.block(f"if ({own} < {points})"):
        unravel_point(kernel, node.axes, own)
        kernel.nodes(node.code)
        place = kernel.sizes.index(node.place, name)
        kernel.out.line(f"{name}_place = {_or(kernel, place, node.place, '-1')};")
    kernel.out.line("bool is_last;")
    turn = f"{kernel.expressions.use('turn_of_lane')}({name}_place, is_last)"
    kernel.out.line(f"const int turn = {turn};")
    kernel.out.line(f"{type_} {name}_sum[{loop.step}];")
    fill = kernel.expressions.print(node.fill, name)
    on_lanes(kernel, loop.step, f"{name}_sum[lane] = {fill};")
    with kernel.out.block(f"for (int step = 0; step < 32; step += {node.ahead})"):
        kernel.out.line(f"{type_} {name}_added[{node.ahead}][{loop.step}];")
        _load_points(kernel, node, points)
        _join_points(kernel, node)


def _number_warp(kernel: CudaKernel) -> None:
    _, y, _ = kernel.nest.launch.block
    kernel.out.line(f"const {kernel.index} warp = {kernel.index}(blockIdx.x) * {y} + threadIdx.y;")


def _load_points(kernel: CudaKernel, node: WarpPoints, points: str) -> None:
    """What some points join. There is always something to read, so that loads can be early."""
    name, index = f"{node.store.tensor}", kernel.index
    with _each_step(kernel, node):
        kernel.out.line(f"const {index} point = tile + {index}(lane_at_turn);")
        kernel.out.line(f"const {index} read = point < {points} ? point : {points} - 1;")
        unravel_point(kernel, node.axes, "read")
        with kernel.sharing(node.columns):
            kernel.nodes(node.columns.body)
            source = kernel.expressions.print(node.store.source, name)
        on_lanes(kernel, node.columns.step, f"{name}_added[ahead][lane] = {source};")


def _join_points(kernel: CudaKernel, node: WarpPoints) -> None:
    """What goes to one place, joined to it when all of it is there."""
    name, store = f"{node.store.tensor}", node.store
    sums = Ref(f"{name}_sum[lane]", store.dtype)
    added = Ref(f"{name}_added[ahead][lane]", store.dtype)
    extent = kernel.sizes.extent(node.columns.axis)
    with _each_step(kernel, node):
        place = f"__shfl_sync({WHOLE_WARP}, {name}_place, lane_at_turn)"
        kernel.out.line(f"const long long {name}_at = {place};")
        last = f"__shfl_sync({WHOLE_WARP}, int(is_last), lane_at_turn)"
        kernel.out.line(f"const bool ends = {last} != 0;")
        joined = kernel.expressions.print(join(_joins(store), sums, added), name)
        on_lanes(kernel, node.columns.step, f"{sums.name} = {joined};")
        kernel.out.line("if (!ends) continue;")
        at, call = kernel.sizes.index(store.at, name), kernel.expressions.use("join_vector")
        place = f"{name}_out + ({name}_at + {at})"
        stored = f"{call}({name}_sum, {place}, {_joiner(kernel, store)});"
        kernel.out.line(f"if ({name}_at >= 0 && own < {extent}) {stored}")
        fill = kernel.expressions.print(node.fill, name)
        on_lanes(kernel, node.columns.step, f"{name}_sum[lane] = {fill};")


def _joins(store: Store) -> str:
    assert store.joins is not None, "threads that overwrite do not share points out"
    return store.joins


def _joiner(kernel: CudaKernel, store: Store) -> str:
    return kernel.memory_joiner(_joins(store), store.dtype, store.tensor.name)


@contextmanager
def _each_step(kernel: CudaKernel, node: WarpPoints) -> Generator[None]:
    with kernel.unrolled("ahead", node.ahead):
        ballot = f"__ballot_sync({WHOLE_WARP}, turn == step + ahead)"
        kernel.out.line(f"const int lane_at_turn = __ffs({ballot}) - 1;")
        yield


def _or(kernel: CudaKernel, place: str, at: Index, none: str) -> str:
    """A place, or `none` if there is none."""
    exists = place_exists(kernel, at)
    return f"{exists} ? {place} : {none}" if exists else place


def unravel_point(kernel: CudaKernel, axes: tuple[Axis, ...], number: str) -> None:
    if len(axes) == 1:
        kernel.out.line(f"const {kernel.index} {kernel.sizes.axis(axes[0])} = {number};")
    elif axes:
        unravel(kernel, [Loop(axis, Binding.TEAM, ()) for axis in axes], number)
