"""C++ for lists of points on the CPU target.

Of lists `L`, `L_rows` has the row of every point; the points of row r are elements `L_first[r]` to
`L_first[r + 1] - 1` of `L_points`.
"""

from __future__ import annotations

from typing import assert_never

from fuser.codegen.cpu.kernel import CpuKernel
from fuser.codegen.indices import if_place_exists
from fuser.codegen.kernel_source import Workspace
from fuser.ir.dtypes import DataType
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import Ref, join
from fuser.schedule.tree.loop_tree import Loop, Node, every_node
from fuser.schedule.tree.row_statements import KeepAt
from fuser.schedule.tree.scatter_nodes import (
    IfBelow,
    IfListed,
    ListLoop,
    ListNode,
    PointLists,
    PointOf,
    UnlistedRows,
    WhichPoints,
)

_SHARES, _MOST_SHARED = 64, 256
"""Rows with lists are shared out in so many shares, or more if these are too large: rows have more
points or fewer. What is asked for at the end of a share is another thread's."""


def shares(kernel: CpuKernel, loop: Loop) -> str:
    """How threads share out the iterations of a loop, if not evenly."""
    if not _has_lists(loop.body):
        return ""
    if loop.binding is Binding.BLOCKS:
        return " schedule(dynamic)"
    return f" schedule(dynamic, {_rows_shared(kernel, loop)})"


def block_size(kernel: CpuKernel, loop: Loop) -> str:
    """How many elements a block of a loop has, the last but for what is left."""
    return _rows_shared(kernel, loop) if _has_lists(loop.body) else str(loop.step)


def _rows_shared(kernel: CpuKernel, loop: Loop) -> str:
    share = max(1, min(_MOST_SHARED, loop.axis.extent // _SHARES))
    return kernel.sizes.parameter("rows_shared", share)


def list_node(kernel: CpuKernel, node: ListNode) -> None:
    """Print what is done with lists of points."""
    match node:
        case PointLists():
            _make_lists(kernel, node)
        case PointOf():
            _point_of(kernel, node)
        case IfListed():
            _if_listed(kernel, node)
        case UnlistedRows():
            _unlisted_rows(kernel, node)
        case ListLoop():
            _each_point(kernel, node)
        case IfBelow():
            _if_below(kernel, node)
        case _:
            assert_never(node)


def keep_at(kernel: CpuKernel, node: KeepAt) -> None:
    """An element of a row, put in its place or joined to what is there."""
    element = f"{node.name}_row[{kernel.sizes.index(node.at, node.name)}]"
    source = node.source
    if node.joins is not None:
        source = join(node.joins, Ref(element, node.dtype), source)
    with if_place_exists(kernel, node.at):
        kernel.out.line(f"{element} = {kernel.expressions.print(source, node.name)};")


def _make_lists(kernel: CpuKernel, node: PointLists) -> None:
    """The points that go to each row."""
    name = node.name
    points = kernel.sizes.parameter(f"{name}_points_count", node.points)
    rows = kernel.sizes.parameter(f"{name}_rows_count", node.rows)
    counts = {"rows": node.points, "points": node.points, "first": node.rows + 2}
    for part, count in counts.items():
        kernel.workspaces.append(Workspace(f"{name}_{part}", DataType.Int32, count))
    kernel.expressions.type(DataType.Int32)
    kernel.nodes(node.body)
    call = f"{kernel.expressions.use('list_points')}({name}_rows, {points}, {rows}"
    kernel.out.line(f"{call}, {name}_first, {name}_points);")


def _point_of(kernel: CpuKernel, node: PointOf) -> None:
    """The row that a point goes to."""
    at = kernel.sizes.index(node.at, f"{node.lists}_number")
    row = kernel.sizes.index(node.row, node.lists)
    kernel.out.line(f"{node.lists}_rows[{at}] = int({row});")


def _if_listed(kernel: CpuKernel, node: IfListed) -> None:
    """What is done with a row, by how many points go there."""
    name, row = node.lists, kernel.sizes.index(node.row, node.lists)
    first, end = f"{name}_first[{row}]", f"{name}_first[{row} + 1]"
    kernel.out.line(f"const int first_listed = {first}, end_listed = {end};")
    with kernel.out.block("if (first_listed == end_listed)"):
        kernel.nodes(node.otherwise)
    if node.one:
        with kernel.out.block("else if (first_listed + 1 == end_listed)"):
            kernel.nodes(node.one)
    with kernel.out.block("else"):
        kernel.nodes(node.body)


def _unlisted_rows(kernel: CpuKernel, node: UnlistedRows) -> None:
    """What is done with a row without points and those that follow it."""
    (_, end), row = kernel.range_of(node.row), kernel.sizes.axis(node.row)
    columns = kernel.sizes.parameter(f"{node.lists}_columns", node.columns)
    kernel.out.line(f"const {kernel.index} unlisted = {row};")
    following = f"{row} + 1 < {end} && {node.lists}_first[{row} + 2] == end_listed"
    kernel.out.line(f"while ({following}) ++{row};")
    with kernel.in_range(node.axis, f"unlisted * {columns}", f"({row} + 1) * {columns}"):
        kernel.nodes(node.body)


def _each_point(kernel: CpuKernel, node: ListLoop) -> None:
    """What is done with points that go to the row at hand."""
    name = node.lists
    others = "for (int listed = first_listed + 1; listed < end_listed; ++listed)"
    with kernel.out.block(others if node.which is WhichPoints.OTHERS else ""):
        if node.which is not WhichPoints.OTHERS:
            only = "first_listed" if node.which is WhichPoints.FIRST else "end_listed - 1"
            kernel.out.line(f"const int listed = {only};")
        kernel.out.line(f"const long long {node.name} = {name}_points[listed];")
        if node.later:
            ahead = kernel.sizes.parameter(f"{name}_ahead", node.ahead)
            inside = f"listed + {ahead} < {name}_points_count ? listed + {ahead} : listed"
            kernel.out.line(f"const long long {node.later} = {name}_points[{inside}];")
        kernel.nodes(node.body)


def _if_below(kernel: CpuKernel, node: IfBelow) -> None:
    """What is done with points of one tensor, and with those of others."""
    end = kernel.sizes.parameter(f"{node.name}_end", node.end)
    with kernel.scope(f"if ({node.name} < {end})"):
        kernel.nodes(node.body)
    with kernel.scope("else"):
        kernel.nodes(node.otherwise)


def _has_lists(nodes: tuple[Node, ...]) -> bool:
    return any(isinstance(node, IfListed) for node in every_node(nodes))
