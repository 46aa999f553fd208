"""Nodes of scatters with loops of their own: lists of points, and what a GPU's warps make."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from fuser.ir.dtypes import DataType
from fuser.schedule.cuda_parameters import WARP
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.tree.counts import ceil_div
from fuser.schedule.tree.expressions import Expression, Literal
from fuser.schedule.tree.statements import Store

if TYPE_CHECKING:
    from fuser.schedule.tree.loop_tree import Loop, Node


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
class IfBelow:
    """`body`, if the number of a point, `name`, is below `end`, else `otherwise`: points of one
    tensor, and those of others."""

    name: str
    end: int
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]


ListNode = PointLists | PointOf | IfListed | UnlistedRows | ListLoop | IfBelow
"""What kernels of a processor do with lists of points, and with points by their number."""


@dataclass(frozen=True, slots=True)
class WarpPoints:
    """Each warp of a GPU takes 32 of the points that `axes` number, and some columns of them.

    `code` makes `place`, where a point's columns are in the result. Points of one place come one
    after the other, `ahead` of them at a time: `columns` makes the `source` of the `store`, which
    joins what the points of one place come to, at first `fill`.
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
    `added`, which may need what is done once `of_row`. What they come to, joined by the pointwise
    operation `joins`, at first `fill`, and what the row held before, its `base`, `finish` knows as
    `name`.
    """

    lists: str
    name: str
    dtype: DataType
    axes: tuple[Axis, ...]
    copies: int
    point: str
    columns: Loop
    joins: str
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
        return ceil_div(self.columns.axis.extent, WARP * self.columns.step)


@dataclass(frozen=True, slots=True)
class ByLists:
    """`rows`, by `lists` that blocks of a GPU make before: each block has a share of either."""

    lists: PointLists
    rows: WarpRows


@dataclass(frozen=True, slots=True)
class WarpElements:
    """Each thread of a GPU takes an element that `axes` number. `code` makes what `store` joins,
    and a warp joins what goes to one place before."""

    axes: tuple[Axis, ...]
    code: tuple[Node, ...]
    store: Store
