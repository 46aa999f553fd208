"""CUDA C++ for folds of a row, over all threads that share it.

Lanes join by shuffles, warps through shared memory, the blocks of a cluster through that of each
other, and other blocks through a workspace.
"""

from __future__ import annotations

import math

from fuser.codegen.cuda_points import CudaPointPrinter
from fuser.codegen.kernel_source import Workspace
from fuser.ir.dtypes import DataType
from fuser.schedule.bindings import Team
from fuser.schedule.counts import point_count
from fuser.schedule.emit import join
from fuser.schedule.expressions import Expression, Ref
from fuser.schedule.loop_tree import Region
from fuser.schedule.names import part_name
from fuser.schedule.row_statements import FinishPowers, Partial


class CudaFoldPrinter(CudaPointPrinter):
    """`part` is what a thread or a block has of a fold; `parts`, those of all blocks."""

    def _fold_row(self, node: Region) -> None:
        for partial in node.partials:
            type_ = self.expressions.type(partial.kept)
            self.out.line(f"{type_} {partial.name}_part = {self._fill(partial)};")
        self.nodes(node.body)
        if self._is_split and not self._in_cluster:
            self._join_blocks_of_row(node)
        self.nodes(node.epilogue)

    def _join_blocks_of_row(self, node: Region) -> None:
        """Each block leaves its part; the last one joins them, and goes on with the row."""
        _, parts, _ = self.nest.launch.grid
        rows = point_count(self._row_axes)
        writer = "active && thread == 0" if self._team is Team.COLUMN else "thread == 0"
        for partial in node.partials:
            part = f"{partial.name}_part"
            self._workspace(f"{part}s", partial.kept, parts * rows)
            self.out.line(f"{part} = {self._over_team(partial)};")
            self.out.line(f"if ({writer}) {part}s[{self._part_of_row('blockIdx.y')}] = {part};")
        self._leave_unless_last("finished + blockIdx.x", "gridDim.y", self.nest.launch.grid[0])
        for partial in node.partials:
            at = f"{partial.name}_parts + {self._part_of_row('part')}"
            self._gather_parts(partial, "gridDim.y", self._team_threads(), at)

    def _part_of_row(self, block: str) -> str:
        """Where the part of a block lies among those of all blocks and rows."""
        if not self._row_axes:
            return block
        count = point_count(self._row_axes)
        rows = self.sizes.parameter("rows_kept", count)
        return f"{self.index}({block}) * {rows} + {self._row}"

    def _finish_row(self, partial: Partial) -> None:
        type_ = self.expressions.type(partial.dtype)
        self.out.line(f"const {type_} {partial.name} = {self._over_team(partial)};")

    def finish_powers(self, node: FinishPowers) -> None:
        """A row's largest number and its sum of powers, of what the threads have of both."""
        powers = f"{node.sum.name}_powers"
        own = f"{{{node.own.name}, {part_name(node.sum.name)}}}"
        warps = math.prod(self.nest.launch.block) // 32
        if self._in_cluster:
            join = self.expressions.use("join_cluster_powers")
            call = f"{join}<{self.nest.launch.cluster}, {warps}>({own}, mail, joined)"
        else:
            call = f"{self.expressions.use('join_block_powers')}<{warps}>({own}, shared)"
        self.out.line(f"const powers {powers} = {call};")
        for partial, member in ((node.largest, "largest"), (node.sum, "sum")):
            type_ = self.expressions.type(partial.dtype)
            self.out.line(f"const {type_} {partial.name} = {powers}.{member};")

    def _over_team(self, partial: Partial) -> str:
        """The parts of a team's threads as one, in all of them."""
        if self._team is Team.WARP:
            return self._over_lanes_of_warp(partial)
        if self._team is Team.COLUMN:
            _, y, _ = self.nest.launch.block
            call = f"{self.expressions.use('join_column')}<{y}>"
            return f"{call}({partial.name}_part, {self._joiner(partial)}, shared)"
        if self._has_several:
            again, place = self._next_room()
            call = f"{self.expressions.use('join_team')}<{self._team_threads() // 32}, {again}>"
            return f"{call}({partial.name}_part, {self._joiner(partial)}, {place})"
        return self._over_cluster(partial) if self._in_cluster else self._over_block(partial)

    def _over_lanes_of_warp(self, partial: Partial) -> str:
        part, lanes = f"{partial.name}_part", self._team_threads()
        if lanes == 1:
            return part
        call = "join_warp" if lanes == 32 else "join_lanes"
        count = "" if lanes == 32 else f"<{lanes}>"
        return f"{self.expressions.use(call)}{count}({part}, {self._joiner(partial)})"

    def _next_room(self) -> tuple[str, str]:
        """Where several teams of a block join next, each its own; whether they do so again before
        they meet elsewhere, which is not so if a row has other joins, with rooms of their own."""
        if self._joins == 1:
            return "true", "shared"
        place = f"shared + {self._joined_so_far * self._exchanged_bytes()}"
        self._joined_so_far += 1
        return "false", place

    def _over_cluster(self, partial: Partial) -> str:
        warps = math.prod(self.nest.launch.block) // 32
        call = f"{self.expressions.use('join_cluster')}<{self.nest.launch.cluster}, {warps}>"
        return f"{call}({partial.name}_part, {self._joiner(partial)}, mail, joined)"

    def _over_block(self, partial: Partial) -> str:
        warps = math.prod(self.nest.launch.block) // 32
        call = f"{self.expressions.use('join_block')}<{warps}>"
        return f"{call}({partial.name}_part, {self._joiner(partial)}, shared)"

    # -- parts -----------------------------------------------------------------------------------

    def _gather_parts(self, partial: Partial, count: str, threads: int, at: str) -> None:
        """The parts that blocks have left, on the threads of a team."""
        held = f"{partial.name}_part"
        part = f"{self.expressions.use('part_at')}({at})"
        joined = self._joined(partial, held, Ref(part, partial.kept))
        self.out.line(f"{held} = {self._fill(partial)};")
        head = f"int part = {self._thread}; part < {count}; part += {threads}"
        self.out.line(f"for ({head}) {held} = {joined};")

    def _leave_unless_last(self, counter: str, blocks: str, counters: int) -> None:
        self._workspace("finished", DataType.Int32, counters, zeroed=True, restored=True)
        self.out.line("__shared__ bool is_last;")
        call = f"{self.expressions.use('last_to_finish')}({counter}, {blocks}, &is_last)"
        self.out.line(f"if (!{call}) return;")

    def _workspace(
        self,
        name: str,
        dtype: DataType,
        elements: int,
        *,
        zeroed: bool = False,
        restored: bool = False,
    ) -> None:
        self.workspaces.append(Workspace(name, dtype, elements, zeroed, restored))

    def _fill(self, partial: Partial) -> str:
        return self.expressions.print(partial.fill, partial.name)

    def _joined(self, partial: Partial, held: str, value: Expression) -> str:
        """What `held` is with one more value."""
        joined = join(partial.operation, Ref(held, partial.kept), value)
        return self.expressions.print(joined, partial.name)

    def _joiner(self, partial: Partial) -> str:
        """A function that joins two parts."""
        return self.joiner(partial.operation, partial.kept, partial.name)
