"""Row body -> loop tree for a processor: rows over threads, and lanes along the row or across rows.

    along     for each row: for each `lanes` elements of it: fold each into its lane; join the lanes
    across    for each `strip` neighbouring rows: for each element of theirs: fold into a lane each
    whole     for each row, in a lane: all elements of it, one after the other

Lanes go where memory is consecutive: along the row for a sum over the last dimension, across rows
for one over the first; rows of a few elements are whole. `CpuRowParameters` has the numbers. Sums
of float32 are kept in float64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial

from fuser.ir.dtypes import DataType
from fuser.schedule.choice import NotChosen, first_that_fits
from fuser.schedule.code.in_place import rows_refusal
from fuser.schedule.code.index_comparisons import rows_in_32_bits
from fuser.schedule.code.launch_cpu import launch_of
from fuser.schedule.code.normal_cdfs import join_normal_cdfs
from fuser.schedule.code.row_body import RowBody, rewrite_alike
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.cpu.across import across_rows, as_across
from fuser.schedule.rows.cpu.alone import as_alone, rows_alone
from fuser.schedule.rows.cpu.along import along_rows, as_along, batched_rows
from fuser.schedule.rows.cpu.batches import as_batches
from fuser.schedule.rows.cpu.folds import partials_over_rows, widened_blocks
from fuser.schedule.rows.cpu.groups import as_alternating
from fuser.schedule.rows.cpu.invariants import indices_before_loops
from fuser.schedule.rows.cpu.lines import as_lines, lines
from fuser.schedule.rows.cpu.nan import drop_repeated_nan
from fuser.schedule.rows.cpu.online import online_pair
from fuser.schedule.rows.cpu.pieces import row_pieces
from fuser.schedule.rows.cpu.ranks import fold_ranks
from fuser.schedule.rows.cpu.sweeps import Ways
from fuser.schedule.rows.cpu.tiles import as_tiles, as_whole_tiles
from fuser.schedule.rows.cpu.whole import as_whole, whole_rows
from fuser.schedule.rows.facts import use_facts
from fuser.schedule.rows.trace import trace_rows
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.loop_nest import LoopNest
from fuser.schedule.tree.loop_tree import Node, Piece, Region, nested
from fuser.schedule.tree.names import kernel_name
from fuser.schedule.tree.row_statements import Finish
from fuser.segmenter import Segment
from fuser.segmenter.refusal import Refusal

Fits = Callable[[RowBody, CpuRowParameters], RowBody | Refusal]
Loops = Callable[[RowBody, Ways], tuple[Node, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class RowMapping:
    """How rows go to threads and lanes, in `words`: what of a body `fits`, as its loops take it, or
    why it does not; and its `loops`."""

    words: str
    fits: Fits
    loops: Loops
    repeats: bool = False
    """Whether elements are always done twice somewhere."""
    shares_rows: bool = False
    """Whether threads share out each row, so that they may share the only one."""
    has_regions: bool = False
    """Whether what threads fold is joined inside of its loops."""


MAPPINGS = (
    RowMapping("a row a lane", as_whole, whole_rows),
    RowMapping("columns of rows that alternate", as_alternating, across_rows, repeats=True),
    RowMapping("columns of lines", as_lines, lines, has_regions=True),
    RowMapping("lanes along whole rows of tiles", as_whole_tiles, along_rows, repeats=True),
    RowMapping("lanes across rows", as_across, across_rows),
    RowMapping(
        "lanes along rows, each shared out over threads", as_alone, rows_alone, shares_rows=True
    ),
    RowMapping("lanes along rows of tiles", as_tiles, along_rows, repeats=True),
    RowMapping("lanes along rows in batches", as_batches, batched_rows, repeats=True),
    RowMapping("lanes along rows", as_along, along_rows),
)
"""The first one that fits is chosen."""


def schedule_rows_cpu(
    segment: Segment, parameters: CpuRowParameters, *, any_size: bool = True
) -> LoopNest:
    """The loop nest of a segment with reductions or gathers, of a definition that fits inputs of
    `any_size`, or these."""
    traced = arrange_rows(trace_rows(segment, of_store=True))
    ways = Ways(parameters, may_repeat=not segment.overwritten)  # values that are new then
    pieces = [_mapped(piece, ways) for piece in row_pieces(traced, parameters.most_pieces)]
    longest = max(pieces, key=lambda piece: _work(piece.body))
    words = dict.fromkeys(piece.mapping.words for piece in pieces)
    if len(pieces) > 1:
        words = {f"{len(pieces)} pieces": None, **words}
    shared = any(piece.shared for piece in pieces)
    work = sum(_work(piece.body) for piece in pieces)
    loops = [_loops(piece, ways) for piece in pieces]
    short = (axis for piece in pieces for axis in _short_axes(piece, parameters))
    return LoopNest(
        name=kernel_name("rows", segment),
        axes=tuple(dict.fromkeys(axis for piece in pieces for axis in piece.body.axes)),
        prologue=tuple(dict.fromkeys(node for piece in pieces for node in piece.body.prologue)),
        body=loops[0] if len(loops) == 1 else tuple(map(Piece, loops)),
        launch=launch_of(segment, work, parameters.processor, shared=shared),
        index_dtype=DataType.Int,
        mapping=f"cpu rows, {', '.join(words)}",
        parameters=parameters,
        overwrite_refusal=rows_refusal(segment, *(piece.body for piece in pieces), by_team=False),
        not_chosen=longest.not_chosen,
        in_text=frozenset(() if any_size else short),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Mapped:
    """How all rows are done, or some of them, and why mappings that come before were not chosen."""

    mapping: RowMapping
    body: RowBody
    not_chosen: tuple[NotChosen, ...]

    @property
    def shared(self) -> bool:
        """Whether threads share them out; else one thread has the only row."""
        return bool(self.body.rows) or self.mapping.shares_rows


def _short_axes(piece: _Mapped, parameters: CpuRowParameters) -> Iterator[Axis]:
    """What short rows have lanes along, in rounds of which the compiler is to know the number."""
    if piece.mapping.loops in (along_rows, batched_rows):
        for sweep in piece.body.swept:
            if sweep.axes[-1].extent <= parameters.row_in_text:
                yield sweep.axes[-1]


def _mapped(body: RowBody, ways: Ways) -> _Mapped:
    body = rewrite_alike(body, join_normal_cdfs)
    body = drop_repeated_nan(rows_in_32_bits(use_facts(body)))
    online = online_pair(body, ways.parameters) if ways.may_repeat else None
    body = fold_ranks(body, but=online[0] if online else None)
    (mapping, body), not_chosen = choose_mapping(body, ways)
    if mapping.loops is not along_rows:  # only these may sum online
        body = fold_ranks(body)
    return _Mapped(mapping, body, not_chosen)


def choose_mapping(
    body: RowBody, ways: Ways
) -> tuple[tuple[RowMapping, RowBody], tuple[NotChosen, ...]]:
    """The first mapping that fits, with the body for it, and why those before it do not fit."""

    def tried(mapping: RowMapping) -> tuple[RowMapping, RowBody] | Refusal:
        if mapping.repeats and not ways.may_repeat:
            return Refusal("an input is updated in place")
        found = mapping.fits(body, ways.parameters)
        return found if isinstance(found, Refusal) else (mapping, found)

    return first_that_fits({m.words: partial(tried, m) for m in MAPPINGS})


def _loops(piece: _Mapped, ways: Ways) -> tuple[Node, ...]:
    """The loops over rows, and what is done after all of them."""
    mapping, body = piece.mapping, piece.body
    mapped = mapping.loops(body, ways)
    if mapping.has_regions:
        return indices_before_loops(mapped)
    partials = tuple(partials_over_rows(body))
    mapped = (*mapped, *widened_blocks(body, 1))
    region = Region(partials, mapped, _epilogue(body), threaded=piece.shared)
    return indices_before_loops((region,))


def _epilogue(body: RowBody) -> tuple[Node, ...]:
    partials = {partial.name: partial for partial in partials_over_rows(body)}
    nodes: list[Node] = []
    for sweep in body.epilogue:
        finished = [Finish(partials[fold.name], fold.at) for fold in sweep.folds]
        inside = (*finished, *sweep.code, *sweep.stores)
        nodes += nested(sweep.axes, Binding.JOINED, inside)
    return tuple(nodes)


def _work(body: RowBody) -> int:
    """Instructions for all rows, roughly."""
    return point_count(body.rows) * sum(
        point_count(sweep.axes) * sweep.cost for sweep in body.stages
    )
