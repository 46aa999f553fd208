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
from collections.abc import Callable, Sequence
from typing import TypeVar, assert_never

from fuser.ir.dtypes import DataType
from fuser.schedule.bindings import Binding
from fuser.schedule.choice import NotChosen, first_that_fits
from fuser.schedule.counts import point_count
from fuser.schedule.cpu_parameters import CpuRowParameters
from fuser.schedule.in_place import rows_refusal
from fuser.schedule.index_comparisons import rows_in_32_bits
from fuser.schedule.loop_nest import Launch, LoopNest
from fuser.schedule.loop_tree import Node, Piece, Region, nested
from fuser.schedule.names import kernel_name
from fuser.schedule.normal_cdfs import join_normal_cdfs_in_rows
from fuser.schedule.past_cache import goes_past_cache
from fuser.schedule.row_across_cpu import Across, across_rows, as_across
from fuser.schedule.row_alone_cpu import Alone, as_alone, rows_alone
from fuser.schedule.row_along_cpu import Along, along_rows, batched_rows
from fuser.schedule.row_axes import arrange_rows
from fuser.schedule.row_batches_cpu import Batched, in_batches
from fuser.schedule.row_body import RowBody
from fuser.schedule.row_facts import use_facts
from fuser.schedule.row_folds_cpu import thread_partial, widened_blocks
from fuser.schedule.row_groups_cpu import Columns, alternating
from fuser.schedule.row_lines_cpu import Lines, as_lines, lines
from fuser.schedule.row_memory import cost
from fuser.schedule.row_nan import drop_repeated_nan
from fuser.schedule.row_online import online_pair
from fuser.schedule.row_pieces import row_pieces
from fuser.schedule.row_ranks import fold_ranks
from fuser.schedule.row_statements import Finish
from fuser.schedule.row_tiles_cpu import Tiled, in_tiles, in_whole_tiles
from fuser.schedule.row_trace import trace_rows
from fuser.schedule.row_whole_cpu import Whole, as_whole, whole_rows
from fuser.segmenter import Segment
from fuser.segmenter.rows import Refusal

Fits = TypeVar("Fits")


RowMapping = Whole | Columns | Lines | Across | Alone | Tiled | Batched | Along
"""How rows go to threads and lanes."""


