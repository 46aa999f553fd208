"""A strip of neighbouring rows on a processor: a sweep over the elements of all, a row a lane.

    T1 folds T0 by add      for each few elements: for each lane: T1_lanes[lane] += T0, of each

Where nothing needs all lanes to have done an element before the next, each lane does a few of them
in a register. Where all rows of a strip are folded into one place over the rows, each is folded
into a lane of its own first; then the lanes are joined.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from typing import TypeGuard

from fuser.ir.dtypes import DataType
from fuser.schedule.code.row_body import Code, Fold, Sweep, as_lane
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.rows.buffers import takes_costly
from fuser.schedule.rows.cpu.folds import accumulated, one_of, wide
from fuser.schedule.rows.scans import carry_of, point_by_point
from fuser.schedule.rows.vectors import divided
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.expressions import Expression, Literal, Ref, convert, join
from fuser.schedule.tree.folds import neutral
from fuser.schedule.tree.loop_tree import Loop, Node, nested
from fuser.schedule.tree.names import block_name, lanes_name, own_name
from fuser.schedule.tree.row_statements import Combine, JoinGroups
from fuser.schedule.tree.statements import Lanes, Let
from fuser.schedule.tree.vectors import step_along


@dataclass(frozen=True, slots=True)
class LaneFold:
    """A fold with a lane for each row of a strip, `kept` in a type. Of one `in_blocks`, a block of
    elements is folded in the type of the fold first, and joined to the wider lanes when it is
    done. `over_rows`: the fold over the rows, if this is what a row adds to it."""

    fold: Fold
    kept: DataType
    in_blocks: bool
    over_rows: Fold | None = None

    @property
    def lanes(self) -> Ref:
        return Ref(lanes_name(self.fold.name), self.kept)

    @property
    def block(self) -> Ref:
        return Ref(block_name(self.fold.name), self.fold.dtype)

    def array(self, held: Ref, count: int) -> Lanes:
        """The lanes, or those of a block, before anything is folded."""
        return Lanes(held.name, held.dtype, count, neutral(self.fold.operation, held.dtype))

    @property
    def at_hand(self) -> Ref:
        """Where points are joined."""
        return self.block if self.in_blocks else self.lanes

    def joined(self) -> Let:
        """What is done at a point."""
        return self.joined_to(self.at_hand)

    def joined_to(self, held: Ref) -> Let:
        """The same where what a point adds is held elsewhere."""
        return self._more(held, self.fold.value)

    def flushed(self) -> Let:
        """What is done when a block is."""
        return self._more(self.lanes, self.block)

    def result(self) -> Let:
        fold = self.fold
        return Let(fold.name, fold.dtype, convert(self.lanes, fold.dtype), in_lanes=True)

    def _more(self, held: Ref, value: Expression) -> Let:
        fold = self.fold
        joined = join(fold.operation, held, value) if fold.keeps_nan else one_of(fold, held, value)
        return Let(held.name, held.dtype, joined, in_lanes=True)


@dataclass(frozen=True, slots=True)
class _PointFolds:
    """What folds over the rows do at a point of them: the arrays they need, what is done in each
    row's lane, and what when all lanes are done."""

    arrays: tuple[Node, ...]
    each: tuple[Node, ...]
    after: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Strip:
    """A strip of up to so many rows: a `lane` for each. `group` neighbours share what they fold
    to."""

    lane: Axis
    parameters: CpuRowParameters
    group: int
    rows: int

    def once_a_row(self, stage: Sweep) -> list[Node]:
        """A stage without axes; later ones read what it makes lane by lane."""
        made = [self.array(node.name, node.dtype) for node in stage.code]
        over_rows = self._point_folds(stage.folds_over_rows, {lanes.name for lanes in made})
        parts = tuple(map(as_lane, stage.code)), (*over_rows.each, *stage.stores)
        loops = [self.each_row(part) for part in parts if part]
        return [*made, *over_rows.arrays, *loops, *over_rows.after]

    def swept(self, sweep: Sweep, before: set[str]) -> list[Node]:
        """A stage with axes, after what was made `before`."""
        held, elsewhere = self.lane_folds(sweep)
        over_rows = self._point_folds(elsewhere)
        loop = self._elements(sweep, held, over_rows, before)
        blocked = [fold for fold in held if fold.in_blocks]
        if blocked:
            loop = self._in_blocks(loop, blocked)
        carries = map(carry_of, sweep.scans)
        return [
            *(fold.array(fold.lanes, self.lane.extent) for fold in held),
            *(self.array(carry.name, carry.dtype, carry.fill) for carry in carries),
            *over_rows.arrays,
            *nested(sweep.axes[:-1], Binding.SERIAL, (loop,)),
            *self.results([fold for fold in held if fold.over_rows is None]),
            *(
                node
                for fold in held
                if fold.over_rows is not None
                for node in self._joined(fold.over_rows, fold.lanes)
            ),
        ]

    def scanned(self, sweep: Sweep) -> Loop:
        """A stage with axes that scans on from carries that there are."""
        return self._elements(sweep, [], self._point_folds(()), before=set())

    def lane_folds(self, sweep: Sweep) -> tuple[list[LaneFold], list[Fold]]:
        """The folds that have a lane for each row, and those over the rows that have none: where a
        row adds to one place, it is folded by itself first."""
        is_short = point_count(sweep.axes) <= self.parameters.strip_block

        def held(fold: Fold, over_rows: Fold | None = None) -> LaneFold:
            kept = fold.dtype if is_short else wide(fold)
            in_blocks = kept is not fold.dtype and not sweep.stores
            return LaneFold(fold, kept, in_blocks, over_rows)

        folds = [held(fold) for fold in sweep.folds_of_row]
        elsewhere: list[Fold] = []
        for fold in sweep.folds_over_rows:
            if any(map(fold.at.coefficient, sweep.axes)):
                elsewhere.append(fold)
            else:
                folds.append(held(replace(fold, name=own_name(fold.name), slots=None), fold))
        return folds, elsewhere

    def _elements(
        self, sweep: Sweep, held: list[LaneFold], over_rows: _PointFolds, before: set[str]
    ) -> Loop:
        """The loop over the innermost elements of all rows. Where nothing needs all lanes to have
        done an element before the next, each lane does a few of them in a register."""
        shared, own = _code_across(sweep, self.lane, before)
        joined = (fold.joined() for fold in held)
        each = (*point_by_point(own), *joined, *over_rows.each, *sweep.stores)
        if sweep.stores or over_rows.after or sweep.checks:
            nodes = (*shared, self.each_row(each), *over_rows.after)
            return Loop(sweep.axes[-1], Binding.SERIAL, nodes)
        return Loop(sweep.axes[-1], Binding.UNROLLED, each, self._elements_of_round(sweep))

    def _elements_of_round(self, sweep: Sweep) -> int:
        """How many elements of each row are folded while its lane is in a register."""
        given = self.parameters
        if self.rows < given.short_strip:
            return given.unrolled_short
        return given.unrolled_costly if takes_costly(sweep) else given.unrolled

    def _in_blocks(self, elements: Loop, folds: list[LaneFold]) -> Loop:
        """Blocks of elements, each of which folds join to their wider lanes when it is done."""
        arrays = (fold.array(fold.block, self.lane.extent) for fold in folds)
        flush = self.each_row(fold.flushed() for fold in folds)
        nodes = (*arrays, elements, flush)
        return Loop(elements.axis, Binding.BLOCKS, nodes, self.parameters.strip_block)

    def results(self, folds: list[LaneFold]) -> list[Node]:
        """What folds of a row come to, which a group of rows shares."""
        if not folds:
            return []
        shared: list[Node] = []
        if self.group > 1:
            shared += (JoinGroups(f.lanes, f.fold.operation, self.group) for f in folds)
        arrays = (self.array(held.fold.name, held.fold.dtype) for held in folds)
        return [*shared, *arrays, self.each_row(held.result() for held in folds)]

    def _point_folds(self, folds: Iterable[Fold], arrays_made: Container[str] = ()) -> _PointFolds:
        """Where rows have places of their own, each adds to its own; else what they make of the
        point is joined first, in an array that was made of it or in one of the fold's own."""
        arrays: list[Node] = []
        each: list[Node] = []
        after: list[Node] = []
        for fold in folds:
            if fold.at.coefficient(self.lane):
                each += accumulated([fold])
                continue
            if _is_array(fold.value, fold.dtype, arrays_made):
                after += self._joined(fold, fold.value)
                continue
            own = Ref(own_name(fold.name), fold.dtype)
            arrays.append(self.array(own.name, own.dtype))
            each.append(Let(own.name, own.dtype, convert(fold.value, own.dtype), in_lanes=True))
            after += self._joined(fold, own)
        return _PointFolds(tuple(arrays), tuple(each), tuple(after))

    def _joined(self, fold: Fold, held: Ref) -> list[Node]:
        """Folds what lanes hold over the rows: into a place of each, or, joined, into that of
        all."""
        each = accumulated([replace(fold, value=held)])
        if fold.at.coefficient(self.lane):
            return [self.each_row(each)]
        if step_along(fold.at, self.lane) is None:  # some to one place, others to another
            return [Loop(self.lane, Binding.STRIP_IN_TURN, tuple(each))]
        whole, arrays = Ref(f"{fold.name}_strip", wide(fold)), (held.name,)
        count, operation = self.lane.extent, fold.operation
        combine = Combine(whole.name, whole.dtype, arrays, held.dtype, count, operation)
        return [combine, *accumulated([replace(fold, value=whole)])]

    def array(self, name: str, dtype: DataType, fill: Literal | None = None) -> Lanes:
        """An array of a lane for each row."""
        return Lanes(name, dtype, self.lane.extent, fill)

    def each_row(self, nodes: Iterable[Node]) -> Loop:
        return Loop(self.lane, Binding.STRIP_LANES, tuple(nodes))


def _is_array(value: Expression, dtype: DataType, made: Container[str]) -> TypeGuard[Ref]:
    """Whether a value has an array with an element for each row, of a type in which lanes are
    joined; truth values are joined as choices."""
    is_made = isinstance(value, Ref) and value.name in made
    return is_made and value.dtype is dtype and dtype is not DataType.Bool


def _code_across(sweep: Sweep, lane: Axis, before: set[str]) -> tuple[list[Code], list[Code]]:
    """What a point does once for all of its rows, and what in the lane of each. Compilers find the
    former themselves, but for checks of an index and what follows from them."""
    if not sweep.checks:
        return [], list(sweep.code)
    shared, _ = divided(sweep.code, lane, before)
    return shared, [node for node in sweep.code if node not in shared]
