"""Rows on a processor with lanes across rows, where memory is consecutive.

for each `strip` neighbouring rows: for each element of theirs: fold into a lane each

Where all rows of a strip are folded into one place over the rows, each is folded into a lane of its
own first; then the lanes are joined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.schedule.bindings import Binding
from fuser.schedule.counts import arithmetic, point_count
from fuser.schedule.cpu_parameters import CpuRowParameters
from fuser.schedule.emit import convert, join
from fuser.schedule.expressions import Expression, Ref
from fuser.schedule.folds import neutral
from fuser.schedule.index import Axis, lanes_of
from fuser.schedule.loop_tree import Loop, Node, nested
from fuser.schedule.names import block_name, lanes_name, own_name
from fuser.schedule.row_axes import lanes_across_rows, replace_axes
from fuser.schedule.row_body import Code, Fold, RowBody, Sweep, as_lane, dtype_of
from fuser.schedule.row_buffers import COSTLY
from fuser.schedule.row_folds_cpu import accumulated, one_of, wide, widened_blocks
from fuser.schedule.row_scans import carry_of, point_by_point
from fuser.schedule.row_statements import Combine, JoinGroups
from fuser.schedule.row_vectors import divided
from fuser.schedule.statements import CheckedIndex, Lanes, Let, Load
from fuser.schedule.vectors import step_along
from fuser.segmenter.rows import Refusal


@dataclass(frozen=True, slots=True)
class Across:
    """Rows in strips of neighbours."""

    body: RowBody


def as_across(body: RowBody) -> Across | Refusal:
    """Rows in strips, if neighbouring rows are next in memory."""
    if lanes_across_rows(body):
        return Across(body)
    return Refusal("neighbouring elements of a row, not rows, are next in memory")


def across_rows(
    body: RowBody, parameters: CpuRowParameters, group: int = 1, unit: int = 1
) -> tuple[Node, ...]:
    """Loops over strips of neighbouring rows, each with a lane of every fold; `group` neighbours
    share what they fold to. Strips are multiples of `unit` rows."""
    *outer, inner = body.rows
    strip = _strip_rows(body, parameters, unit)
    lane, moved = lanes_of(inner, strip)
    nodes: list[Node] = []
    before: set[str] = set()
    for stage in body.stages:
        sweep = replace_axes(stage, moved)
        if sweep.axes:
            nodes += _sweep_across(sweep, lane, parameters, before, group)
        else:
            nodes += _point_across(sweep, lane)
        before.update(node.name for node in (*sweep.code, *sweep.folds))
    nodes += widened_blocks(body, parameters.row_block, outer, side_by_side=inner)
    loop = Loop(inner, Binding.STRIP, tuple(nodes), strip, unit=unit)
    return nested(outer, Binding.PARALLEL, (loop,))


def _strip_rows(body: RowBody, parameters: CpuRowParameters, unit: int) -> int:
    """How many rows a strip has at most, so that what several sweeps read of it stays in a core's
    own cache."""
    inner = body.rows[-1]
    sweeps: Counter[Value] = Counter()
    swept: dict[Value, int] = {}
    for sweep in body.stages:
        read = {n.tensor for n in sweep.code if isinstance(n, Load) and n.at.coefficient(inner)}
        sweeps.update(read)
        swept.update((tensor, point_count(sweep.axes)) for tensor in read)
    again = [tensor for tensor, count in sweeps.items() if count > 1]
    of_row = sum(swept[tensor] * tensor.dtype.itemsize for tensor in again)
    rows, fewest = parameters.strip, max(unit, parameters.shortest_strip)
    while rows // 2 >= fewest and rows * of_row > parameters.strip_bytes:
        rows //= 2
    return rows


def _point_across(sweep: Sweep, lane: Axis) -> list[Node]:
    """What is done once a row; later stages read it lane by lane."""
    arrays = [Lanes(node.name, dtype_of(node), lane.extent) for node in sweep.code]
    before, each, after = _over_rows(sweep.folds_over_rows, lane)
    parts = tuple(map(as_lane, sweep.code)), (*each, *sweep.stores)
    loops = [Loop(lane, Binding.STRIP_LANES, part) for part in parts if part]
    return [*arrays, *before, *loops, *after]


@dataclass(frozen=True, slots=True)
class _LaneFold:
    """A fold with a lane for each of some rows, `kept` in a type. Of one `in_blocks`, a block of
    elements is folded in the type of the fold first, and joined to the wider lanes when it is
    done."""

    fold: Fold
    kept: DataType
    in_blocks: bool

    @property
    def lanes(self) -> Ref:
        return Ref(lanes_name(self.fold.name), self.kept)

    @property
    def block(self) -> Ref:
        return Ref(block_name(self.fold.name), self.fold.dtype)

    def array(self, held: Ref, count: int) -> Lanes:
        """The lanes, or those of a block, before anything is folded."""
        return Lanes(held.name, held.dtype, count, neutral(self.fold.operation, held.dtype))

    def joined(self) -> Let:
        """What is done at a point."""
        return self._more(self.block if self.in_blocks else self.lanes, self.fold.value)

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


def _sweep_across(
    sweep: Sweep, lane: Axis, parameters: CpuRowParameters, before: set[str], group: int
) -> list[Node]:
    """A sweep of neighbouring rows, after what was made `before`. Long ones are folded in blocks:
    within a block in the type of the fold, over blocks in a wider one."""
    *outer, inner = sweep.axes
    count = lane.extent
    is_short = point_count(sweep.axes) <= parameters.strip_block

    def in_lanes(fold: Fold) -> _LaneFold:
        kept = fold.dtype if is_short else wide(fold)
        return _LaneFold(fold, kept, in_blocks=kept is not fold.dtype and not sweep.stores)

    by_row = [f for f in sweep.folds_over_rows if not any(map(f.at.coefficient, sweep.axes))]
    by_point = [fold for fold in sweep.folds_over_rows if fold not in by_row]
    of_row = [in_lanes(fold) for fold in sweep.folds_of_row]
    own = [in_lanes(replace(fold, name=own_name(fold.name), slots=None)) for fold in by_row]
    folds = (*of_row, *own)
    blocked = [fold for fold in folds if fold.in_blocks]

    own_arrays, each, after_point = _over_rows(by_point, lane)
    shared, own_code = _code_across(sweep, lane, before)
    body = (*point_by_point(own_code), *(fold.joined() for fold in folds), *each, *sweep.stores)
    if sweep.stores or after_point or _checks(sweep):
        lanes = Loop(lane, Binding.STRIP_LANES, body)
        loop = Loop(inner, Binding.SERIAL, (*shared, lanes, *after_point))
    else:
        loop = Loop(inner, Binding.UNROLLED, body, _elements_of_round(sweep, parameters))
    if blocked:
        arrays = (fold.array(fold.block, count) for fold in blocked)
        flush = Loop(lane, Binding.STRIP_LANES, tuple(fold.flushed() for fold in blocked))
        loop = Loop(inner, Binding.BLOCKS, (*arrays, loop, flush), parameters.strip_block)
    carries = (Lanes(c.name, c.dtype, count, c.fill) for c in map(carry_of, sweep.scans))
    nodes = [*(fold.array(fold.lanes, count) for fold in folds), *carries, *own_arrays]
    nodes += nested(outer, Binding.SERIAL, (loop,))
    if group > 1:
        nodes += (JoinGroups(held.lanes, held.fold.operation, group) for held in of_row)
    if of_row:
        nodes += (Lanes(held.fold.name, held.fold.dtype, count) for held in of_row)
        nodes.append(Loop(lane, Binding.STRIP_LANES, tuple(held.result() for held in of_row)))
    for fold, held in zip(by_row, own, strict=True):
        nodes += _joined_rows(fold, held.lanes, lane)
    return nodes


def _elements_of_round(sweep: Sweep, parameters: CpuRowParameters) -> int:
    """How many elements of each row are folded while its lane is in a register."""
    is_costly = any(arithmetic([node]) >= COSTLY for node in sweep.code)
    return parameters.unrolled_costly if is_costly else parameters.unrolled


def _checks(sweep: Sweep) -> bool:
    return any(isinstance(node, CheckedIndex) for node in sweep.code)


def _code_across(sweep: Sweep, lane: Axis, before: set[str]) -> tuple[list[Code], list[Code]]:
    """What a point does once for all of its rows, and what in the lane of each. Compilers find the
    former themselves, but for checks of an index and what follows from them."""
    if not _checks(sweep):
        return [], list(sweep.code)
    shared, _ = divided(sweep.code, lane, before)
    return shared, [node for node in sweep.code if node not in shared]


def _over_rows(folds: Iterable[Fold], lane: Axis) -> tuple[list[Node], list[Node], list[Node]]:
    """What folds over the rows do at a point: before the lanes of its rows, in each, and after."""
    before: list[Node] = []
    each: list[Node] = []
    after: list[Node] = []
    for fold in folds:
        if fold.at.coefficient(lane):
            each += accumulated([fold])
            continue
        own = Ref(own_name(fold.name), fold.dtype)
        before.append(Lanes(own.name, own.dtype, lane.extent))
        each.append(Let(own.name, own.dtype, convert(fold.value, own.dtype), in_lanes=True))
        after += _joined_rows(fold, own, lane)
    return before, each, after


def _joined_rows(fold: Fold, held: Ref, lane: Axis) -> list[Node]:
    """Folds what lanes hold over the rows: into a place of each, or, joined, into that of all."""
    each = tuple(accumulated([replace(fold, value=held)]))
    if fold.at.coefficient(lane):
        return [Loop(lane, Binding.STRIP_LANES, each)]
    if step_along(fold.at, lane) is None:  # some to one place, others to another
        return [Loop(lane, Binding.STRIP_IN_TURN, each)]
    whole, arrays = Ref(f"{fold.name}_strip", wide(fold)), (held.name,)
    combine = Combine(whole.name, whole.dtype, arrays, held.dtype, lane.extent, fold.operation)
    return [combine, *accumulated([replace(fold, value=whole)])]
