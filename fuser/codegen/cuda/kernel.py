"""A kernel of CUDA while it is printed: what follows from its nest, what surrounds a node."""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count

from fuser.codegen.launch_bounds import launch_bounds
from fuser.codegen.printer import KernelPrinter, Surroundings
from fuser.codegen.target import CUDA
from fuser.ir.dtypes import DataType
from fuser.schedule.cuda_parameters import WARP
from fuser.schedule.indices.index import Axis, Index, Variable
from fuser.schedule.indices.rewrites import terms_in
from fuser.schedule.tree.bindings import Binding, Team
from fuser.schedule.tree.loop_nest import LoopNest
from fuser.schedule.tree.loop_tree import Loop, Region, every_node
from fuser.schedule.tree.row_statements import (
    Finish,
    FinishPowers,
    OwnSlots,
    RowArray,
    shared_parts_bytes,
)
from fuser.schedule.tree.statements import Load, reads_in
from fuser.segmenter import Segment


@dataclass(frozen=True, slots=True)
class CudaSurroundings(Surroundings):
    """What the loops and regions around a node say of it."""

    sharing: Loop | None = None
    """The loop in which threads have points of their own, so that all of them store."""
    in_rows: bool = False
    """Whether a row is at hand, rather than all of them."""
    row: str = "0"
    """The number of the row at hand."""
    row_axes: tuple[Axis, ...] = ()
    """The axes that number it."""
    thread: str = "thread"
    """The number of a thread: in its team or, when all rows are done, in its block."""
    alone: bool = False
    """Whether one of the threads that do a row is at hand, rather than all of them."""
    held: frozenset[str] = frozenset()
    """Folds over the rows of which a thread has the lanes at hand in registers."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What follows from the nest of a kernel."""

    team: Team | None
    """Who does a row; None of points."""
    threads: int
    """Of a team, in one block."""
    columns: int
    """Side by side in a block, where a team does a column."""
    block_threads: int
    is_split: bool
    """Whether several blocks do a row."""
    in_cluster: bool
    """Whether these are a cluster."""
    may_idle: bool
    """Whether threads without a row stay for those of others, which they exchange with."""
    has_several: bool
    """Whether a block has several teams that are no warps, which do not wait for each other."""
    joins: int
    """How often these join what their threads have of a row."""
    folds: frozenset[str]
    """Folds over the rows."""
    own: Mapping[str, OwnSlots]
    """Those of which threads keep their slots in registers."""
    parts_in_shared: bool
    """Whether blocks have their slots of the others in shared memory."""
    arrays: Mapping[str, RowArray]
    """What a row keeps between sweeps."""
    repeated: frozenset[Load]
    """What rows have in common, and each is to read again."""

    @property
    def warps(self) -> int:
        """Of a block."""
        return self.block_threads // WARP

    @property
    def exchanged_bytes(self) -> int:
        """Of an exchange of a number each by the threads of a block, or of one each by warps."""
        return 8 * (self.block_threads if self.team is Team.COLUMN else self.warps)


def facts_of(nest: LoopNest) -> Facts:
    """What printers ask of a nest again and again."""
    (x, y, _), team = nest.launch.block, nest.team
    nodes = list(every_node(nest.body))
    rows = next((node for node in nodes if isinstance(node, Region)), Region((), (), ()))
    own = {own.partial.name: own for own in rows.own}
    others = [p for p in rows.partials if p.slots > 1 and p.name not in own]
    return Facts(
        team,
        threads=y if team is Team.COLUMN else x,
        columns=x,
        block_threads=math.prod(nest.launch.block),
        is_split=nest.launch.grid[1] > 1,
        in_cluster=nest.launch.cluster > 1,
        may_idle=team is Team.COLUMN or (team is Team.WARP and 1 < x < WARP),
        has_several=team is Team.BLOCK and y > 1,
        joins=_joins_of_row(rows),
        folds=frozenset(partial.name for partial in rows.partials),
        own=own,
        parts_in_shared=bool(others) and shared_parts_bytes(others) > 0,
        arrays={node.name: node for node in nodes if isinstance(node, RowArray)},
        repeated=frozenset(_repeated(nest, rows)),
    )


