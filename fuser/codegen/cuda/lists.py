"""CUDA C++ for scatters by lists of points: shares of all blocks, first of the lists, then of rows.

In step after step, a warp does each point of its rows, and none where a row has none; each lane
knows of one of 32 steps. See `device/lists_cuda.h`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.codegen.cuda.kernel import CudaKernel
from fuser.codegen.cuda.lanes import declare_lanes, on_lanes, times
from fuser.codegen.cuda.scatter import WHOLE_WARP, unravel_point
from fuser.codegen.kernel_source import Workspace
from fuser.ir.dtypes import DataType
from fuser.schedule.indices.index import Axis
from fuser.schedule.tree.counts import ceil_div, costly_arithmetic
from fuser.schedule.tree.expressions import Call, Expression, Ref, join
from fuser.schedule.tree.loop_tree import Loop, Node, every_node
from fuser.schedule.tree.scatter_nodes import ByLists, MadeLanes, PointLists, PointOf, WarpRows
from fuser.schedule.tree.statements import Load

_STATE = 8
"""Numbers of a `list_state`."""


def by_lists(kernel: CudaKernel, node: ByLists) -> None:
    """A share of the lists for some blocks, one of the rows for the others."""
    x, y, _ = kernel.nest.launch.block
    size = x * y
    _declare(kernel, node)
    points = kernel.sizes.parameter("point_shares", ceil_div(node.lists.points, size))
    rows = kernel.sizes.parameter("row_shares", ceil_div(node.lists.rows, size))
    use, line, block = kernel.expressions.use, kernel.out.line, kernel.out.block
    line(f"const int share = {use('take_share')}(&lists.state->taken);")
    line(f"const int own = threadIdx.y * {x} + threadIdx.x;")
    hand, wait = use("hand_in"), use("wait_for_shares")
    with block(f"if (share < {points})"):
        _count(kernel, node.lists, f"share * {size} + own")
        line(f"{hand}(&lists.state->counted);")
    with block(f"else if (share < {points} + {rows})"):
        line(f"{wait}(&lists.state->counted, {points});")
        line(f"{use('allot_row')}(lists, (share - {points}) * {size} + own);")
        line(f"{hand}(&lists.state->allotted);")
    with block(f"else if (share < 2 * {points} + {rows})"):
        line(f"{wait}(&lists.state->allotted, {rows});")
        line(f"{use('place_point')}(lists, (share - {points} - {rows}) * {size} + own);")
        line(f"{hand}(&lists.state->placed);")
    with block("else"):
        line(f"{wait}(&lists.state->placed, {points});")
        _make_rows(kernel, node.rows, f"(share - 2 * {points} - {rows}) * {y} + threadIdx.y")
    line(f"{use('finish_lists')}(lists);")


def _declare(kernel: CudaKernel, node: ByLists) -> None:
    """The workspaces of lists and of pieces."""
    lists, rows = node.lists, node.rows
    name, parts, chunks = lists.name, rows.copies * rows.pieces, rows.chunks
    zeros = _STATE + lists.rows + parts * chunks
    memory = 4 * rows.pieces + 2 * lists.rows + 3 * lists.points
    held = Workspace(f"{name}_zeros", DataType.Int32, zeros, zeroed=True, restored=True)
    kernel.workspaces.append(held)
    kernel.workspaces.append(Workspace(f"{name}_memory", DataType.Int32, memory))
    elements = parts * rows.columns.axis.extent
    kernel.workspaces.append(Workspace(f"{name}_parts", rows.dtype, elements))
    kernel.expressions.type(DataType.Int32)
    numbers = {"points": lists.points, "rows": lists.rows}
    numbers |= {"longest": rows.longest, "pieces": rows.pieces}
    given = ", ".join(kernel.sizes.parameter(f"{name}_{k}", n) for k, n in numbers.items())
    call = f"{kernel.expressions.use('lists_in')}({name}_zeros, {name}_memory, {given})"
    kernel.out.line(f"const {kernel.expressions.use('point_lists')} lists = {call};")


def _count(kernel: CudaKernel, lists: PointLists, number: str) -> None:
    """A point of this thread, if there is one, and its row."""
    axes: list[Axis] = []
    nodes: Sequence[Node] = lists.body
    while isinstance(nodes[0], Loop):
        axes.append(nodes[0].axis)
        nodes = nodes[0].body
    *code, place = nodes
    assert isinstance(place, PointOf)
    kernel.out.line(f"const {kernel.index} point = {number};")
    kernel.out.line("int number = -1, row = -1;")
    with kernel.out.block("if (point < lists.points)"):
        unravel_point(kernel, tuple(axes), "point")
        kernel.nodes(code)
        kernel.out.line(f"number = int({kernel.sizes.index(place.at, f'{lists.name}_number')});")
        kernel.out.line(f"row = int({kernel.sizes.index(place.row, lists.name)});")
    kernel.out.line(f"{kernel.expressions.use('count_point')}(lists, number, row);")


def _make_rows(kernel: CudaKernel, node: WarpRows, warp: str) -> None:
    """Pieces of rows, for the first warps, and whole ones for the others: some of their columns."""
    line, index, use = kernel.out.line, kernel.index, kernel.expressions.use
    chunks, copies = _chunks(kernel, node), kernel.sizes.parameter("copies", node.copies)
    warps = kernel.sizes.parameter("cut_by", node.cut_by)
    tile = kernel.sizes.parameter("tile", node.tile)
    line(f"const {index} warp = {warp};")
    line(f"const bool cuts = warp < {warps};")
    line(f"const {index} end = cuts ? {use('pieces_in')}(lists) * {copies} * {chunks} : warp + 1;")
    with kernel.out.block(f"for ({index} at = warp; at < end; at += {warps})"):
        most = kernel.sizes.parameter(f"{node.lists}_pieces", node.pieces)
        line(f"const {index} unit = cuts ? at : at - {warps};")
        piece = f"{use('piece_of_warp')}(lists, int(unit / {chunks}), {copies}, {most})"
        rows = f"{use('rows_of_warp')}(lists, int(unit / {chunks}), {copies}, {tile})"
        line(f"const {use('listed_rows')} rows = cuts ? {piece} : {rows};")
        _find_columns(kernel, node)
        _walk_points(kernel, node)
        _join_pieces(kernel, node)


def _find_columns(kernel: CudaKernel, node: WarpRows) -> None:
    """The columns of a thread; without any, it is at the first, to read what there is."""
    loop, line, index = node.columns, kernel.out.line, kernel.index
    column, extent = kernel.sizes.axis(loop.axis), kernel.sizes.extent(loop.axis)
    line(f"const {index} chunk = unit % {_chunks(kernel, node)};")
    own = times(f"chunk * 32 + {index}(threadIdx.x)", loop.step)
    line(f"const {index} first = {own};")
    line(f"const bool exists = first < {extent};")
    line(f"const {index} {column} = exists ? first : 0;")


def _walk_points(kernel: CudaKernel, node: WarpRows) -> None:
    """The points of the rows, one after the other."""
    line, use = kernel.out.line, kernel.expressions.use
    line(f"const int steps = __shfl_sync({WHOLE_WARP}, rows.end, 31);")
    line(f"{kernel.expressions.type(node.dtype)} sum[{node.columns.step}];")
    _clear(kernel, node)
    with kernel.out.block("for (int begin = 0; begin < steps; begin += 32)"):
        step = f"{use('step_of_lane')}(lists, rows, begin + int(threadIdx.x))"
        line(f"const {use('listed_step')} own_step = {step};")
        unrolled = f"step < 32 && begin + step < steps; step += {node.ahead}"
        with kernel.out.block(f"for (int step = 0; {unrolled})"):
            _load_points(kernel, node)
            _join_points(kernel, node)


def _load_points(kernel: CudaKernel, node: WarpRows) -> None:
    """What some points join, and perhaps what their rows hold before. There is always something to
    read, so that loads can be early."""
    line, lanes = kernel.out.line, node.columns.step
    type_ = kernel.expressions.type(node.dtype)
    arrays = ("added", "base") if _is_early(node.base) else ("added",)
    for array in arrays:
        line(f"{type_} {array}[{node.ahead}][{lanes}];")
    with kernel.unrolled("ahead", node.ahead):
        line(f"const int listed = {_of_step('own_step.point')};")
        line(f"const long long {node.point} = listed < 0 ? 0 : listed;")
        fill = kernel.expressions.print(node.fill, node.name)
        if "base" in arrays or node.of_row or node.copies > 1:
            _print_row(kernel, node, _of_step("own_step.of"))
        kernel.nodes(node.of_row)
        with kernel.out.block(""), kernel.sharing(node.columns):
            made = _print_made(kernel, node, node.added)
            on_lanes(kernel, lanes, f"added[ahead][lane] = listed < 0 ? {fill} : {made};")
        if "base" in arrays:
            with kernel.out.block(""), kernel.sharing(node.columns):
                made = _print_made(kernel, node, node.base)
                on_lanes(kernel, lanes, f"base[ahead][lane] = {made};")


def _join_points(kernel: CudaKernel, node: WarpRows) -> None:
    """What the points of a row come to, and what is made of it when all are there."""
    sums, added = (Ref(name, node.dtype) for name in ("sum[lane]", "added[ahead][lane]"))
    joined = kernel.expressions.print(join(node.joins, sums, added), node.name)
    with kernel.unrolled("ahead", node.ahead):
        on_lanes(kernel, node.columns.step, f"{sums.name} = {joined};")
        kernel.out.line(f"if (!{_of_step('int(own_step.ends)')}) continue;")
        _print_row(kernel, node, _of_step("own_step.of"))
        early = Ref("base[ahead][lane]", node.dtype) if _is_early(node.base) else None
        _finish_row(kernel, node, early)
        _clear(kernel, node)


def _join_pieces(kernel: CudaKernel, node: WarpRows) -> None:
    """Goes on with a row that was cut where all of it has been joined."""
    chunks = _chunks(kernel, node)
    column, extent = (of(node.columns.axis) for of in (kernel.sizes.axis, kernel.sizes.extent))
    parts = f"{node.lists}_parts + (rows.slot * {kernel.index}({extent}) + {column})"
    joined = f"lists.counts + lists.rows + (rows.slot * {chunks} + chunk)"
    given = f"sum, {parts}, {joined}, rows.number, rows.cut, {extent}, {chunks}, exists"
    given += f", {kernel.memory_joiner(node.joins, node.dtype, node.name)}"
    call = f"{kernel.expressions.use('join_pieces')}({given})"
    with kernel.out.block(f"if (cuts && {call})"):
        _print_row(kernel, node, "0")
        _finish_row(kernel, node)


def _finish_row(kernel: CudaKernel, node: WarpRows, base: Expression | None = None) -> None:
    """What is made of all points of a row, and of its `base`, if that is not there yet."""
    with kernel.sharing(node.columns):
        if base is None:
            kernel.nodes(node.base.code)
        _declare_total(kernel, node, base or node.base.source)
        with kernel.out.block("if (exists)"):
            kernel.nodes(node.finish)


def _print_row(kernel: CudaKernel, node: WarpRows, lane: str) -> None:
    """Which of all rows a lane has."""
    kernel.out.line(f"const {kernel.index} row = __shfl_sync({WHOLE_WARP}, rows.row, {lane});")
    unravel_point(kernel, node.axes, "row")


def _print_made(kernel: CudaKernel, node: WarpRows, made: MadeLanes) -> str:
    """Print what makes neighbouring columns; what a lane of them is."""
    kernel.nodes(made.code)
    return kernel.expressions.print(made.source, node.lists)


def _declare_total(kernel: CudaKernel, node: WarpRows, base: Expression) -> None:
    """What a row comes to: what it held before, and its points."""
    both = Call(node.joins, (base, Ref("sum[lane]", node.dtype)), node.dtype)
    total = kernel.expressions.print(both, node.lists)
    if node.columns.step > 1:
        declare_lanes(kernel, node.name, node.dtype, node.columns.step)
        on_lanes(kernel, node.columns.step, f"{node.name}[lane] = {total};")
        return
    type_, total = kernel.expressions.type(node.dtype), total.replace("[lane]", "[0]")
    kernel.out.line(f"const {type_} {node.name} = {total};")


def _clear(kernel: CudaKernel, node: WarpRows) -> None:
    """Nothing has been joined."""
    fill = kernel.expressions.print(node.fill, node.name)
    on_lanes(kernel, node.columns.step, f"sum[lane] = {fill};")


def _of_step(what: str) -> str:
    """What the lane knows that has the step at hand."""
    return f"__shfl_sync({WHOLE_WARP}, {what}, step + ahead)"


def _is_early(base: MadeLanes) -> bool:
    """Whether memory is read, which is worth asking for early, at each point of a row; not where
    costly functions are made of it."""
    nodes = list(every_node(base.code))
    return any(isinstance(node, Load) for node in nodes) and not costly_arithmetic(nodes)


def _chunks(kernel: CudaKernel, node: WarpRows) -> str:
    """How many warps share the columns of a row."""
    return kernel.sizes.parameter("chunks", node.chunks)
