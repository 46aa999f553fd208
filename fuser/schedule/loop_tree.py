"""The loop tree: what a kernel does, independent of how any target spells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Number, Value
from fuser.ir.random_numbers import COST
from fuser.schedule.index import Axis, Index

# -- scalar expressions --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ref:
    """A named value: a load's or let's result, or a scalar parameter."""

    name: str
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Literal:
    value: Number
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Convert:
    of: Expression
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A row of the pointwise table on operands that have its compute types."""

    op: str
    args: tuple[Expression, ...]
    dtype: DataType


@dataclass(frozen=True, slots=True)
class SizeValue:
    """A number that follows from sizes: a parameter, not part of the text."""

    number: int
    dtype: DataType


@dataclass(frozen=True, slots=True)
class IndexValue:
    """An index as a number."""

    index: Index
    dtype: DataType


Expression = Ref | Literal | SizeValue | Convert | Call | IndexValue


# -- statements ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Drawn:
    """Random numbers of a distribution, by a seed and an offset."""

    distribution: str
    seed: Expression
    offset: Expression

    @property
    def cost(self) -> int:
        """Instructions for one of them, roughly."""
        return COST[self.distribution]


@dataclass(frozen=True, slots=True)
class Load:
    """`name` = `lanes` consecutive elements of `tensor` from element `at`.

    What is `drawn` is computed from its number, `at`, instead of read. With `in_lanes`, one element
    into an array that `Lanes` declared. `piece` is how many of the lanes an access may move, 0 for
    as many as it can.
    """

    name: str
    tensor: Value
    at: Index
    lanes: int = 1
    in_lanes: bool = False
    piece: int = 0
    drawn: Drawn | None = None


@dataclass(frozen=True, slots=True)
class Let:
    """`name` = expression. With `in_lanes`, one element of an array that `Lanes` declared."""

    name: str
    dtype: DataType
    expression: Expression
    in_lanes: bool = False


@dataclass(frozen=True, slots=True)
class Store:
    """`lanes` consecutive elements of `tensor` from element `at` = source; `piece` as of a load.

    With `joins`, what is there joined to the source by that pointwise operation.
    """

    tensor: Value
    at: Index
    source: Expression
    lanes: int = 1
    piece: int = 0
    joins: str | None = None


@dataclass(frozen=True, slots=True)
class TileRoom:
    """Declares room for a tile: elements of a type for each step of both `TILED` loops at hand.

    The outer loop goes from column to column, the inner one from line to line. Lines are what is
    computed; memory holds columns.
    """

    name: str
    dtype: DataType


@dataclass(frozen=True, slots=True)
class FillTile:
    """`tile` = elements of `tensor`, those of a column consecutive from element `at` on, up to
    `moved` of them at once."""

    tile: str
    tensor: Value
    at: Index
    moved: int = 1


@dataclass(frozen=True, slots=True)
class DrainTile:
    """Elements of `tensor` = `tile`, as `FillTile` reads them; perhaps past the cache."""

    tile: str
    tensor: Value
    at: Index
    moved: int = 1
    past_cache: bool = False


@dataclass(frozen=True, slots=True)
class TileLine:
    """`name` = `lanes` neighbouring columns of a line of the tile `name`, at the index at hand."""

    name: str
    dtype: DataType
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class TileKeep:
    """`lanes` neighbouring columns of a line of `tile`, at the index at hand = source."""

    tile: str
    source: Expression
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class CheckedIndex:
    """`name` = an index as a number from 0 to `size` - 1; another one is an error of `operation`.

    With `wraps`, negative numbers count from the end.
    """

    name: str
    value: Expression
    size: int
    operation: str
    wraps: bool
    in_lanes: bool = False


@dataclass(frozen=True, slots=True)
class Lanes:
    """Declares `name` as `count` values of a type, held in registers, all `fill` if it is given."""

    name: str
    dtype: DataType
    count: int
    fill: Literal | None = None


@dataclass(frozen=True, slots=True)
class Combine:
    """`name` = the `count` lanes of each of some arrays of type `kept`, joined by a pointwise
    operation."""

    name: str
    dtype: DataType
    arrays: tuple[str, ...]
    kept: DataType
    count: int
    operation: str


@dataclass(frozen=True, slots=True)
class Running:
    """`name` = `value` joined by `operation` to those at all earlier points of the sweep, which
    `carry` names. The axes of a sweep that has some are in the order of the scan. Mappings make
    lanes of it.
    """

    name: str
    operation: str
    value: Expression
    dtype: DataType
    carry: str


