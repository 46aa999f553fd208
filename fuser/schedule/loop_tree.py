"""The loop tree: what a kernel does, independent of how any target spells it.

Nodes with bodies are here; `bindings.py` says what runs a loop, and `expressions.py`,
`statements.py` and `row_statements.py` have the leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.schedule.bindings import Binding
from fuser.schedule.counts import ceil_div
from fuser.schedule.expressions import Expression, Literal
from fuser.schedule.index import Axis, Index
from fuser.schedule.row_statements import (
    Accumulate,
    Carry,
    Combine,
    DrainRows,
    Finish,
    FinishPowers,
    JoinGroups,
    Keep,
    KeepAt,
    KeepLanes,
    Kept,
    OwnSlots,
    Partial,
    Raise,
    RowArray,
    RowOfTile,
    RowTile,
    Running,
    ScanLanes,
    Widen,
)
from fuser.schedule.statements import (
    CheckedIndex,
    LaneCall,
    Lanes,
    Let,
    Load,
    LoadRun,
    Prefetch,
    Store,
    StoreRun,
    TileNode,
)


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
    Of a `SCAN`, if `turned`, lanes are from its last point to its first: in the order of memory.
    A `STRIP` has a multiple of `unit` neighbours, but for the last. `span` is where the values
    begin and end, if they are not all of the axis.
    """

    axis: Axis
    binding: Binding
    body: tuple[Node, ...]
    step: int = 1
    rounds: int = 0
    whole: bool = False
    peel: Peel | None = None
    turned: bool = False
    unit: int = 1
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Region:
    """`body`, on several threads or on the one at hand; then `epilogue`, which may finish the
    partials. `own` says of which of these a GPU's threads have slots in registers."""

    partials: tuple[Partial, ...]
    body: tuple[Node, ...]
    epilogue: tuple[Node, ...]
    threaded: bool = True
    own: tuple[OwnSlots, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """A row along `axis` shared out over threads, or blocks, that each scan a part of it in order.

    `totals` makes the total of each carry over the points of a part; `body` is done with the
    carries that follow from the parts before. A processor does so for at most `step` points of
    every thread at a time, a multiple of `unit`. Of rows side by side, each has carries: `columns`
    are their lanes, of which there are `columns.extent` at most.
    """

    axis: Axis
    carries: tuple[Carry, ...]
    totals: tuple[Node, ...]
    body: tuple[Node, ...]
    step: int
    unit: int = 1
    columns: Axis | None = None


@dataclass(frozen=True, slots=True)
class Meet:
    """The threads of a GPU's team wait for each other, and see what all have written."""


@dataclass(frozen=True, slots=True)
class IfPastCache:
    """`body`, if what the kernel stores bypasses the processor's cache, else `otherwise`: the same,
    done another way. A call's sizes say so, and need no other text."""

    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """`body`, for a part of a kernel's rows: names of pieces are their own."""

    body: tuple[Node, ...]


# -- scatters ------------------------------------------------------------------------------------


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
class IfListed:
    """`body`, if points go to `row`, else `otherwise`; where it matters, `one` if only one does."""

    lists: str
    row: Index
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]
    one: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class UnlistedRows:
    """`body` for each value of `axis` in `row` and the rows without points that follow it, which
    the loop over rows then leaves out. Each has so many `columns`."""

    lists: str
    row: Axis
    axis: Axis
    columns: int
    body: tuple[Node, ...]


class WhichPoints(Enum):
    """Which of the points that go to a row."""

    FIRST = auto()
    OTHERS = auto()  # all after the first
    LAST = auto()


@dataclass(frozen=True, slots=True)
class ListLoop:
    """`body` for points that go to the row at hand, `name` being the number of each. `later` is
    that of one that comes so many points `ahead`: of it, memory is asked for."""

    lists: str
    name: str
    which: WhichPoints
    body: tuple[Node, ...]
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
class MadeLanes:
    """`code` makes `source` for neighbouring columns: an array of lanes, or the number of one."""

    code: tuple[Node, ...]
    source: Expression


