"""CUDA C++ for teams of threads: which rows a team takes, and which thread acts for it."""

from __future__ import annotations

import math

from fuser.codegen.cuda import CudaPrinter
from fuser.schedule.index import Axis
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import Binding, CheckedIndex, Loop, Store, Team
from fuser.segmenter import Segment


class CudaTeamPrinter(CudaPrinter):
    """Loops over rows. `thread` numbers the threads of a team in a block."""

    def __init__(self, segment: Segment, nest: LoopNest, *, reports_indices: bool = False) -> None:
        super().__init__(segment, nest)
        assert nest.team is not None
        self._reports_indices = reports_indices
        """Whether an index out of range is an error, rather than 0."""
        self._team = nest.team
        self._is_split = nest.launch.grid[1] > 1
        """Whether several blocks do a row."""
        self._in_cluster = nest.launch.cluster > 1
        """Whether these are a cluster."""
        self._in_rows = False
        """Whether a row is at hand, rather than all of them."""
        self._sharing: Loop | None = None
        """The loop in which threads have points of their own, so that all of them store."""
        self._row = "0"
        self._row_axes: list[Axis] = []
        self._thread = "thread"

    def loop(self, loop: Loop) -> None:
        match loop.binding:
            case Binding.TEAMS:
                self._over_rows(loop)
            case _:
                name, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
                with self.out.block(f"for ({self.index} {name} = 0; {name} < {extent}; ++{name})"):
                    self.nodes(loop.body)

    def checked_index(self, node: CheckedIndex) -> None:
        """An index that is 0 where it is out of range."""
        name = f"{node.name}[lane]" if node.in_lanes else f"const long long {node.name}"
        if self._reports_indices and node.reports:
            self.out.line(f"{name} = {self.reported_index(node)};")
            return
        self.out.line(f"{name} = {self.index_in_range(node)};")

    def store(self, store: Store) -> None:
        conditions = ["active"] if self._in_rows and self._team is Team.COLUMN else []
        if not self._sharing:
            conditions.append(self._is_first())
        if not conditions:
            super().store(store)
            return
        with self.out.block(f"if ({' && '.join(conditions)})"):
            super().store(store)

    def _is_first(self) -> str:
        """Whether this thread does what is done once for the row, or once at the end."""
        if self._in_rows and self._in_cluster:
            return f"{self._thread} == 0 && blockIdx.y == 0"
        return f"{self._thread} == 0"

    def _place_thread_in_team(self) -> None:
        x, _, _ = self.nest.launch.block
        match self._team:
            case Team.WARP | Team.BLOCK:
                thread = "int thread = threadIdx.x"
            case Team.COLUMN:
                thread = "int thread = threadIdx.y"
            case Team.GRID:
                thread = f"{self.index} thread = {self.index}(blockIdx.x) * {x} + threadIdx.x"
        self.out.line(f"const {thread};")

    def _shared_memory(self) -> None:
        """Room in which threads of a block exchange a number each, or warps one each."""
        x, y, _ = self.nest.launch.block
        count = x * y if self._team is Team.COLUMN else x * y // 32
        self.out.line(f"alignas(8) __shared__ unsigned char shared[{8 * count}];")
        if self._in_cluster:
            count *= 2 * self.nest.launch.cluster
            self.out.line(f"__shared__ unsigned long long cluster_shared[{count}];")
            self.out.line("int turn = 0;")
            self.out.line(f"{self.expressions.use('meet_cluster')}();")

    def _over_rows(self, loop: Loop) -> None:
        """A team takes every so many rows; its threads stay together."""
        nest = nest_of(loop)
        name = self.sizes.axis(loop.axis) if len(nest) == 1 else "row"
        rows = self._count("rows", nest)
        _, y, _ = self.nest.launch.block
        self._row, self._row_axes = name, [each.axis for each in nest]
        block = f"{self.index}(blockIdx.x)"
        if self._team is Team.COLUMN:
            head = f"tile = {block} * 32; tile < {rows}; tile += gridDim.x * 32"
        elif self._team is Team.WARP:
            first = f"{block} * {y} + threadIdx.y"
            head = f"{name} = {first}; {name} < {rows}; {name} += gridDim.x * {y}"
        else:
            head = f"{name} = {block}; {name} < {rows}; {name} += gridDim.x"
        with self.out.block(f"for ({self.index} {head})"):
            if self._team is Team.COLUMN:
                self.out.line(f"const bool active = tile + {self.index}(threadIdx.x) < {rows};")
                place = f"active ? tile + {self.index}(threadIdx.x) : {rows} - 1"
                self.out.line(f"const {self.index} {name} = {place};")
            self._unravel(nest, name)
            self.nodes(nest[-1].body)

    def _team_threads(self) -> int:
        x, y, _ = self.nest.launch.block
        return y if self._team is Team.COLUMN else x

    def _count(self, name: str, nest: list[Loop]) -> str:
        """The name of the number of iterations of a nest, all steps of them."""
        if len(nest) == 1:
            return self.sizes.extent(nest[0].axis)
        return self.sizes.parameter(name, math.prod(n.axis.extent // n.step for n in nest))

    def _unravel(self, nest: list[Loop], number: str) -> None:
        """The indices of a nest from the number of its iteration."""
        if len(nest) == 1:
            return
        self.out.line(f"{self.index} left = {number};")
        for loop in reversed(nest[1:]):
            name, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
            scale = ""
            if loop.step > 1:
                count = loop.axis.extent // loop.step
                extent = self.sizes.parameter(f"{extent}_by_{loop.step}", count)
                scale = f" * {loop.step}"
            self.out.line(f"const {self.index} {name} = left % {extent}{scale};")
            self.out.line(f"left /= {extent};")
        self.out.line(f"const {self.index} {self.sizes.axis(nest[0].axis)} = left;")


def nest_of(loop: Loop) -> list[Loop]:
    """A loop and the loops inside it that the same threads share out."""
    nest = [loop]
    while True:
        inside = nest[-1].body[0]
        if not isinstance(inside, Loop) or inside.binding is not loop.binding:
            return nest
        nest.append(inside)
