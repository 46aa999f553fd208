"""Folds on a processor: lanes of a row, and parts of threads, in a type that holds many values.

    T1_lanes[lane] = T1_lanes[lane] + T0
    T2_lanes[lane] = T2_lanes[lane] > T0 ? T2_lanes[lane] : T0       NaN has lanes of its own
    T3_part[i1] = T3_part[i1] + T0                                   over rows, i1 along the lanes

Long sums of float32 are kept in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fuser.ir.dtypes import DataType
from fuser.schedule.code.lane_loads import MOST_FLAGS
from fuser.schedule.code.row_body import Fold, RowBody, Sweep
from fuser.schedule.indices.index import ZERO, Axis, Index
from fuser.schedule.indices.rewrites import substitute
from fuser.schedule.tree.expressions import (
    REPEATED,
    Call,
    Convert,
    Expression,
    Literal,
    Ref,
    convert,
    join,
)
from fuser.schedule.tree.folds import is_extreme, kept_dtype, neutral, takes_each_once
from fuser.schedule.tree.loop_tree import Node
from fuser.schedule.tree.names import lanes_name, own_name
from fuser.schedule.tree.row_statements import Accumulate, Combine, Partial, Widen
from fuser.schedule.tree.statements import Lanes, Let
from fuser.schedule.tree.vectors import step_along


def wide(fold: Fold) -> DataType:
    """The type a fold is kept in."""
    return kept_dtype(fold.operation, fold.dtype)


def in_own_type(fold: Fold) -> DataType:
    """The type of the lanes of a fold that are joined before many values have been added to one."""
    return fold.value.dtype if fold.dtype.is_floating else wide(fold)


KeptIn = Callable[[Fold], DataType]
"""The type of the lanes of a fold: `wide`, or `in_own_type`."""


def without_repeats(sweep: Sweep) -> Sweep:
    """`sweep` with folds that elements which are done again do not change."""

    def changed(fold: Fold) -> Fold:
        if not takes_each_once(fold.operation):
            return fold
        return replace(fold, value=_unless_repeated(fold))

    return replace(sweep, folds=tuple(map(changed, sweep.folds)))


def _unless_repeated(fold: Fold) -> Expression:
    """What a point adds to a fold: nothing where it is done again. Of integers, by a mask: for a
    choice, g++ keeps lanes of 64 bits in memory."""
    dtype = fold.value.dtype
    if fold.operation == "add" and dtype.is_integral and dtype is not DataType.Bool:
        mask = Call("sub", (Convert(REPEATED, dtype), Literal(1, dtype)), dtype)
        return Call("bitwise_and", (fold.value, mask), dtype)
    return Call("where", (REPEATED, neutral(fold.operation, dtype), fold.value), dtype)


def accumulated(folds: Iterable[Fold]) -> list[Accumulate]:
    """What a point of a sweep adds to folds over the rows."""
    return [Accumulate(thread_partial(fold), fold.at, fold.value) for fold in folds]


def to_one_place(sweep: Sweep) -> list[Fold]:
    """The folds over the rows to which all points of the innermost loop add in one place."""
    return [fold for fold in sweep.folds_over_rows if step_along(fold.at, sweep.axes[-1]) == 0]


def accumulated_in_lanes(
    sweep: Sweep, lanes: int, kept_in: KeptIn
) -> tuple[list[Node], list[Let | Accumulate], list[Node]]:
    """What a sweep adds to folds over the rows before its innermost loop, in each of its lanes, and
    after it. Lanes that would all add to one place are folded first."""
    to_one = to_one_place(sweep)
    apart = [fold for fold in sweep.folds_over_rows if fold not in to_one]
    of_loop = [_of_loop(fold, number) for number, fold in enumerate(to_one)]
    before, within, after = folded_in_lanes(of_loop, lanes, kept_in)
    joined = [
        replace(fold, value=Ref(own.name, own.dtype))
        for fold, own in zip(to_one, of_loop, strict=True)
    ]
    return before, [*within, *accumulated(apart)], [*after, *accumulated(joined)]


def _of_loop(fold: Fold, number: int) -> Fold:
    """What the innermost loop alone adds to a fold over the rows, at one of its places."""
    partial = thread_partial(fold)
    dtype = fold.dtype if partial.in_blocks else partial.kept
    name = own_name(fold.name, number)
    return replace(fold, name=name, dtype=dtype, slots=None)


def folded_in_lanes(
    folds: Sequence[Fold], lanes: int, kept_in: KeptIn
) -> tuple[list[Node], list[Let], list[Node]]:
    """What folds of a row do before a loop over its elements, in each of the lanes, and after."""
    before: list[Node] = []
    within: list[Let] = []
    after: list[Node] = []
    for given in folds:
        fold, kept = _held(given, kept_in(given), lanes)
        parts = lane_parts(fold, kept)
        for name, joined in parts.items():
            before.append(Lanes(name, kept, lanes, neutral(fold.operation, kept)))
            within.append(Let(name, kept, joined, in_lanes=True))
        after.append(Combine(fold.name, fold.dtype, tuple(parts), kept, lanes, fold.operation))
    return before, within, after


def _held(fold: Fold, kept: DataType, lanes: int) -> tuple[Fold, DataType]:
    """A fold as its lanes do it, and their type. Of few lanes, truth values are numbers, as those
    are that are read: see `lane_loads.py`."""
    if kept is not DataType.Bool or lanes > MOST_FLAGS:
        return fold, kept
    either = fold.operation in ("logical_or", "maximum")
    return replace(fold, operation="bitwise_or" if either else "bitwise_and"), DataType.Int32


def lane_parts(fold: Fold, dtype: DataType) -> dict[str, Call]:
    """The arrays that hold the lanes of a fold, and a lane of each with one more value.

    Extremes and NaN are kept apart: a comparison that need not keep NaN is one instruction.
    """
    name = lanes_name(fold.name)
    if not is_extreme(fold.operation) or not dtype.is_floating:
        return {name: join(fold.operation, Ref(name, dtype), fold.value)}
    value, held, held_nan = convert(fold.value, dtype), Ref(name, dtype), Ref(f"{name}_nan", dtype)
    parts = {held.name: one_of(fold, held, value)}
    if fold.keeps_nan:
        is_nan = Call("isnan", (value,), DataType.Bool)
        parts[held_nan.name] = Call("where", (is_nan, value, held_nan), dtype)
    return parts


def one_of(extreme: Fold, held: Ref, value: Expression) -> Call:
    """What is held of an extreme with one more value, if neither is NaN."""
    beats = Call("gt" if extreme.operation == "maximum" else "lt", (held, value), DataType.Bool)
    return Call("where", (beats, held, value), held.dtype)


def thread_partial(fold: Fold) -> Partial:
    """What a thread keeps of a fold over the rows, in a wider type where roundings add up."""
    assert fold.slots is not None
    dtype = wide(fold)
    fill = neutral(fold.operation, dtype)
    in_blocks = fold.slots > 1 and dtype is not fold.dtype
    return Partial(fold.name, fold.dtype, dtype, fold.operation, fold.slots, fill, in_blocks)


def partials_over_rows(body: RowBody) -> dict[Partial, list[Fold]]:
    """What a thread keeps of the folds over the rows, and those of each: several where neighbours
    of a row, which are done one after the other, go to places of their own."""
    found: dict[Partial, list[Fold]] = {}
    for fold in body.folds_over_rows:
        found.setdefault(thread_partial(fold), []).append(fold)
    return found


def widened_blocks(
    body: RowBody, every: int, rows: Sequence[Axis] = (), side_by_side: Axis | None = None
) -> list[Node]:
    """Joins blocks of folds over the rows to what is kept of them: each when about `every` values
    have been added at one place. Neighbouring `rows` are done one after the other, of those along
    `side_by_side` several at once."""
    nodes: list[Node] = []
    for partial, folds in partials_over_rows(body).items():
        if partial.in_blocks:
            fold = folds[0]
            meets = side_by_side is not None and not fold.at.coefficient(side_by_side)
            count = every if meets else _rows_of_block(fold, rows, every)
            first, span = (ZERO, 0) if side_by_side else _places_of_row(folds, rows)
            nodes.append(Widen(partial, count, first, span))
    return nodes


def _places_of_row(folds: Sequence[Fold], rows: Sequence[Axis]) -> tuple[Index, int]:
    """The first place to which a row adds by some folds, and how many there are up to the last;
    none if all rows add to the same ones, or an index says to which."""
    first = min((fold.at for fold in folds), key=lambda at: at.constant)
    last = max(fold.at.constant for fold in folds)
    own = {term: step for term, step in first.terms if isinstance(term, Axis)}
    if len(own) < len(first.terms) or own.keys().isdisjoint(rows) or min(own.values()) < 0:
        return ZERO, 0
    if any(fold.at.terms != first.terms for fold in folds):
        return ZERO, 0
    swept = {axis: step for axis, step in own.items() if axis not in rows}
    span = 1 + sum(step * (axis.extent - 1) for axis, step in swept.items())
    return substitute(first, dict.fromkeys(swept, ZERO)), span + last - first.constant


_LONGEST = 1 << 30
"""Rows are counted in 32 bits."""


def _rows_of_block(fold: Fold, rows: Sequence[Axis], every: int) -> int:
    """After how many rows, one after the other, there are `every` values at a place of a fold."""
    count, values = 1, 1
    for axis in reversed(rows):
        if not fold.at.coefficient(axis):
            if values * axis.extent > every:
                return min(count * (every // values), _LONGEST)
            values *= axis.extent
        count *= axis.extent
    return min(count * every // values, _LONGEST)