def _repeated(nest: LoopNest, region: Region) -> Iterator[Load]:
    """What rows have in common, where some rounds of each row are sure to read it. A compiler would
    read it before the first row and hold it in registers: a team mostly has one row."""
    if nest.team not in (Team.WARP, Team.COLUMN) or region.partials:
        return
    loops = [node for node in every_node(region.body) if isinstance(node, Loop)]
    rows = {loop.axis for loop in loops if loop.binding is Binding.TEAMS}
    for loop in loops:
        if rows and loop.binding is Binding.TEAM and loop.rounds > 1 and not loop.peel:
            yield from (load for load in reads_in(loop.body) if _is_apart(load.at, rows))


def _is_apart(at: Index, axes: Collection[Axis]) -> bool:
    """Whether an index does not depend on axes, or on what is computed."""
    return not any(term in axes or isinstance(term, Variable) for term in terms_in(at))


def _joins_of_row(region: Region) -> int:
    """How many results a row has that all threads of its team need; 1 if loops make more of them:
    then the team joins again before it does anything else."""
    inner = [node for node in every_node(region.body) if isinstance(node, Loop)]
    looped = [loop for loop in inner if loop.binding is not Binding.TEAMS]
    results = Finish | FinishPowers
    if any(isinstance(node, results) for loop in looped for node in every_node(loop.body)):
        return 1
    return sum(isinstance(node, results) for node in every_node(region.body))


class CudaKernel(KernelPrinter[CudaSurroundings]):
    """`extern "C" __global__ void name(...)`, with workspaces where blocks join their results.

    Functions print nodes to it, a module for each topic; a subclass says which function prints
    which node. `around` changes by `within` only.
    """

    target = CUDA

    def __init__(self, segment: Segment, nest: LoopNest, *, reports_indices: bool = False) -> None:
        super().__init__(segment, nest, CudaSurroundings())
        self.facts = facts_of(nest)
        self.reports_indices = reports_indices
        """Whether an index out of range is an error, rather than 0."""
        self.rooms = count()
        """In which teams of a block join, each exchange in another."""
        self.peeled: set[str] = set()
        """Axes of which the text has the ends."""

    def signature(self, parameters: str) -> str:
        launch = self.nest.launch
        resident = launch.resident if self.facts.team is not None else None
        head = f'extern "C" __global__ void {launch_bounds(launch.max_threads, resident)}'
        if self.facts.in_cluster:
            head += f" __cluster_dims__(1, {launch.cluster}, 1)"
        return f"{head}\n{self.nest.name}({parameters})"

    @property
    def is_split(self) -> bool:
        """Whether several blocks do the points at hand of a row, rather than a part each."""
        return self.facts.is_split and not self.around.ranges

    def read_at(self, load: Load, at: str) -> str:
        """The index at which a thread reads what is at `at`."""
        return f"{at} + zero_of_row" if load in self.facts.repeated else at

    def memory_joiner(self, operation: str, dtype: DataType, owner: str) -> str:
        """`joiner`; of sums, which memory knows by itself, what tells it so."""
        if operation == "add":
            return f"{self.expressions.use('adding')}{{}}"
        return self.joiner(operation, dtype, owner)

    def unrolled(self, name: str, count: int) -> AbstractContextManager[None]:
        """Print, meanwhile, what is done for each number below `count`, a number of the text."""
        self.out.line("#pragma unroll")
        return self.out.block(f"for (int {name} = 0; {name} < {count}; ++{name})")

    @contextmanager
    def sharing(self, loop: Loop) -> Generator[None]:
        """Print, meanwhile, what threads do with points of their own, and with lanes of them."""
        known = set(self.expressions.lane_arrays)
        with self.within(sharing=loop):
            yield
        self.expressions.lane_arrays.intersection_update(known)
