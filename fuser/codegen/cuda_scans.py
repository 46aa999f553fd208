"""CUDA C++ for scans: the rounds of a team, or a part of a row for every block."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import assert_never

from fuser.codegen.cuda_folds import CudaFoldPrinter
from fuser.ir.dtypes import DataType
from fuser.schedule.bindings import Binding, Team
from fuser.schedule.loop_tree import (
    IfListed,
    IfPastCache,
    ListLoop,
    Loop,
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


class CudaScanPrinter(CudaFoldPrinter):
    """`carry` is what came before the points at hand, the same in all threads of a team."""

    def loop(self, loop: Loop) -> None:
        if loop.binding is Binding.SCAN:
            self._in_order(loop)
        else:
            super().loop(loop)

    def row_node(self, node: RowNode) -> None:
        match node:
            case CheckedIndex():
                self.checked_index(node)
            case Keep() | Kept() | RowArray():
                self.row_array(node)
            case Region():
                self.region(node)
            case Accumulate():
                self.accumulate(node)
            case Finish():
                self.finish(node)
            case FinishPowers():
                self.finish_powers(node)
            case Carry() | ScanLanes() | Share():
                self.scan(node)
            case RowTile() | RowOfTile() | Combine() | KeepLanes() | JoinGroups() | Widen():
                super().row_node(node)
            case (
                Raise()
                | KeepAt()
                | PointLists()
                | PointOf()
                | IfListed()
                | UnlistedRows()
                | ListLoop()
            ):
                super().row_node(node)
            case IfPastCache() | WarpPoints() | WarpElements():
                super().row_node(node)
            case _:
                assert_never(node)

    @abstractmethod
    def region(self, node: Region) -> None:
        """The rows, and what is done when all are."""

    @abstractmethod
    def accumulate(self, node: Accumulate) -> None:
        """One more value of a fold over the rows."""

    @abstractmethod
    def finish(self, node: Finish) -> None:
        """A result of a fold over the rows."""

    def scan(self, node: Carry | ScanLanes | Share) -> None:
        """What goes on from point to point of a row."""
        match node:
            case Carry():
                fill = self.expressions.print(node.fill, node.name)
                self._declare_carry(node, fill)
            case ScanLanes():
                self._scan_lanes(node)
            case Share():
                self._share(node)

    def _in_order(self, loop: Loop) -> None:
        """Rounds in which the lanes of the team's threads follow each other; all threads take part
        in each, so that they meet."""
        name = self.sizes.axis(loop.axis)
        begin, end = self._part or ("0", self.sizes.extent(loop.axis))
        known = set(self.expressions.lane_arrays)
        round_, step = f"{name}_round", self._team_threads() * loop.step
        head = f"{self.index} {round_} = {begin}; {round_} < {end}; {round_} += {step}"
        own = self._thread if loop.step == 1 else f"{self._thread} * {loop.step}"
        with self.out.block(f"for ({head})"):
            self.out.line(f"const {self.index} {name} = {round_} + {own};")
            self._sharing = loop
            self.nodes(loop.body)
            self._sharing = None
        self.expressions.lane_arrays.intersection_update(known)

    def _declare_carry(self, carry: Carry, value: str) -> None:
        self.out.line(f"{self.expressions.type(carry.dtype)} {carry.name} = {value};")

    def _scan_lanes(self, node: ScanLanes) -> None:
        _, y, _ = self.nest.launch.block
        warps = math.prod(self.nest.launch.block) // 32
        given = f"{node.array}, {node.carry.name}, {self._carry_joiner(node.carry)}"
        match self._team:
            case Team.WARP:
                call = f"{self.expressions.use('scan_warp')}({given})"
            case Team.COLUMN:
                call = f"{self.expressions.use('scan_column')}<{y}>({given}, shared)"
            case Team.BLOCK | Team.GRID:
                call = f"{self.expressions.use('scan_block')}<{warps}>({given}, shared)"
        self.out.line(f"{call};")

    def _carry_joiner(self, carry: Carry) -> str:
        """A function that joins what comes later to what came before."""
        return self.joiner(carry.operation, carry.dtype, carry.name)

    # -- parts of a row --------------------------------------------------------------------------

    def _share(self, node: Share) -> None:
        """Each block takes a part, leaves its total, and goes on from the totals before it."""
        rows, parts, _ = self.nest.launch.grid
        extent = self.sizes.extent(node.axis)
        self._workspace("taken", DataType.Int32, rows, zeroed=True)
        self._workspace("ready", DataType.Int32, rows * parts, zeroed=True)
        share = self.sizes.parameter("share", node.step)
        take = self.expressions.use("take_part")
        self.out.line(f"const {self.index} part = {take}(taken + blockIdx.x);")
        self.out.line(f"const {self.index} begin = part * {share};")
        end = f"begin + {share} < {extent} ? begin + {share} : {extent}"
        self.out.line(f"const {self.index} end = {end};")
        self._part, self._is_split = ("begin", "end"), False
        self.nodes(node.totals)
        of_row = "blockIdx.x * gridDim.y"
        for carry in node.carries:
            self._workspace(f"{carry.total}s", carry.dtype, rows * parts)
            left = f"{carry.total}s[{of_row} + part] = {carry.total};"
            self.out.line(f"if ({self._thread} == 0) {left}")
        hand, wait = map(self.expressions.use, ("hand_on", "wait_for_parts"))
        self.out.line(f"{hand}(ready + {of_row}, part);")
        self.out.line(f"{wait}(ready + {of_row}, part);")
        for carry in node.carries:
            self._declare_carry(carry, self._carry_to_part(carry, of_row))
        self.nodes(node.body)
        self._part, self._is_split = None, True

    def _carry_to_part(self, carry: Carry, of_row: str) -> str:
        warps = math.prod(self.nest.launch.block) // 32
        none = self.expressions.print(carry.fill, carry.name)
        call = f"{self.expressions.use('carry_to_part')}<{warps}>"
        return (
            f"{call}({carry.total}s + {of_row}, part, {none}, {self._carry_joiner(carry)}, shared)"
        )