@dataclass(frozen=True, slots=True)
class Carry:
    """Declares `name`: what a scan by a pointwise operation has made of all points so far, in a
    type that holds it for long. `fill` is what it has made of none."""

    name: str
    dtype: DataType
    operation: str
    fill: Literal

    @property
    def total(self) -> str:
        """The name of what a part of the points comes to."""
        return f"{self.name}_total"


@dataclass(frozen=True, slots=True)
class ScanLanes:
    """Each of `count` lanes of `array` becomes what the scan makes of all points up to it; `carry`
    goes on to the last of them. On a GPU, the lanes of all threads of a team follow each other."""

    array: str
    dtype: DataType
    count: int
    carry: Carry


@dataclass(frozen=True, slots=True)
class Share:
    """A row along `axis` shared out over threads, or blocks, that each scan a part of it in order.

    `totals` makes the total of each carry over the points of a part; `body` is done with the
    carries that follow from the parts before. A processor does so for `step` points of
    every thread at a time.
    """

    axis: Axis
    carries: tuple[Carry, ...]
    totals: tuple[Node, ...]
    body: tuple[Node, ...]
    step: int


@dataclass(frozen=True, slots=True)
class Keep:
    """Keeps `name`, a value of the sweep over `axis`, for later sweeps of the row; or `source`, if
    it is given, as that."""

    name: str
    dtype: DataType
    axis: Axis
    lanes: int = 1
    source: Expression | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """`name` = what an earlier sweep over `axis` kept of it."""

    name: str
    dtype: DataType
    axis: Axis
    lanes: int = 1


class Place(Enum):
    """Where a GPU keeps elements of a row between sweeps. Each thread reads what it has kept."""

    REGISTERS = auto()
    SHARED = auto()


@dataclass(frozen=True, slots=True)
class RowArray:
    """Declares room for what sweeps over `axis` keep of `name`.

    On a GPU, in `place`: for `lanes` elements of each thread in each of `rounds`, `offset` bytes
    from where shared memory begins; in a register for an end of the row, if it has `ends`.
    """

    name: str
    dtype: DataType
    axis: Axis
    lanes: int = 1
    place: Place | None = None
    rounds: int = 0
    offset: int = 0
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Partial:
    """Results of folds over the rows: `slots` of them, which each thread keeps as `kept` until all
    rows are done. `fill` is what nothing folds to.

    If `in_blocks`, values are joined as `dtype` first, and `Widen` joins those to the kept ones.
    """

    name: str
    dtype: DataType
    kept: DataType
    operation: str
    slots: int
    fill: Literal
    in_blocks: bool = False


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Joins `value` to result `at` of a partial, by its operation."""

    partial: Partial
    at: Index
    value: Expression


@dataclass(frozen=True, slots=True)
class Widen:
    """At every `every`-th time, joins what the blocks of some partials hold to what is kept."""

    partials: tuple[Partial, ...]
    every: int = 1


@dataclass(frozen=True, slots=True)
class Finish:
    """`partial.name` = result `at` of a partial, over all threads."""

    partial: Partial
    at: Index


@dataclass(frozen=True, slots=True)
class Region:
    """`body`, on several threads or on the one at hand; then `epilogue`, which may finish the
    partials."""

    partials: tuple[Partial, ...]
    body: tuple[Node, ...]
    epilogue: tuple[Node, ...]
    threaded: bool = True


@dataclass(frozen=True, slots=True)
class PointLists:
    """For each of `rows`, which of `points` go there, in order. `body` says it of each of them."""

    name: str
    rows: int
    points: int
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class PointOf:
    """Point `at` goes to `row`."""

    lists: str
    at: Index
    row: Index


@dataclass(frozen=True, slots=True)
class ListLoop:
    """`body` for each point that goes to `row`, `name` being its number; with `last`, for the last
    one only. `later` is the number of one that comes so many points `ahead`: of it, memory is asked
    for."""

    lists: str
    row: Index
    name: str
    body: tuple[Node, ...]
    last: bool = False
    later: str = ""
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class WarpPoints:
    """Each warp of a GPU takes 32 of the points that `axes` number, and some columns of them.

    `code` makes `place`, where a point's columns are in the result. Points of one place come one
    after the other, `ahead` of them at a time: `columns` makes the `source` of the `store`, which
    adds the sum of one place, at first `fill`.
    """

    axes: tuple[Axis, ...]
    code: tuple[Node, ...]
    place: Index
    columns: Loop
    store: Store
    fill: Literal
    ahead: int = 4


@dataclass(frozen=True, slots=True)
class WarpElements:
    """Each thread of a GPU takes an element that `axes` number. `code` makes what `store` adds, and
    a warp adds up what goes to one place before."""

    axes: tuple[Axis, ...]
    code: tuple[Node, ...]
    store: Store


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Asks for memory of `tensor` that is read soon after the `lanes` elements at `at`; if `there`,
    for these."""

    tensor: Value
    at: Index
    lanes: int
    there: bool = False