@dataclass(frozen=True, slots=True)
class WarpRows:
    """Each warp of a GPU makes `tile` of the rows that `axes` number, and `columns` of them, from
    lists of points. Lists of more than `longest` are cut into pieces of so many, which others take,
    `cut_by` of them.

    There are `copies` of all rows that have lists, and at most `pieces` of each copy. Points come
    one after the other, `ahead` of them at a time, the number of each being `point`: what each has
    `added`, which may need what is done once `of_row`. What they come to, at first `fill`, and what
    the row held before, its `base`, `finish` knows as `name`.
    """

    lists: str
    name: str
    dtype: DataType
    axes: tuple[Axis, ...]
    copies: int
    point: str
    columns: Loop
    of_row: tuple[Node, ...]
    added: MadeLanes
    base: MadeLanes
    finish: tuple[Node, ...]
    fill: Literal
    tile: int
    longest: int
    pieces: int
    cut_by: int
    ahead: int = 4

    @property
    def chunks(self) -> int:
        """How many warps share the columns of a row."""
        return ceil_div(self.columns.axis.extent, 32 * self.columns.step)


@dataclass(frozen=True, slots=True)
class ByLists:
    """`rows`, by `lists` that blocks of a GPU make before: each block has a share of either."""

    lists: PointLists
    rows: WarpRows


@dataclass(frozen=True, slots=True)
class WarpElements:
    """Each thread of a GPU takes an element that `axes` number. `code` makes what `store` adds, and
    a warp adds up what goes to one place before."""

    axes: tuple[Axis, ...]
    code: tuple[Node, ...]
    store: Store


ProcessorNode = (
    RowTile
    | RowOfTile
    | DrainRows
    | Combine
    | KeepLanes
    | JoinGroups
    | Widen
    | Raise
    | Piece
    | PointLists
    | PointOf
    | IfListed
    | UnlistedRows
    | IfPastCache
    | ListLoop
)
"""What only kernels of rows and scatters of a processor have."""

RowNode = (
    CheckedIndex
    | Keep
    | Kept
    | RowArray
    | KeepAt
    | Meet
    | Region
    | Accumulate
    | Finish
    | FinishPowers
    | Carry
    | ScanLanes
    | Share
    | WarpPoints
    | WarpElements
    | ByLists
    | ProcessorNode
)
"""What only kernels of rows and scatters have, but for the region of a processor's pieces."""

RunNode = LoadRun | StoreRun
"""What only kernels of points of a GPU have."""

Node = (
    Load | Let | Store | RunNode | Lanes | LaneCall | Prefetch | TileNode | Loop | Running | RowNode
)


def nested(axes: Sequence[Axis], binding: Binding, inside: tuple[Node, ...]) -> tuple[Node, ...]:
    """`inside`, in a loop over each axis."""
    for axis in reversed(axes):
        inside = (Loop(axis, binding, inside),)
    return inside


def every_node(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes, each followed by those inside it."""
    for node in nodes:
        yield node
        match node:
            case Loop() | Piece() | ListLoop() | UnlistedRows():
                yield from every_node(node.body)
            case Region():
                yield from every_node((*node.body, *node.epilogue))
            case IfListed():
                yield from every_node((*node.body, *node.otherwise, *node.one))
            case IfPastCache():
                yield from every_node((*node.body, *node.otherwise))
            case Share():
                yield from every_node((*node.totals, *node.body))
            case WarpPoints():
                yield from every_node((*node.code, node.columns, node.store))
            case WarpElements():
                yield from every_node((*node.code, node.store))
            case ByLists():
                yield from every_node((*node.lists.body, *node.rows.of_row, *node.rows.added.code))
                yield from every_node((*node.rows.base.code, *node.rows.finish))
            case _:
                pass
