"""Few neighbouring rows on a processor: columns of long lines of memory, which threads share out.

    mean and variance of the columns of T0 [25088, 256]; rows are columns, a line has 256 of them
      lines over threads: for each column: fold T0 into the thread's part of it      join the parts
      for each column: T2 = T1 / count
      lines over threads: for each column: fold (T0 - T2)^2                          join the parts
      lines over threads: for each column: store (T0 - T2) * T3

A strip of few rows would be a short piece of every line. Here each sweep goes over its lines as
rows, and what was a row is a place in them, of which a thread has a fold of its own. What rows know
after a sweep is kept in arrays, an element a row. A sweep that scans goes over a thread's lines
twice: for the totals of all columns, and, from those of the lines before, for the scan.
"""

from __future__ import annotations

import dataclasses

from fuser.ir.dtypes import DataType
from fuser.schedule.code.axes import replace_axes
from fuser.schedule.code.row_body import Fold, RowBody, Sweep, contents, names_in
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import Axis, lanes_of, of_axis
from fuser.schedule.rows.buffers import takes_costly
from fuser.schedule.rows.cpu.across import as_across, shared_strip
from fuser.schedule.rows.cpu.along import along_rows
from fuser.schedule.rows.cpu.folds import thread_partial, widened_blocks
from fuser.schedule.rows.cpu.sweeps import Ways
from fuser.schedule.rows.scans import scans_in_parts
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.expressions import Ref, join
from fuser.schedule.tree.folds import neutral
from fuser.schedule.tree.loop_tree import Loop, Node, Region, nested
from fuser.schedule.tree.names import block_name
from fuser.schedule.tree.row_statements import Accumulate, Finish, Keep, Kept, Partial, RowArray
from fuser.schedule.tree.statements import Lanes, Let
from fuser.segmenter.refusal import Refusal


def as_lines(body: RowBody, parameters: CpuRowParameters) -> RowBody | Refusal:
    """Rows as columns, if they neighbour each other in memory, and are few, and long."""
    if isinstance(across := as_across(body, parameters), Refusal):
        return across
    if len(body.rows) != 1:
        return Refusal("rows have several axes")
    scanned, count = any(sweep.scans for sweep in body.stages), body.rows[0].extent
    most = parameters.most_scanned_columns if scanned else parameters.most_columns
    if count > most:
        return Refusal(f"{count} rows are more than {most}")
    fewest = parameters.fewest_scanned_lines if scanned else parameters.fewest_lines
    longest = max((point_count(sweep.axes) for sweep in body.swept), default=0)
    if longest < fewest:
        return Refusal(f"a row has {longest} elements, fewer than {fewest}")
    if body.folds_over_rows or body.epilogue:
        return Refusal("something is folded over the rows")
    if not all(map(scans_in_parts, body.stages)):
        return Refusal("a row is scanned, and not in parts")
    if any(sweep.checks for sweep in body.stages):
        return Refusal("a row checks an index")
    return body


def lines(body: RowBody, ways: Ways) -> tuple[Node, ...]:
    """For each sweep a loop over lines; in between, loops over columns."""
    mapping = _Lines(body, ways)
    return tuple(node for number in range(len(body.stages)) for node in mapping.stage(number))