def schedule_rows_cpu(segment: Segment, parameters: CpuRowParameters) -> LoopNest:
    """The loop nest of a segment with reductions or gathers."""
    traced = arrange_rows(trace_rows(segment, of_store=True))
    may_repeat = not segment.overwritten  # values that are new then
    pieces = [
        _mapped(piece, parameters, may_repeat)
        for piece in row_pieces(traced, parameters.most_pieces)
    ]
    longest = max(pieces, key=lambda piece: _work(piece.body))
    words = dict.fromkeys(_WORDS[type(piece.mapping)] for piece in pieces)
    if len(pieces) > 1:
        words = {f"{len(pieces)} pieces": None, **words}
    threaded = any(piece.shared for piece in pieces)
    work = sum(_work(piece.body) for piece in pieces)
    return LoopNest(
        name=kernel_name("rows", segment),
        axes=tuple(dict.fromkeys(axis for piece in pieces for axis in piece.body.axes)),
        prologue=tuple(dict.fromkeys(node for piece in pieces for node in piece.body.prologue)),
        body=_all_loops([_loops(piece, parameters, may_repeat) for piece in pieces]),
        launch=Launch(
            threaded=threaded and work >= parameters.processor.serial_work,
            past_cache=goes_past_cache(segment, parameters.processor.stream_bytes),
        ),
        index_dtype=DataType.Int,
        mapping=f"cpu rows, {', '.join(words)}",
        parameters=parameters,
        overwrite_refusal=rows_refusal(segment, *(piece.body for piece in pieces), by_team=False),
        not_chosen=longest.not_chosen,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Mapped:
    """How all rows are done, or some of them: whether threads share them out, and why mappings that
    come before were not chosen."""

    mapping: RowMapping
    shared: bool
    not_chosen: tuple[NotChosen, ...]

    @property
    def body(self) -> RowBody:
        return self.mapping.body


def _mapped(body: RowBody, parameters: CpuRowParameters, may_repeat: bool) -> _Mapped:
    body = join_normal_cdfs_in_rows(body)
    body = drop_repeated_nan(rows_in_32_bits(use_facts(body)))
    online = online_pair(body, parameters) if may_repeat else None
    body = fold_ranks(body, but=online[0] if online else None)
    mapping, not_chosen = choose_mapping(body, parameters, may_repeat)
    if not isinstance(mapping, Along | Tiled):  # only these may sum online
        mapping = dataclasses.replace(mapping, body=fold_ranks(mapping.body))
    shared = bool(mapping.body.rows) or isinstance(mapping, Alone)  # else one thread has the row
    return _Mapped(mapping, shared, not_chosen)


def _all_loops(loops: Sequence[tuple[Node, ...]]) -> tuple[Node, ...]:
    return loops[0] if len(loops) == 1 else tuple(map(Piece, loops))


def choose_mapping(
    body: RowBody, parameters: CpuRowParameters, may_repeat: bool
) -> tuple[RowMapping, tuple[NotChosen, ...]]:
    """The first mapping that fits, and why those before it do not. Some do elements twice, which
    only those that `may_repeat` allow."""

    def if_repeated(fits: Callable[[RowBody, CpuRowParameters], Fits]) -> Fits | Refusal:
        return fits(body, parameters) if may_repeat else Refusal("an input is updated in place")

    return first_that_fits(
        {
            _WORDS[Whole]: lambda: as_whole(body, parameters),
            _WORDS[Columns]: lambda: if_repeated(alternating),
            _WORDS[Lines]: lambda: as_lines(body, parameters),
            "whole rows of tiles": lambda: if_repeated(in_whole_tiles),
            _WORDS[Across]: lambda: as_across(body, parameters),
            _WORDS[Alone]: lambda: as_alone(body, parameters),
            _WORDS[Tiled]: lambda: if_repeated(in_tiles),
            _WORDS[Batched]: lambda: if_repeated(in_batches),
            _WORDS[Along]: lambda: Along(body),
        }
    )


_WORDS: dict[type[RowMapping], str] = {
    Whole: "a row a lane",
    Columns: "columns of rows that alternate",
    Lines: "columns of lines",
    Across: "lanes across rows",
    Alone: "lanes along rows, each shared out over threads",
    Tiled: "lanes along rows of tiles",
    Batched: "lanes along rows in batches",
    Along: "lanes along rows",
}


def _loops(piece: _Mapped, parameters: CpuRowParameters, may_repeat: bool) -> tuple[Node, ...]:
    """The loops over rows, and what is done after all of them."""
    mapping, body = piece.mapping, piece.body
    match mapping:
        case Lines():
            return lines(body, parameters, may_repeat)
        case Whole():
            mapped = whole_rows(body, parameters, may_repeat)
        case Columns(group=group, unit=unit):
            mapped = across_rows(body, parameters, group, unit)
        case Across():
            mapped = across_rows(body, parameters)
        case Alone():
            mapped = rows_alone(body, parameters, may_repeat)
        case Batched():
            mapped = batched_rows(body, parameters)
        case Tiled() | Along():
            mapped = along_rows(body, parameters, may_repeat)
        case _:
            assert_never(mapping)
    partials = tuple(map(thread_partial, body.folds_over_rows))
    mapped = (*mapped, *widened_blocks(body, 1))
    return (Region(partials, mapped, _epilogue(body), threaded=piece.shared),)


def _epilogue(body: RowBody) -> tuple[Node, ...]:
    partials = {fold.name: thread_partial(fold) for fold in body.folds_over_rows}
    nodes: list[Node] = []
    for sweep in body.epilogue:
        finished = [Finish(partials[fold.name], fold.at) for fold in sweep.folds]
        inside = (*finished, *sweep.code, *sweep.stores)
        nodes += nested(sweep.axes, Binding.SERIAL, inside)
    return tuple(nodes)


def _work(body: RowBody) -> int:
    """Instructions for all rows, roughly."""
    return point_count(body.rows) * sum(
        point_count(sweep.axes) * cost(sweep) for sweep in body.stages
    )
