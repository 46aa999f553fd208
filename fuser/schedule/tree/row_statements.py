"""Statements of the loop tree that rows have: what is kept between sweeps, folded and scanned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.schedule.indices.index import ZERO, Axis, Index
from fuser.schedule.tree.counts import power_of_two
from fuser.schedule.tree.expressions import Expression, Literal, Ref


@dataclass(frozen=True, slots=True)
class Keep:
    """Keeps `name`, a value of the sweep over `axes`, for later sweeps of the row; or `source`, if
    it is given, as that."""

    name: str
    dtype: DataType
    axes: tuple[Axis, ...]
    lanes: int = 1
    source: Expression | None = None


@dataclass(frozen=True, slots=True)
class KeepAt:
    """`source` is kept as element `at` of what a row keeps of `name`, or joined to it by an
    operation of the pointwise table."""

    name: str
    dtype: DataType
    at: Index
    source: Expression
    joins: str | None


@dataclass(frozen=True, slots=True)
class Kept:
    """`name` = what an earlier sweep over `axes` kept of it."""

    name: str
    dtype: DataType
    axes: tuple[Axis, ...]
    lanes: int = 1


class Place(Enum):
    """Where a GPU keeps elements of a row between sweeps. Each thread reads what it has kept."""

    REGISTERS = "registers"
    SHARED = "shared memory"


@dataclass(frozen=True, slots=True)
class RowArray:
    """Declares room for what sweeps over `axes` keep of `name`.

    On a GPU, in `place`: for `lanes` elements of each thread in each of `rounds`, `offset` bytes
    from where shared memory begins; in a register for an end of the row, if it has `ends`. If there
    is `room` for so many elements, these lie in their order, one row after the other.
    """

    name: str
    dtype: DataType
    axes: tuple[Axis, ...]
    lanes: int = 1
    place: Place | None = None
    rounds: int = 0
    offset: int = 0
    ends: bool = False
    room: int = 0


@dataclass(frozen=True, slots=True)
class RowTile:
    """`name` = what `tensor` has at `at`, of all `rows`, which lie side by side, and all of `axis`:
    turned, so that each row has it along `axis`. There is room for `most` elements of a row. One
    that is `stored` has nothing at first: rows keep it, and a `DrainRows` follows."""

    name: str
    tensor: Value
    at: Index
    rows: Axis
    axis: Axis
    most: int
    stored: bool = False


@dataclass(frozen=True, slots=True)
class RowOfTile:
    """The row at hand of a tile: its sweeps read it as what was kept, or keep it."""

    tile: RowTile


@dataclass(frozen=True, slots=True)
class DrainRows:
    """Stores what rows have kept in a tile."""

    tile: RowTile


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
class KeepLanes:
    """Keeps the lanes of one row of a batch, which `join` joins when those of all rows are kept."""

    join: Combine


@dataclass(frozen=True, slots=True)
class JoinGroups:
    """Each `group` neighbouring lanes of an array, joined by a pointwise operation: in all of
    them."""

    array: Ref
    operation: str
    group: int


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

    @property
    def part(self) -> str:
        """The name of what a thread, or a block, has of them."""
        return f"{self.name}_part"

    @property
    def block_fill(self) -> Literal:
        """What nothing folds to in a block."""
        return Literal(self.fill.value, self.dtype)


PARTS_BYTES = 32 << 10
"""What folds over the rows may take of a block's shared memory."""


def shared_parts_bytes(partials: Sequence[Partial]) -> int:
    """What a block has of folds over the rows in shared memory; 0 where it has them elsewhere.

    Sizes of shared memory are part of the text, so they are powers of two.
    """
    arrays = [partial for partial in partials if partial.slots > 1]
    room = sum(power_of_two(array.slots) * array.kept.itemsize for array in arrays)
    return room if room <= PARTS_BYTES else 0


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Joins `value` to result `at` of a partial, by its operation."""

    partial: Partial
    at: Index
    value: Expression


@dataclass(frozen=True, slots=True)
class OwnSlots:
    """Slots of a fold over the rows that threads keep in registers until all rows are done: each
    those of `lanes` neighbours along `axis`, which numbers the slots, in every one of `rounds`."""

    partial: Partial
    axis: Axis
    lanes: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Widen:
    """At every `every`-th time, joins what the block of a partial holds to what is kept: if `span`,
    only what may have been added to, which is so many places from `first` each time."""

    partial: Partial
    every: int = 1
    first: Index = ZERO
    span: int = 0


@dataclass(frozen=True, slots=True)
class Raise:
    """Joins `value` to `largest`, a maximum, and scales sums of e to differences from it, as if it
    had been so before. `name` = the new maximum, or the lowest finite number if that is -inf."""

    name: str
    largest: Partial
    value: Ref
    sums: tuple[Partial, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """`partial.name` = result `at` of a partial, over all threads."""

    partial: Partial
    at: Index


@dataclass(frozen=True, slots=True)
class FinishPowers:
    """The results of two folds, over all threads of a row: a maximum, and a sum of e to differences
    from it. Those of each thread are from `own`, its own maximum, or the lowest finite number if
    that is -inf."""

    largest: Partial
    sum: Partial
    own: Ref


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
