"""CUDA C++ for rows: a team of threads for each, folds joined by shuffles and shared memory."""

from __future__ import annotations

import math

from fuser.codegen.cuda_points import CudaPointPrinter
from fuser.codegen.kernel_source import Workspace
from fuser.ir.dtypes import DataType
from fuser.schedule.emit import convert
from fuser.schedule.index import ZERO, Index, substitute
from fuser.schedule.loop_tree import (
    Accumulate,
    Call,
    Expression,
    Finish,
    Loop,
    LoopNest,
    Partial,
    Ref,
    Region,
    Team,
)
from fuser.schedule.row_teams import PARTS_BYTES
from fuser.segmenter import Segment

_GROUP = 32
"""Blocks whose folds over the rows are joined before those of all groups are."""


class CudaRowPrinter(CudaPointPrinter):
    """`extern "C" __global__ void name(...)`, with workspaces where blocks join their results.

    `part` is what a thread or a block has of a fold; `parts`, those of all blocks.
    """

    def __init__(self, segment: Segment, nest: LoopNest) -> None:
        super().__init__(segment, nest)
        self._parts_in_shared = False
        self._held: set[str] = set()
        """Folds over the rows of which a thread has its lanes in registers."""

    def signature(self, parameters: str) -> str:
        # One block at least: left alone, ptxas may spill registers to run more of them at once.
        bound = f"{self.nest.launch.max_threads}, 1"
        head = f'extern "C" __global__ void __launch_bounds__({bound})'
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
        room = sum(_power_of_two(array.slots) * array.kept.itemsize for array in arrays)
        self._parts_in_shared = room <= PARTS_BYTES
        for partial in node.partials:
            self._own_part(partial)
        if arrays:
            self.out.line("__syncthreads();")
        self._all(node.body)
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
        line = f"{held} = {self._joined(partial, held, node.value)};"
        self.out.line(line if self._sharing else f"if ({self._is_first()}) {line}")

    def finish(self, node: Finish) -> None:
        if self._in_rows:
            self._finish_row(node.partial)
        elif node.partial.slots == 1:
            self._finish_scalar(node.partial)
        else:
            self._finish_slot(node.partial, node.at)

    # -- folds of a row --------------------------------------------------------------------------

    def _fold_row(self, node: Region) -> None:
        for partial in node.partials:
            type_ = self.expressions.type(partial.kept)
            self.out.line(f"{type_} {partial.name}_part = {self._fill(partial)};")
        self._all(node.body)
        if self._is_split and not self._in_cluster:
            self._join_blocks_of_row(node)
        self._all(node.epilogue)

    def _join_blocks_of_row(self, node: Region) -> None:
        """Each block leaves its part; the last one joins them, and goes on with the row."""
        _, parts, _ = self.nest.launch.grid
        rows = math.prod(axis.extent for axis in self._row_axes)
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
        count = math.prod(axis.extent for axis in self._row_axes)
        rows = self.sizes.parameter("rows_kept", count)
        return f"{self._index}({block}) * {rows} + {self._row}"

    def _finish_row(self, partial: Partial) -> None:
        type_ = self.expressions.type(partial.dtype)
        self.out.line(f"const {type_} {partial.name} = {self._over_team(partial)};")

    def _over_team(self, partial: Partial) -> str:
        """The parts of a team's threads as one, in all of them."""
        if self._team is Team.WARP:
            return (
                f"{self.expressions.use('join_warp')}({partial.name}_part, {self._join(partial)})"
            )
        if self._team is Team.COLUMN:
            _, y, _ = self.nest.launch.block
            call = f"{self.expressions.use('join_column')}<{y}>"
            return f"{call}({partial.name}_part, {self._join(partial)}, shared)"
        return self._over_cluster(partial) if self._in_cluster else self._over_block(partial)

    def _over_cluster(self, partial: Partial) -> str:
        warps = math.prod(self.nest.launch.block) // 32
        call = f"{self.expressions.use('join_cluster')}<{self.nest.launch.cluster}, {warps}>"
        return f"{call}({partial.name}_part, {self._join(partial)}, cluster_shared, turn)"

    def _over_block(self, partial: Partial) -> str:
        warps = math.prod(self.nest.launch.block) // 32
        call = f"{self.expressions.use('join_block')}<{warps}>"
        return f"{call}({partial.name}_part, {self._join(partial)}, shared)"

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
            room = _power_of_two(partial.slots)
            self.out.line(f"alignas(16) __shared__ {type_} {name}_part[{room}];")
        else:
            own = f"{name}_parts + {self._slot_of('blockIdx.x', partial, '0')}"
            self.out.line(f"{type_}* {self.target.restrict} const {name}_part = {own};")
        self.out.line(f"{self._each_slot(partial)} {name}_part[slot] = {fill};")

    def _slot_of(self, block: str, partial: Partial, slot: str) -> str:
        """Where a slot of a block lies among those of all blocks."""
        slots = self.sizes.parameter(f"{partial.name}_slots", partial.slots)
        first = f"{self._index}({block}) * {slots}"
        return first if slot == "0" else f"{first} + {slot}"

    def _each_slot(self, partial: Partial) -> str:
        slots = self.sizes.parameter(f"{partial.name}_slots", partial.slots)
        head = f"slot = thread; slot < {slots}; slot += {self._team_threads()}"
        return f"for ({self._index} {head})"

    def _over_lanes(self, loop: Loop) -> None:
        """Lanes of a fold over the rows that lie together are read and written at once."""
        together = [n for n in loop.body if isinstance(n, Accumulate) and self._is_vector(n, loop)]
        lanes, places = loop.axis.extent, list[tuple[str, str]]()
        for node in together:
            name, type_ = node.partial.name, self.expressions.type(node.partial.kept)
            first = substitute(node.at, {loop.axis: ZERO})
            place = f"&{name}_part[{self.sizes.index(first, name)}]"
            self.out.line(f"{type_} {name}_held[{lanes}];")
            self._move("load", f"{name}_held", place, lanes)
            places.append((f"{name}_held", place))
            self._held.add(name)
        super()._over_lanes(loop)
        for held, place in places:
            self._move("store", held, place, lanes)
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
        if self._team is Team.WARP:
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
        self._all(node.epilogue)

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

    def _gather_parts(self, partial: Partial, count: str, threads: int, at: str) -> None:
        """The parts that blocks have left, on the threads of a team."""
        held = f"{partial.name}_part"
        part = f"{self.expressions.use('part_at')}({at})"
        joined = self._joined(partial, held, Ref(part, partial.kept))
        self.out.line(f"{held} = {self._fill(partial)};")
        head = f"int part = {self._thread}; part < {count}; part += {threads}"
        self.out.line(f"for ({head}) {held} = {joined};")

    def _leave_unless_last(self, counter: str, blocks: str, counters: int) -> None:
        self._workspace("finished", DataType.Int32, counters, zeroed=True)
        self.out.line("__shared__ bool is_last;")
        call = f"{self.expressions.use('last_to_finish')}({counter}, {blocks}, &is_last)"
        self.out.line(f"if (!{call}) return;")

    def _workspace(
        self, name: str, dtype: DataType, elements: int, *, zeroed: bool = False
    ) -> None:
        self.workspaces.append(Workspace(name, dtype, elements, zeroed))

    def _fill(self, partial: Partial) -> str:
        return self.expressions.print(partial.fill, partial.name)

    def _joined(self, partial: Partial, held: str, value: Expression) -> str:
        """What `held` is with one more value."""
        operands = Ref(held, partial.kept), convert(value, partial.kept)
        return self.expressions.print(Call(partial.operation, operands, partial.kept), partial.name)

    def _join(self, partial: Partial) -> str:
        """A function that joins two parts."""
        type_ = self.expressions.type(partial.kept)
        joined = self._joined(partial, "x", Ref("y", partial.kept))
        return f"[]({type_} x, {type_} y) {{ return {joined}; }}"


def _power_of_two(count: int) -> int:
    """The smallest that is not below `count`: sizes of shared memory are part of the text."""
    return 1 << (count - 1).bit_length()
