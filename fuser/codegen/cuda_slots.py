"""CUDA C++ for slots of folds over the rows that threads keep in registers until all are done."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from fuser.codegen.cuda_scans import CudaScanPrinter
from fuser.schedule.bindings import Binding
from fuser.schedule.counts import power_of_two
from fuser.schedule.expressions import Ref
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import Loop, Region, every_node
from fuser.schedule.row_statements import Finish, FinishPowers, OwnSlots
from fuser.segmenter import Segment


class CudaSlotPrinter(CudaScanPrinter):
    """`part` is what a thread has of a fold; `parts`, those of all blocks; `of_block`, in shared
    memory, what all teams of this one have."""

    def __init__(self, segment: Segment, nest: LoopNest, *, reports_indices: bool = False) -> None:
        super().__init__(segment, nest, reports_indices=reports_indices)
        self._own: dict[str, OwnSlots] = {}
        """Folds over the rows of which threads keep their slots."""

    def _declare_own(self, own: OwnSlots) -> None:
        """Nothing yet."""
        name, type_ = f"{own.partial.name}_part", self.expressions.type(own.partial.kept)
        self.out.line(f"{type_} {name}[{own.rounds}][{own.lanes}];")
        self.out.line("#pragma unroll")
        place = f"{name}[i / {own.lanes}][i % {own.lanes}]"
        head = f"for (int i = 0; i < {own.rounds * own.lanes}; ++i)"
        self.out.line(f"{head} {place} = {self._fill(own.partial)};")

    def _own_slot(self, name: str) -> str:
        """Which of its slots of a fold a thread has at hand."""
        return "[round][lane]" if self._own[name].lanes > 1 else "[round][0]"

    def _leave_own(self, own: Sequence[OwnSlots]) -> None:
        """What all rows of this block have, to where blocks leave their parts."""
        if self._has_several:
            self._join_teams(own)
            return
        with self._each_own(own[0]) as first:
            for each in own:
                self._leave_slots(each, f"{self._parts_of_block(each)} + {first}")

    def _parts_of_block(self, own: OwnSlots) -> str:
        """Where the parts of this block begin."""
        name = own.partial.name
        slots = self.sizes.parameter(f"{name}_slots", own.partial.slots)
        return f"{name}_parts + {self.index}(blockIdx.x) * {slots}"

    def _join_teams(self, own: Sequence[OwnSlots]) -> None:
        """One team after the other adds what it has; then the block leaves that."""
        x, y, _ = self.nest.launch.block
        for each in own:
            type_, room = self.expressions.type(each.partial.kept), power_of_two(each.partial.slots)
            self.out.line(f"alignas(16) __shared__ {type_} {each.partial.name}_of_block[{room}];")
        with self.out.block(f"for (int team = 0; team < {y}; ++team)"):
            with self.out.block("if (threadIdx.y == team)"), self._each_own(own[0]) as first:
                for each in own:
                    place = f"&{each.partial.name}_of_block[{first}]"
                    with self.out.block("if (team > 0)"):
                        self._join_own(each, place)
                    self._move_own("store", each, f"{each.partial.name}_part[round]", place)
            self.out.line("__syncthreads();")
        start = f"threadIdx.y * {x} + thread"
        for each in own:
            slots = self.sizes.parameter(f"{each.partial.name}_slots", each.partial.slots)
            head = f"{self.index} slot = {start}; slot < {slots}; slot += {x * y}"
            to = f"({self._parts_of_block(each)})[slot]"
            self.out.line(f"for ({head}) {to} = {each.partial.name}_of_block[slot];")

    def _join_own(self, own: OwnSlots, place: str) -> None:
        """What the teams before have, joined to what this one has."""
        partial, part = own.partial, f"{own.partial.name}_part[round]"
        type_, before = self.expressions.type(partial.kept), f"{partial.name}_before"
        self.out.line(f"{type_} {before}[{own.lanes}];")
        self._move_own("load", own, before, place)
        self.out.line("#pragma unroll")
        joined = self._joined(partial, f"{before}[lane]", Ref(f"{part}[lane]", partial.kept))
        head = f"for (int lane = 0; lane < {own.lanes}; ++lane)"
        self.out.line(f"{head} {part}[lane] = {joined};")

    @contextmanager
    def _each_own(self, own: OwnSlots) -> Generator[str]:
        """A loop over a thread's slots, in rounds; the number of the first of each."""
        name, count = self.sizes.axis(own.axis), self.sizes.extent(own.axis)
        number = f"round * {self._team_threads()} + thread"
        first = number if own.lanes == 1 else f"({number}) * {own.lanes}"
        self.out.line("#pragma unroll")
        with self.out.block(f"for (int round = 0; round < {own.rounds}; ++round)"):
            self.out.line(f"const {self.index} {name} = {first};")
            self.out.line(f"if ({name} >= {count}) continue;")
            yield name

    def _leave_slots(self, own: OwnSlots, place: str) -> None:
        """A thread's slots of a round, to memory that may not be aligned."""
        part, size = f"{own.partial.name}_part[round]", own.partial.kept.itemsize
        if own.partial.slots * size % min(own.lanes * size, 16) == 0:
            self._move_own("store", own, part, place)
            return
        self.out.line("#pragma unroll")
        with self.out.block(f"for (int lane = 0; lane < {own.lanes}; ++lane)"):
            valid = f"{self.sizes.extent(own.axis)} - {self.sizes.axis(own.axis)}"
            condition = "" if self._is_whole(own) else f"if (lane < {valid}) "
            self.out.line(f"{condition}({place})[lane] = {part}[lane];")

    def _move_own(self, verb: str, own: OwnSlots, lanes: str, place: str) -> None:
        """Between lanes and memory that is aligned."""
        whole = self._is_whole(own)
        self._sharing = Loop(own.axis, Binding.TEAM, (), own.lanes, own.rounds, whole)
        self._move(verb, lanes, place)
        self._sharing = None

    def _is_whole(self, own: OwnSlots) -> bool:
        return own.axis.extent % own.lanes == 0


def joins_of_row(region: Region) -> int:
    """How many results a row has that all threads of its team need; 1 if loops make more of them:
    then the team joins again before it does anything else."""
    inner = [node for node in every_node(region.body) if isinstance(node, Loop)]
    looped = [loop for loop in inner if loop.binding is not Binding.TEAMS]
    results = Finish | FinishPowers
    if any(isinstance(node, results) for loop in looped for node in every_node(loop.body)):
        return 1
    return sum(isinstance(node, results) for node in every_node(region.body))
