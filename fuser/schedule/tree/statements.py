"""Statements of the loop tree: what is loaded, computed and stored at a point or at its lanes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.ir.random_numbers import COST
from fuser.schedule.indices.index import Index
from fuser.schedule.tree.expressions import Expression, Ref


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
    """`name` = `lanes` elements of `tensor` from element `at`, each `step` after the one before.

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
    step: int = 1

    @property
    def dtype(self) -> DataType:
        """The type of an element."""
        return self.tensor.dtype


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

    With `joins`, what is there joined to the source by that pointwise operation. One that stays
    `apart` is to no compiler part of a vector of neighbouring stores.
    """

    tensor: Value
    at: Index
    source: Expression
    lanes: int = 1
    piece: int = 0
    joins: str | None = None
    apart: bool = False

    @property
    def dtype(self) -> DataType:
        """The type of an element in memory."""
        return self.tensor.dtype


@dataclass(frozen=True, slots=True)
class LoadRun:
    """`names` = `lanes` elements each of `tensor`, in turn, from element `at`: the first of each
    name, then the second of each. `piece` is how many elements an access moves."""

    names: tuple[str, ...]
    tensor: Value
    at: Index
    lanes: int
    piece: int


@dataclass(frozen=True, slots=True)
class StoreRun:
    """`tensor` from element `at` = `lanes` elements of each of `sources`, as `LoadRun` reads."""

    tensor: Value
    at: Index
    sources: tuple[Ref, ...]
    lanes: int
    piece: int


@dataclass(frozen=True, slots=True)
class CheckedIndex:
    """`name` = an index as a number from 0 to `size` - 1; another one is an error of `operation`,
    and `outside`: where memory is read, 0. With `wraps`, negative numbers count from the end.

    One that `reports` nothing is the same as an earlier one at every point. One that `skips` leaves
    out what else is done at a point whose index is out of range.
    """

    name: str
    value: Expression
    size: int
    operation: str
    wraps: bool
    reports: bool = True
    in_lanes: bool = False
    skips: bool = False
    outside: int = 0

    @property
    def dtype(self) -> DataType:
        """Of the number that is known to be in range."""
        return DataType.Int


@dataclass(frozen=True, slots=True)
class Lanes:
    """Declares `name` as `count` values of a type, held in registers, all `fill` if it is given."""

    name: str
    dtype: DataType
    count: int
    fill: Expression | None = None


CONVERTED = "convert"
"""The operation of a call that converts lanes."""


@dataclass(frozen=True, slots=True)
class LaneCall:
    """`name` = a row of the pointwise table of `given`, for all lanes at once: both are arrays of
    `dtype` that `Lanes` declared; or what is `CONVERTED` to it. It makes what the loops after it
    know as `value`."""

    name: str
    value: str
    operation: str
    given: str
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Asks for memory that the load `name` of `tensor` reads soon after the `lanes` elements at
    `at`; if `there`, for these. Where that depends on sizes, they say whether it `pays`."""

    name: str
    tensor: Value
    at: Index
    lanes: int
    there: bool = False
    pays: bool | None = None


def reads_in(nodes: Iterable[object]) -> list[Load]:
    """The loads among nodes that read memory."""
    return [node for node in nodes if isinstance(node, Load) and node.drawn is None]


def draws(nodes: Iterable[object]) -> bool:
    """Whether some of the nodes draw random numbers."""
    return any(isinstance(node, Load) and node.drawn is not None for node in nodes)


# -- tiles ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TileRoom:
    """Declares room for a tile: elements of a type for each step of both `TILED` loops at hand.

    The outer loop goes from column to column, the inner one from line to line. Lines are what is
    computed; memory holds columns.
    """

    name: str
    dtype: DataType


def pitch(lines: int, size: int) -> int:
    """Elements of `size` bytes from column to column of a tile in shared memory: an odd number of
    words, or of elements, so that threads meet in few banks, whether they go along lines or
    columns."""
    return lines + max(4 // size, 1)


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
class ColumnKeep:
    """`lanes` neighbouring lines of a column of `tile`, at the index at hand = source."""

    tile: str
    source: Ref
    lanes: int = 1


TileNode = TileRoom | FillTile | DrainTile | TileLine | TileKeep | ColumnKeep
"""What is done with a tile, or with a line of it."""
