"""CUDA C++ for rows: what each block folds over its rows, and what the last one makes of that."""

from __future__ import annotations

import math

from fuser.codegen.cuda_scans import CudaScanPrinter
from fuser.codegen.launch_bounds import launch_bounds
from fuser.schedule.counts import power_of_two
from fuser.schedule.index import ZERO, Index, substitute
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import (
    Accumulate,
    Finish,
    Loop,
    Partial,
    Ref,
    Region,
    Team,
)
from fuser.schedule.row_slots import shared_parts_bytes
from fuser.segmenter import Segment

_GROUP = 32
"""Blocks whose folds over the rows are joined before those of all groups are."""


class CudaRowPrinter(CudaScanPrinter):
    """`extern "C" __global__ void name(...)`, with workspaces where blocks join their results.

    `part` is what a thread or a block has of a fold; `parts`, those of all blocks.
    """

    def __init__(self, segment: Segment, nest: LoopNest, *, reports_indices: bool = False) -> None:
        super().__init__(segment, nest, reports_indices=reports_indices)
        self._parts_in_shared = False
        self._kept_over_rows: set[str] = set()
        """Folds over the rows."""
        self._held: set[str] = set()
        """Folds over the rows of which a thread has its lanes in registers."""

    def signature(self, parameters: str) -> str:
        launch = self.nest.launch
        head = f'extern "C" __global__ void {launch_bounds(launch.max_threads, launch.resident)}'
        if self._in_cluster:
            head += f" __cluster_dims__(1, {self.nest.launch.cluster}, 1)"
        return f"{head}\n{self.nest.name}({parameters})"

    def region(self, node: Region) -> None:
        if self._in_rows:
            self._fold_row(node)
            return
        self._in_rows = True
        self._place_thread_in_team()
        if self._team is not Team.GRID:
            self._shared_memory()
        if self.nest.launch.shared_bytes:
            self.out.line("extern __shared__ __align__(16) unsigned char row_memory[];")
        arrays = [partial for partial in node.partials if partial.slots > 1]
        self._parts_in_shared = shared_parts_bytes(node.partials) > 0
        self._kept_over_rows.update(partial.name for partial in node.partials)
        for partial in node.partials:
            self._own_part(partial)
        if arrays:
            self.out.line("__syncthreads();")
        self.nodes(node.body)
        self._in_rows = False
        if node.partials:
            self._finish_rows(node)

    def accumulate(self, node: Accumulate) -> None:
        partial = node.partial
        held = f"{partial.name}_part"
        if partial.name in self._held:
            held = f"{partial.name}_held[lane]"
        elif partial.slots > 1:
            held += f"[{self.sizes.index(node.at, partial.name)}]"
        conditions = [] if self._sharing else [self._is_first()]
        if self._team is Team.COLUMN and partial.name in self._kept_over_rows:
            conditions.append("active")
        line = f"{held} = {self._joined(partial, held, node.value)};"
        self.out.line(f"if ({' && '.join(conditions)}) {line}" if conditions else line)

    def finish(self, node: Finish) -> None:
        if self._in_rows:
            self._finish_row(node.partial)
        elif node.partial.slots == 1:
            self._finish_scalar(node.partial)
        else:
            self._finish_slot(node.partial, node.at)

    # -- folds over the rows ---------------------------------------------------------------------

    def _own_part(self, partial: Partial) -> None:
        """What this thread, or this block, has of a fold over the rows: nothing yet."""
        type_, name = self.expressions.type(partial.kept), partial.name
        blocks = math.prod(self.nest.launch.grid)
        self._workspace(f"{name}_parts", partial.kept, blocks * partial.slots)
        fill = self._fill(partial)
        if partial.slots == 1:
            self.out.line(f"{type_} {name}_part = {fill};")
            return
        if self._parts_in_shared:
            room = power_of_two(partial.slots)
            self.out.line(f"alignas(16) __shared__ {type_} {name}_part[{room}];")
        else:
            own = f"{name}_parts + {self._slot_of('blockIdx.x', partial, '0')}"
            self.out.line(f"{type_}* {self.target.restrict} const {name}_part = {own};")
        self.out.line(f"{self._each_slot(partial)} {name}_part[slot] = {fill};")

    def _slot_of(self, block: str, partial: Partial, slot: str) -> str:
        """Where a slot of a block lies among those of all blocks."""
        slots = self.sizes.parameter(f"{partial.name}_slots", partial.slots)
        first = f"{self.index}({block}) * {slots}"
        return first if slot == "0" else f"{first} + {slot}"

    def _each_slot(self, partial: Partial) -> str:
        slots = self.sizes.parameter(f"{partial.name}_slots", partial.slots)
        head = f"slot = thread; slot < {slots}; slot += {self._team_threads()}"
        return f"for ({self.index} {head})"

    def _over_lanes(self, loop: Loop) -> None:
        """Lanes of a fold over the rows that lie together are read and written at once."""
        together = [n for n in loop.body if isinstance(n, Accumulate) and self._is_vector(n, loop)]
        lanes, places = loop.axis.extent, list[tuple[str, str]]()
        for node in together:
            name, type_ = node.partial.name, self.expressions.type(node.partial.kept)
            first = substitute(node.at, {loop.axis: ZERO})
            place = f"&{name}_part[{self.sizes.index(first, name)}]"
            self.out.line(f"{type_} {name}_held[{lanes}];")
            self._move("load", f"{name}_held", place)
            places.append((f"{name}_held", place))
            self._held.add(name)
        super()._over_lanes(loop)
        for held, place in places:
            self._move("store", held, place)
        self._held.clear()

    def _is_vector(self, node: Accumulate, loop: Loop) -> bool:
        """Whether the lanes of a fold are neighbours, and aligned as vector accesses need it."""
        assert self._sharing is not None
        size = node.partial.kept.itemsize
        wanted = min(loop.axis.extent * size, 16)
        inner = (loop.axis, self._sharing.axis)
        steps = [step for term, step in node.at.terms if term not in inner]
        steps += [] if self._parts_in_shared else [node.partial.slots]
        aligned = all(step * size % wanted == 0 for step in (*steps, node.at.constant))
        return aligned and all(node.at.coefficient(axis) == 1 for axis in inner)

    def _finish_rows(self, node: Region) -> None:
        """Each block leaves its parts; the last one joins them, and does the epilogue."""
        if self._team in (Team.WARP, Team.COLUMN):
            self._thread = "block_thread"
            self.out.line("const int block_thread = threadIdx.y * 32 + threadIdx.x;")
        for partial in node.partials:
            if partial.slots == 1:
                self.out.line(f"{partial.name}_part = {self._over_block(partial)};")
                own = f"{partial.name}_parts[{self._block()}] = {partial.name}_part"
                self.out.line(f"if ({self._thread} == 0) {own};")
        if arrays := [partial for partial in node.partials if partial.slots > 1]:
            self._join_groups(arrays)
        else:
            self._leave_unless_last("finished", self._blocks(), 1)
        self.nodes(node.epilogue)

    def _block(self) -> str:
        """The number of this block, of all."""
        return "blockIdx.x * gridDim.y + blockIdx.y" if self._in_cluster else "blockIdx.x"

    def _blocks(self) -> str:
        return "gridDim.x * gridDim.y" if self._in_cluster else "gridDim.x"

    def _join_groups(self, arrays: list[Partial]) -> None:
        """The last block of every few joins their parts, and the last of all what that leaves."""
        if self._parts_in_shared:
            self.out.line("__syncthreads();")
            for partial in arrays:
                to = f"{partial.name}_parts[{self._slot_of('blockIdx.x', partial, 'slot')}]"
                self.out.line(f"{self._each_slot(partial)} {to} = {partial.name}_part[slot];")
        self.out.line(f"const int group = blockIdx.x / {_GROUP} * {_GROUP};")
        self.out.line(f"const int groups = (gridDim.x + {_GROUP - 1}) / {_GROUP};")
        end = f"group + {_GROUP} < gridDim.x ? group + {_GROUP} : gridDim.x"
        self.out.line(f"const int group_end = {end};")
        counters = -(-self.nest.launch.grid[0] // _GROUP) + 1
        counter = f"finished + blockIdx.x / {_GROUP}"
        self._leave_unless_last(counter, "group_end - group", counters)
        for partial in arrays:
            with self.out.block(self._each_slot(partial)):
                self._join_parts(partial, "slot", "int part = group; part < group_end; ++part")
                to = f"{partial.name}_parts[{self._slot_of('group', partial, 'slot')}]"
                self.out.line(f"{to} = {partial.name};")
        call = f"{self.expressions.use('last_to_finish')}(finished + groups, groups, &is_last)"
        self.out.line(f"if (!{call}) return;")

    def _finish_scalar(self, partial: Partial) -> None:
        threads = math.prod(self.nest.launch.block)
        self._gather_parts(partial, self._blocks(), threads, f"{partial.name}_parts + part")
        type_ = self.expressions.type(partial.dtype)
        self.out.line(f"const {type_} {partial.name} = {self._over_block(partial)};")

    def _finish_slot(self, partial: Partial, at: Index) -> None:
        slot = self.sizes.index(at, partial.name)
        self._join_parts(partial, slot, f"int part = 0; part < gridDim.x; part += {_GROUP}")

    def _join_parts(self, partial: Partial, slot: str, parts: str) -> None:
        """One slot of several blocks' parts, in their order."""
        type_, name = self.expressions.type(partial.kept), partial.name
        at = f"{name}_parts + {self._slot_of('part', partial, slot)}"
        part = f"{self.expressions.use('part_at')}({at})"
        self.out.line(f"{type_} {name} = {self._fill(partial)};")
        self.out.line("#pragma unroll 8")
        joined = self._joined(partial, name, Ref(part, partial.kept))
        self.out.line(f"for ({parts}) {name} = {joined};")