class Binding(Enum):
    """What runs the iterations of a loop."""

    PARALLEL = auto()  # threads of the processor, together with the parallel loop inside
    SIMD = auto()  # vector lanes of a processor, as its compiler arranges them
    STREAM = auto()  # a row copied past the cache; the body is one load and one store
    CHUNKS = auto()  # `step` elements an iteration; the last chunk is moved back to end in range
    BLOCK = auto()  # one iteration a thread block
    THREAD_Y = auto()  # blockDim.y iterations a thread block
    THREAD_X = auto()  # blockDim.x iterations a thread block, each of `step` elements
    TILED = auto()  # `step` elements an iteration, together with the tiled loop around or inside
    TILE_LINES = auto()  # the lines of a tile, `step` columns at a time
    LANES = auto()  # unrolled over the lanes of one thread
    SERIAL = auto()  # one after the other
    SWEEP = auto()  # `step` lanes at a time, and what is left one by one
    BLOCKS = auto()  # `step` elements of a long row an iteration, over threads; swept inside
    TILE = auto()  # up to `step` neighbouring rows an iteration, over threads
    TILE_LANES = auto()  # the rows of a tile
    UNROLLED = auto()  # `step` iterations at a time for each row of a tile, and the rest one by one
    TEAMS = auto()  # a row for each team of threads, together with the loop inside
    TEAM = auto()  # `step` elements for each thread of a team, together with the loop inside
    SCAN = auto()  # `step` elements at a time, of one thread or each of a team, in order
    ENDS = auto()  # the ends of a peeled row, an element for each of the first threads of a team


class Team(Enum):
    """The threads of a GPU that do a row together."""

    WARP = auto()  # a warp, along x; as many rows a block as it has warps
    BLOCK = auto()  # a block, or several where the grid has a second dimension
    COLUMN = auto()  # threads of a block along y; neighbouring rows lie along x
    GRID = auto()  # all there are, for the only row


@dataclass(frozen=True, slots=True)
class Peel:
    """Where the whole vectors of a row begin: where `lanes` elements of `tensor` are aligned. The
    row begins at element `at` of it. What is before and after them are its ends."""

    tensor: Value
    at: Index
    lanes: int


@dataclass(frozen=True, slots=True)
class Loop:
    """`body` for each value of `axis`, `step` apart.

    Of a `TEAM`: each thread does `rounds` of them, a number of the text; 0 for one of the launch.
    If `whole`, the `step` elements of every iteration are there. `peel` says which iterations are.
    """

    axis: Axis
    binding: Binding
    body: tuple[Node, ...]
    step: int = 1
    rounds: int = 0
    whole: bool = False
    peel: Peel | None = None


TileNode = TileRoom | FillTile | DrainTile | TileLine | TileKeep
"""What is done with a tile, or with a line of it."""

Node = (
    Load
    | Let
    | TileNode
    | CheckedIndex
    | Store
    | Lanes
    | Keep
    | Kept
    | RowArray
    | Combine
    | Accumulate
    | Widen
    | Finish
    | Prefetch
    | PointLists
    | PointOf
    | ListLoop
    | WarpPoints
    | WarpElements
    | Loop
    | Region
    | Running
    | Carry
    | ScanLanes
    | Share
)


def nested(axes: Sequence[Axis], binding: Binding, inside: tuple[Node, ...]) -> tuple[Node, ...]:
    """`inside`, in a loop over each axis."""
    for axis in reversed(axes):
        inside = (Loop(axis, binding, inside),)
    return inside


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel is started: thread blocks and threads on CUDA, with the most threads a block of
    any size may have; on the CPU, whether on several threads, and whether chunks of rows are stored
    past the cache.

    `cluster`: blocks along the second dimension of the grid that see each other's shared memory.
    `shared_bytes`: what a block has beside what its text declares.
    """

    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    max_threads: int = 1
    threaded: bool = False
    cluster: int = 1
    shared_bytes: int = 0
    past_cache: bool = False


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A kernel: a name, its loop tree, and how it is launched.

    `axes` run from the outermost to the innermost; `index_dtype` is Int32 where every offset fits.
    `parameters` says in words what the heuristic chose. `team` does a row of a CUDA kernel.
    """

    name: str
    axes: tuple[Axis, ...]
    prologue: tuple[Let, ...]
    body: tuple[Node, ...]
    launch: Launch
    index_dtype: DataType
    parameters: str
    team: Team | None = None
