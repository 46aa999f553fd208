"""CUDA C++ for teams of threads: which rows a team takes, and which thread acts for it."""

from __future__ import annotations

import math

from fuser.codegen.cuda import CudaPrinter
from fuser.schedule.bindings import Binding, Team
from fuser.schedule.index import Axis
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import Loop, every_node
from fuser.schedule.statements import CheckedIndex, Store
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
        self._may_idle = self._team is Team.COLUMN or (
            self._team is Team.WARP and 1 < nest.launch.block[0] < 32
        )
        """Whether threads without a row stay for those of others, which they exchange with."""
        self._has_several = self._team is Team.BLOCK and nest.launch.block[1] > 1
        """Whether a block has several teams that are no warps, which do not wait for each other."""
        self._joins = 1
        """How often these join what their threads have of a row."""
        self._joined_so_far = 0
        self._in_rows = False
        """Whether a row is at hand, rather than all of them."""
        self._row = "0"
        self._row_axes: list[Axis] = []
        self._thread = "thread"

    def loop(self, loop: Loop) -> None:
        match loop.binding:
            case Binding.TEAMS:
                self._over_rows(loop)
            case _:
                name, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
                if loop.rounds:
                    self.out.line("#pragma unroll")
                most = loop.rounds or extent
                with self.out.block(f"for ({self.index} {name} = 0; {name} < {most}; ++{name})"):
                    if loop.rounds:
                        self.out.line(f"if ({name} >= {extent}) continue;")
                    self.nodes(loop.body)

    def checked_index(self, node: CheckedIndex) -> None:
        """An index that is another number where it is out of range. That of a row that is not
        there, which may be made of what nothing was folded to, is not reported."""
        name = f"{node.name}[lane]" if node.in_lanes else f"const long long {node.name}"
        index = self.index_in_range(node)
        if self._reports_indices and node.reports:
            idles = self._in_rows and self._may_idle
            reported = self.reported_index(node)
            index = f"active ? {reported} : {index}" if idles else reported
        self.out.line(f"{name} = {index};")

    def store(self, store: Store) -> None:
        conditions = ["active"] if self._in_rows and self._may_idle else []
        if not self._sharing and not self._is_alone():
            conditions.append(self._is_first())
        if not conditions:
            super().store(store)
            return
        with self.out.block(f"if ({' && '.join(conditions)})"):
            super().store(store)

    def _is_alone(self) -> bool:
        """Whether this thread does a row without others."""
        return self._in_rows and self._team_threads() == 1

    def _is_first(self) -> str:
        """Whether this thread does what is done once for the row, or once at the end."""
        if self._in_rows and self._in_cluster:
            return f"{self._thread} == 0 && blockIdx.y == 0"
        return f"{self._thread} == 0"

    def _place_thread_in_team(self) -> None:
        x, _, _ = self.nest.launch.block
        match self._team:
            case Team.WARP | Team.BLOCK:
                thread = "int thread = threadIdx.x" if x > 1 else "int thread = 0"
            case Team.COLUMN:
                thread = "int thread = threadIdx.y"
            case Team.GRID:  # the rounds of a block are next to each other
                points = x * self._rounds()
                thread = f"{self.index} thread = {self.index}(blockIdx.x) * {points} + threadIdx.x"
        self.out.line(f"const {thread};")

    def _rounds(self) -> int:
        """The most that a loop shared out over threads has in the text; 1 if it says none."""
        loops = (node for node in every_node(self.nest.body) if isinstance(node, Loop))
        return max([1, *(loop.rounds for loop in loops if loop.binding is Binding.TEAM)])

    def _shared_memory(self) -> None:
        """Room in which threads of a block exchange a number each, or warps one each."""
        rooms = max(self._joins, 1) if self._has_several else 1
        nbytes = rooms * self._exchanged_bytes()
        self.out.line(f"alignas(8) __shared__ unsigned char shared[{nbytes}];")
        if self._in_cluster and self._joins:
            warps = self.nest.launch.cluster * self._exchanged_bytes() // 8
            self.out.line(f"__shared__ {self.expressions.use('cluster_mail')}<{warps}> mail;")
            self.out.line("unsigned int joined = 0;")
            self.out.line(f"{self.expressions.use('open_barriers')}(mail.barriers);")

    def _exchanged_bytes(self) -> int:
        """Of one such exchange, by all threads of a block."""
        x, y, _ = self.nest.launch.block
        return 8 * (x * y if self._team is Team.COLUMN else x * y // 32)

    def _over_rows(self, loop: Loop) -> None:
        """A team takes every so many rows; its threads stay together."""
        nest = nest_of(loop)
        name = self.sizes.axis(loop.axis) if len(nest) == 1 else "row"
        rows = self._count("rows", nest)
        _, y, _ = self.nest.launch.block
        self._row, self._row_axes = name, [each.axis for each in nest]
        block = f"{self.index}(blockIdx.x)"
        place = f"tile + {self.index}(threadIdx.x)"
        if self._team is Team.COLUMN:
            head = f"tile = {block} * 32; tile < {rows}; tile += gridDim.x * 32"
        elif self._may_idle:
            of_warp = 32 // self._team_threads()
            place = f"tile + {self.index}(threadIdx.y % {of_warp})"
            first = f"{block} * {y} + threadIdx.y / {of_warp} * {of_warp}"
            head = f"tile = {first}; tile < {rows}; tile += gridDim.x * {y}"
        elif self._has_several:  # what is left after whole rounds is for all blocks
            first = f"{self.index}(threadIdx.y) * gridDim.x + blockIdx.x"
            head = f"{name} = {first}; {name} < {rows}; {name} += gridDim.x * {y}"
        elif self._team is Team.WARP:
            first = f"{block} * {y} + threadIdx.y"
            head = f"{name} = {first}; {name} < {rows}; {name} += gridDim.x * {y}"
        else:
            head = f"{name} = {block}; {name} < {rows}; {name} += gridDim.x"
        with self.out.block(f"for ({self.index} {head})"):
            if self._may_idle:
                self.out.line(f"const bool active = {place} < {rows};")
                self.out.line(f"const {self.index} {name} = active ? {place} : {rows} - 1;")
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