class _Lines:
    def __init__(self, body: RowBody, ways: Ways) -> None:
        self._body = body
        (self._columns,) = body.rows
        self._ways, self._parameters = ways, ways.parameters
        self._known: dict[str, DataType] = {}
        """What every column knows."""

    def stage(self, number: int) -> list[Node]:
        """The loops of one stage."""
        sweep = self._body.stages[number]
        later = set(names_in(contents(self._body.stages[number + 1 :])))
        if not sweep.axes:
            made = {node.name: node.dtype for node in sweep.code if node.name in later}
            inside = (*self._read(sweep, self._columns), *sweep.code, *self._keep(made))
            loop = Loop(self._columns, Binding.SIMD, (*inside, *sweep.stores))
            return [*self._arrays(made), loop]
        if sweep.scans:
            return [self._scanned(sweep)]
        over = [dataclasses.replace(f, slots=self._columns.extent) for f in sweep.folds]
        by_line = self._goes_by_line(sweep)
        swept = self._in_lines(sweep, over) if by_line else self._in_blocks(sweep, over)
        partials = tuple(map(thread_partial if by_line else _unblocked, over))
        if not over:
            return [Region((), swept, ())]
        made = {fold.name: fold.dtype for fold in over}
        finished = [Finish(partial, of_axis(self._columns)) for partial in partials]
        joined = Loop(self._columns, Binding.JOINED, (*finished, *self._keep(made)))
        return [*self._arrays(made), Region(partials, swept, (joined,))]

    def _goes_by_line(self, sweep: Sweep) -> bool:
        """Whether each line is a loop of its own. A sweep goes by blocks of lines, which read and
        write their folds once, where lines are short, or little is computed and nothing stored."""
        is_wide = self._columns.extent >= self._parameters.wide_line
        return is_wide and bool(sweep.stores or takes_costly(sweep))

    def _in_lines(self, sweep: Sweep, over: list[Fold]) -> tuple[Node, ...]:
        """A sweep line by line, in the order of memory."""
        own = dataclasses.replace(
            sweep,
            axes=self._body.rows,
            code=(*self._read(sweep, self._columns), *sweep.code),
            folds=tuple(dataclasses.replace(f, at=of_axis(self._columns)) for f in over),
        )
        body = RowBody(sweep.axes, (), (own,), ())
        return (*along_rows(body, self._ways), *widened_blocks(body, 1))

    def _in_blocks(self, sweep: Sweep, over: list[Fold]) -> tuple[Node, ...]:
        """A sweep of some lines at a time, for each column: what a block of them folds to, in the
        type of the fold, is joined to what the thread has of it."""
        sweep, lane = self._side_by_side(sweep, self._parameters.most_columns)
        count = lane.extent
        *outer, inner = sweep.axes
        arrays: list[Node] = []
        each: list[Node] = []
        flush: list[Node] = []
        for fold, own in zip(sweep.folds, over, strict=True):
            block = Ref(block_name(fold.name), fold.dtype)
            fill = neutral(fold.operation, block.dtype)
            arrays.append(Lanes(block.name, block.dtype, count, fill))
            joined = join(fold.operation, block, fold.value)
            each.append(Let(block.name, block.dtype, joined, in_lanes=True))
            flush.append(Accumulate(_unblocked(own), of_axis(lane), block))
        code = (*self._read(sweep, lane), *sweep.code, *each, *sweep.stores)
        given = self._parameters
        several = given.unrolled_short if count < given.wide_line else given.unrolled
        lines = Loop(inner, Binding.UNROLLED, code, several)
        flushed = (Loop(lane, Binding.STRIP_LANES, tuple(flush)),) if flush else ()
        strip = Loop(self._columns, Binding.COLUMNS, (*arrays, lines, *flushed), count)
        unit = given.unrolled if over and not outer else 1
        block = Loop(inner, Binding.BLOCKS, (strip,), given.strip_block, unit=unit)
        return nested(outer, Binding.PARALLEL, (block,))

    def _scanned(self, sweep: Sweep) -> Loop:
        """A sweep that scans all columns, some lines of each thread at a time."""
        sweep, lane = self._side_by_side(sweep, self._parameters.most_scanned_columns)
        sweep = dataclasses.replace(sweep, code=(*self._read(sweep, lane), *sweep.code))
        share = shared_strip(sweep, lane, self._columns.extent, self._parameters)
        return Loop(self._columns, Binding.COLUMNS, (share,), lane.extent)

    def _side_by_side(self, sweep: Sweep, most: int) -> tuple[Sweep, Axis]:
        """A sweep in a lane of each column, of which a kernel has room for as many as that axis is
        long: of few columns, no more than there are."""
        count = self._columns.extent
        lane, _ = lanes_of(self._columns, count if count < self._parameters.wide_line else most)
        return replace_axes(sweep, {self._columns: of_axis(lane)}), lane

    def _read(self, sweep: Sweep, axis: Axis) -> list[Kept]:
        """What a sweep reads of what every column knows."""
        read = set(names_in(contents([sweep])))
        return [Kept(name, dtype, (axis,)) for name, dtype in self._known.items() if name in read]

    def _keep(self, made: dict[str, DataType]) -> list[Keep]:
        """What makes values known from here on."""
        self._known |= made
        return [Keep(name, dtype, self._body.rows) for name, dtype in made.items()]

    def _arrays(self, made: dict[str, DataType]) -> list[Node]:
        return [RowArray(name, dtype, self._body.rows) for name, dtype in made.items()]


def _unblocked(fold: Fold) -> Partial:
    """What a thread keeps of a fold that blocks of lines are joined to."""
    return dataclasses.replace(thread_partial(fold), in_blocks=False)
