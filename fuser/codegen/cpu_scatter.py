"""C++ for scatters on the CPU target."""

from __future__ import annotations

from typing import assert_never

from fuser.codegen.cpu_rows import CpuRowPrinter
from fuser.codegen.kernel_source import Workspace
from fuser.ir.dtypes import DataType
from fuser.schedule.bindings import Binding
from fuser.schedule.emit import join
from fuser.schedule.expressions import Ref
from fuser.schedule.loop_tree import (
    IfListed,
    ListLoop,
    Loop,
    Node,
    PointLists,
    PointOf,
    RowNode,
    UnlistedRows,
    WhichPoints,
    every_node,
)
from fuser.schedule.row_statements import KeepAt
from fuser.schedule.statements import Store

_SHARES, _MOST_SHARED = 64, 256
"""Rows with lists are shared out in so many shares, or more if these are too large: rows have more
points or fewer. What is asked for at the end of a share is another thread's."""


class CpuScatterPrinter(CpuRowPrinter):
    """`extern "C" void name(..., const bool threaded)`.

    `rows` has the row of every point; the points of row r are elements `first[r]` to
    `first[r + 1] - 1` of `points`.
    """

    def store(self, store: Store) -> None:
        with self.if_place_exists(store.at):
            super().store(store)

    def row_node(self, node: RowNode) -> None:
        match node:
            case PointLists() | PointOf() | IfListed() | UnlistedRows() | ListLoop():
                self.lists(node)
            case KeepAt():
                self._keep_at(node)
            case _:
                super().row_node(node)

    def lists(self, node: PointLists | PointOf | IfListed | UnlistedRows | ListLoop) -> None:
        """The points that go to one row, or what is done with them."""
        match node:
            case PointLists():
                self._make_lists(node)
            case PointOf():
                at = self.sizes.index(node.at, f"{node.lists}_number")
                row = self.sizes.index(node.row, node.lists)
                self.out.line(f"{node.lists}_rows[{at}] = int({row});")
            case IfListed():
                self._if_listed(node)
            case UnlistedRows():
                self._unlisted_rows(node)
            case ListLoop():
                self._each_point(node)
            case _:
                assert_never(node)

    def shares(self, loop: Loop) -> str:
        if not _has_lists(loop.body):
            return ""
        if loop.binding is Binding.BLOCKS:
            return " schedule(dynamic)"
        return f" schedule(dynamic, {self._rows_shared(loop)})"

    def block_size(self, loop: Loop) -> str:
        return self._rows_shared(loop) if _has_lists(loop.body) else super().block_size(loop)

    def _rows_shared(self, loop: Loop) -> str:
        share = max(1, min(_MOST_SHARED, loop.axis.extent // _SHARES))
        return self.sizes.parameter("rows_shared", share)

    def _keep_at(self, node: KeepAt) -> None:
        element = f"{node.name}_row[{self.sizes.index(node.at, node.name)}]"
        source = node.source
        if node.joins is not None:
            source = join(node.joins, Ref(element, node.dtype), source)
        self.out.line(f"{element} = {self.expressions.print(source, node.name)};")

    def _make_lists(self, node: PointLists) -> None:
        name = node.name
        points = self.sizes.parameter(f"{name}_points_count", node.points)
        rows = self.sizes.parameter(f"{name}_rows_count", node.rows)
        counts = {"rows": node.points, "points": node.points, "first": node.rows + 2}
        for part, count in counts.items():
            self.workspaces.append(Workspace(f"{name}_{part}", DataType.Int32, count))
        self.expressions.type(DataType.Int32)
        self.nodes(node.body)
        call = f"{self.expressions.use('list_points')}({name}_rows, {points}, {rows}"
        self.out.line(f"{call}, {name}_first, {name}_points);")

    def _if_listed(self, node: IfListed) -> None:
        name, row = node.lists, self.sizes.index(node.row, node.lists)
        first, end = f"{name}_first[{row}]", f"{name}_first[{row} + 1]"
        self.out.line(f"const int first_listed = {first}, end_listed = {end};")
        with self.out.block("if (first_listed == end_listed)"):
            self.nodes(node.otherwise)
        if node.one:
            with self.out.block("else if (first_listed + 1 == end_listed)"):
                self.nodes(node.one)
        with self.out.block("else"):
            self.nodes(node.body)

    def _unlisted_rows(self, node: UnlistedRows) -> None:
        (_, end), row = self.range_of(node.row), self.sizes.axis(node.row)
        columns = self.sizes.parameter(f"{node.lists}_columns", node.columns)
        self.out.line(f"const {self.index} unlisted = {row};")
        following = f"{row} + 1 < {end} && {node.lists}_first[{row} + 2] == end_listed"
        self.out.line(f"while ({following}) ++{row};")
        with self.in_range(node.axis, f"unlisted * {columns}", f"({row} + 1) * {columns}"):
            self.nodes(node.body)

    def _each_point(self, node: ListLoop) -> None:
        name = node.lists
        others = "for (int listed = first_listed + 1; listed < end_listed; ++listed)"
        with self.out.block(others if node.which is WhichPoints.OTHERS else ""):
            if node.which is not WhichPoints.OTHERS:
                only = "first_listed" if node.which is WhichPoints.FIRST else "end_listed - 1"
                self.out.line(f"const int listed = {only};")
            self.out.line(f"const long long {node.name} = {name}_points[listed];")
            if node.later:
                ahead = self.sizes.parameter(f"{name}_ahead", node.ahead)
                inside = f"listed + {ahead} < {name}_points_count ? listed + {ahead} : listed"
                self.out.line(f"const long long {node.later} = {name}_points[{inside}];")
            self.nodes(node.body)


def _has_lists(nodes: tuple[Node, ...]) -> bool:
    return any(isinstance(node, IfListed) for node in every_node(nodes))
