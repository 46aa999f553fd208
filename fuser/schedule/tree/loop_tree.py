"""The loop tree: what a kernel does, independent of how any target spells it.

Nodes with bodies are here, those of scatters in `scatter_nodes.py`; `bindings.py` says what runs a
loop, and `expressions.py`, `statements.py` and `row_statements.py` have the leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fuser.ir.nodes import Value
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.tree import row_statements as rows
from fuser.schedule.tree import scatter_nodes as scatters
from fuser.schedule.tree import statements
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import Ref


@dataclass(frozen=True, slots=True)
class Peel:
    """Where the whole vectors of a row begin: where `lanes` elements of `tensor` are aligned. The
    row begins at element `at` of it. What is before and after them are its ends, of which the same
    in a `later` row may be asked for: so many steps along an axis."""

    tensor: Value
    at: Index
    lanes: int
    later: tuple[Axis, int] | None = None


@dataclass(frozen=True, slots=True)
class Within:
    """The points of an axis at which `at`, which goes up by one with it, is from 0 to `extent` - 1:
    what axes outside decide."""

    at: Index
    extent: int


@dataclass(frozen=True, slots=True)
class Loop:
    """`body` for each value of `axis`, `step` apart.

    Of a `TEAM`: each thread does `rounds` of them, a number of the text; 0 for one of the launch.
    If `whole`, the `step` elements of every iteration are there. `peel` says which iterations are.
    Of a `SCAN`, if `turned`, lanes are from its last point to its first: in the order of memory.
    A `STRIP` has a multiple of `unit` neighbours, but for the last; so have `BLOCKS`, which have
    fewer than `step` where some thread would have none, if `unit` is more than one. `span` is where
    the values begin and end, if they are not all of the axis; `within`, if other axes decide that.
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
    within: Within | None = None


@dataclass(frozen=True, slots=True)
class Region:
    """`body`, on several threads or on the one at hand; then `epilogue`, which may finish the
    partials. `own` says of which of these a GPU's threads have slots in registers."""

    partials: tuple[rows.Partial, ...]
    body: tuple[Node, ...]
    epilogue: tuple[Node, ...]
    threaded: bool = True
    own: tuple[rows.OwnSlots, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """A row along `axis` shared out over threads, or blocks, that each scan a part of it in order.

    `totals` makes the total of each carry over the points of a part; `body` is done with the
    carries that follow from the parts before. A processor does so for at most `step` points of
    every thread at a time, a multiple of `unit`. Of rows side by side, each has carries: `columns`
    are their lanes, of which there are `columns.extent` at most.
    """

    axis: Axis
    carries: tuple[rows.Carry, ...]
    totals: tuple[Node, ...]
    body: tuple[Node, ...]
    step: int
    unit: int = 1
    columns: Axis | None = None


@dataclass(frozen=True, slots=True)
class Alone:
    """`body`, by the first of the threads that do a row. It `reads` what an earlier such node made
    for `later` ones."""

    body: tuple[Node, ...]
    reads: tuple[Ref, ...] = ()
    later: tuple[Ref, ...] = ()

    @property
    def makes(self) -> frozenset[str]:
        """The names that it makes."""
        return frozenset(
            node.name
            for node in self.body
            if isinstance(node, statements.Load | statements.Let | statements.CheckedIndex)
        )

    def followed_by(self, other: Alone) -> Alone:
        """Both as one, where they make other names."""
        reads = (ref for ref in other.reads if ref.name not in self.makes)
        reads = tuple(dict.fromkeys((*self.reads, *reads)))
        return Alone((*self.body, *other.body), reads, (*self.later, *other.later))


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


ProcessorNode = (
    rows.RowTile
    | rows.RowOfTile
    | rows.DrainRows
    | rows.KeepLanes
    | rows.JoinGroups
    | rows.Widen
    | rows.Raise
    | Piece
    | IfPastCache
    | scatters.ListNode
)
"""What only kernels of rows and scatters of a processor have."""

RowNode = (
    statements.CheckedIndex
    | rows.Keep
    | rows.Kept
    | rows.RowArray
    | rows.KeepAt
    | Alone
    | Meet
    | Region
    | rows.Accumulate
    | rows.Finish
    | rows.FinishPowers
    | rows.ScanLanes
    | rows.Combine
    | Share
    | scatters.WarpPoints
    | scatters.WarpElements
    | scatters.ByLists
    | ProcessorNode
)
"""What only kernels of rows and scatters have, but for the region of a processor's pieces."""

RunNode = statements.LoadRun | statements.StoreRun
"""What only kernels of a GPU have."""

Node = (
    statements.Load
    | statements.Let
    | statements.Store
    | RunNode
    | statements.Lanes
    | statements.LaneCall
    | statements.Prefetch
    | statements.TileNode
    | Loop
    | rows.Running
    | rows.Carry
    | RowNode
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
            case Loop() | Piece() | Alone() | scatters.ListLoop() | scatters.UnlistedRows():
                yield from every_node(node.body)
            case Region():
                yield from every_node((*node.body, *node.epilogue))
            case scatters.IfListed():
                yield from every_node((*node.body, *node.otherwise, *node.one))
            case IfPastCache() | scatters.IfBelow():
                yield from every_node((*node.body, *node.otherwise))
            case Share():
                yield from every_node((*node.totals, *node.body))
            case scatters.WarpPoints():
                yield from every_node((*node.code, node.columns, node.store))
            case scatters.WarpElements():
                yield from every_node((*node.code, node.store))
            case scatters.ByLists():
                yield from every_node((*node.lists.body, *node.rows.of_row, *node.rows.added.code))
                yield from every_node((*node.rows.base.code, *node.rows.finish))
            case _:
                pass
