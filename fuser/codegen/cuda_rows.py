"""CUDA C++ for rows: what each block folds over its rows, and what the last one makes of that."""

from __future__ import annotations

import math

from fuser.codegen.cuda import grouped
from fuser.codegen.cuda_slots import CudaSlotPrinter, joins_of_row
from fuser.codegen.launch_bounds import launch_bounds
from fuser.schedule.bindings import Team
from fuser.schedule.counts import ceil_div, power_of_two
from fuser.schedule.expressions import Ref
from fuser.schedule.index import ZERO, Index, substitute
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import Loop, Region
from fuser.schedule.row_slots import shared_parts_bytes
from fuser.schedule.row_statements import Accumulate, Finish, Partial
from fuser.segmenter import Segment

_GROUP = 16
"""Blocks whose folds over the rows are joined before those of all groups are: about as many as
there are groups then."""

_BLOCK_WORDS, _THREAD_WORDS, _THREAD_LOADS = 1 << 14, 32, 16
"""The most that is asked for before the first is joined: a quarter of a block's registers, half of
a thread's, in which every load has an address too."""


class CudaRowPrinter(CudaSlotPrinter):
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
        self._joins = joins_of_row(node)
        self._place_thread_in_team()
        if self._team is not Team.GRID:
            self._shared_memory()
        if self.nest.launch.shared_bytes:
            self.out.line("extern __shared__ __align__(16) unsigned char row_memory[];")
        self._own = {own.partial.name: own for own in node.own}
        arrays = [p for p in node.partials if p.slots > 1 and p.name not in self._own]
        self._parts_in_shared = bool(arrays) and shared_parts_bytes(arrays) > 0
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
        elif partial.name in self._own:
            held += self._own_slot(partial.name)
        elif partial.slots > 1:
            held += f"[{self.sizes.index(node.at, partial.name)}]"
        conditions = [] if self._sharing or self._is_alone() else [self._is_first()]
        if self._may_idle and partial.name in self._kept_over_rows:
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
        if partial.name in self._own:
            self._declare_own(self._own[partial.name])
            return
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
        return self._over_slots(partial, self._team_threads(), 1)

    def _over_slots(self, partial: Partial, threads: int, lanes: int) -> str:
        """A loop in which `threads` take neighbouring slots."""
        slots = self.sizes.parameter(f"{partial.name}_slots", partial.slots)
        first = self._thread if lanes == 1 else f"{self._thread} * {lanes}"
        head = f"slot = {first}; slot < {slots}; slot += {threads * lanes}"
        return f"for ({self.index} {head})"

    def _over_lanes(self, loop: Loop) -> None:
        """Lanes of a fold over the rows that lie together are read and written at once."""
        folds = (node for node in loop.body if isinstance(node, Accumulate))
        others = (node for node in folds if node.partial.name not in self._own)
        together = [node for node in others if self._is_vector(node, loop)]
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
        arrays = [partial for partial in node.partials if partial.slots > 1]
        if self._has_several:
            self.out.line("__syncthreads();")
        if node.own:
            self._leave_own(node.own)
        if self._team in (Team.WARP, Team.COLUMN) or self._has_several:
            x, _, _ = self.nest.launch.block
            self._thread = "block_thread"
            self.out.line(f"const int block_thread = threadIdx.y * {x} + threadIdx.x;")
        for partial in node.partials:
            if partial.slots == 1:
                self.out.line(f"{partial.name}_part = {self._over_block(partial)};")
                own = f"{partial.name}_parts[{self._block()}] = {partial.name}_part"
                self.out.line(f"if ({self._thread} == 0) {own};")
        if arrays:
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
        counters = ceil_div(self.nest.launch.grid[0], _GROUP) + 1
        counter = f"finished + blockIdx.x / {_GROUP}"
        self._leave_unless_last(counter, "group_end - group", counters)
        self._join_parts(arrays, "int part = group; part < group_end; ++part", "group")
        call = f"{self.expressions.use('last_to_finish')}(finished + groups, groups, &is_last)"
        self.out.line(f"if (!{call}) return;")
        self._join_parts(arrays, f"int part = 0; part < gridDim.x; part += {_GROUP}", "0")
        self.out.line("__syncthreads();")

    def _join_parts(self, arrays: list[Partial], parts: str, to: str) -> None:
        """Several blocks' parts, in their order; what all have comes where those of one were."""
        kinds = dict.fromkeys((partial.slots, partial.kept.itemsize) for partial in arrays)
        for slots, size in kinds:
            alike = [p for p in arrays if (p.slots, p.kept.itemsize) == (slots, size)]
            self._join_alike(alike, parts, to)

    def _join_alike(self, arrays: list[Partial], parts: str, to: str) -> None:
        """Up to 16 bytes of slots at once; fewer, but 8, where these leave threads without any."""
        first, threads = arrays[0], math.prod(self.nest.launch.block)
        size = first.kept.itemsize
        lanes = max(16 // size, 1) if size >= 4 and first.slots * size % 16 == 0 else 1
        while lanes > 1 and lanes * size > 8 and 2 * power_of_two(first.slots) <= threads * lanes:
            lanes //= 2
        words = lanes * max(size // 4, 1)
        most = min(_BLOCK_WORDS // threads, _THREAD_WORDS)
        each = min(_THREAD_LOADS, most // words)
        unroll = max(each // len(arrays), 1)
        with self.out.block(self._over_slots(first, threads, lanes)):
            for partial in arrays:
                type_, fill = self.expressions.type(partial.kept), self._fill(partial)
                fills = ", ".join([fill] * lanes)
                self.out.line(f"{type_} {partial.name}[{lanes}] = {{{fills}}};")
            self.out.line(f"#pragma unroll {unroll}")
            with self.out.block(f"for ({parts})"):
                self._join_lanes(arrays, lanes)
            store = self.expressions.use("store_vector")
            for partial in arrays:
                place = f"{partial.name}_parts + {self._slot_of(to, partial, 'slot')}"
                self.out.line(f"{store}({partial.name}, {place});")

    def _join_lanes(self, arrays: list[Partial], lanes: int) -> None:
        read = self.expressions.use("parts_at")
        for partial in arrays:
            type_, name = self.expressions.type(partial.kept), partial.name
            self.out.line(f"{type_} {name}_given[{lanes}];")
            place = f"{name}_parts + {self._slot_of('part', partial, 'slot')}"
            self.out.line(f"{read}({name}_given, {place});")
        self.out.line("#pragma unroll")
        with self.out.block(f"for (int lane = 0; lane < {lanes}; ++lane)"):
            for partial in arrays:
                held, given = f"{partial.name}[lane]", f"{partial.name}_given[lane]"
                joined = self._joined(partial, held, Ref(given, partial.kept))
                self.out.line(f"{held} = {joined};")

    def _finish_scalar(self, partial: Partial) -> None:
        threads = math.prod(self.nest.launch.block)
        self._gather_parts(partial, self._blocks(), threads, f"{partial.name}_parts + part")
        type_ = self.expressions.type(partial.dtype)
        self.out.line(f"const {type_} {partial.name} = {self._over_block(partial)};")

    def _finish_slot(self, partial: Partial, at: Index) -> None:
        slot, name = self.sizes.index(at, partial.name), partial.name
        type_ = self.expressions.type(partial.dtype)
        part = f"{self.expressions.use('part_at')}({name}_parts + {grouped(slot)})"
        self.out.line(f"const {type_} {name} = {part};")
