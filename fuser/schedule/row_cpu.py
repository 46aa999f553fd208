"""Row body -> loop tree for a processor: rows over threads, and lanes along the row or across rows.

    along     for each row: for each `lanes` elements of it: fold each into its lane; join the lanes
    across    for each `strip` neighbouring rows: for each element of theirs: fold into a lane each
    whole     for each row, in a lane: all elements of it, one after the other

Lanes go where memory is consecutive: along the row for a sum over the last dimension, across rows
for one over the first; rows of a few elements are whole. `CpuRowParameters` has the numbers. Sums
of float32 are kept in float64.
"""

from __future__ import annotations

from fuser.ir.dtypes import DataType
from fuser.schedule.counts import point_count
from fuser.schedule.cpu_parameters import CpuRowParameters
from fuser.schedule.in_place import rows_refusal
from fuser.schedule.loop_nest import Launch, LoopNest
from fuser.schedule.loop_tree import Binding, Finish, Node, Region, nested
from fuser.schedule.names import kernel_name
from fuser.schedule.narrow import narrow_rows
from fuser.schedule.past_cache import goes_past_cache
from fuser.schedule.row_across_cpu import across_rows
from fuser.schedule.row_along_cpu import along_rows, rows_alone
from fuser.schedule.row_axes import arrange_rows, lanes_across_rows
from fuser.schedule.row_body import RowBody
from fuser.schedule.row_facts import use_facts
from fuser.schedule.row_folds_cpu import thread_partial, widened_blocks
from fuser.schedule.row_groups_cpu import alternating
from fuser.schedule.row_lines_cpu import are_lines, lines
from fuser.schedule.row_memory import cost
from fuser.schedule.row_nan import drop_repeated_nan
from fuser.schedule.row_tiles_cpu import in_tiles
from fuser.schedule.row_trace import trace_rows
from fuser.schedule.row_whole_cpu import whole_order, whole_rows
from fuser.segmenter import Segment


def schedule_rows_cpu(segment: Segment, parameters: CpuRowParameters) -> LoopNest:
    """The loop nest of a segment with reductions or gathers."""
    body = arrange_rows(trace_rows(segment, of_store=True))
    body = drop_repeated_nan(narrow_rows(use_facts(body)))
    may_repeat = not segment.overwritten  # values that are new then
    whole = whole_order(body, parameters)
    columns = None if whole or not may_repeat else alternating(body, parameters)
    body = whole or (columns.body if columns else body)
    across = bool(whole or columns) or lanes_across_rows(body)
    alone = not across and rows_alone(body, parameters)
    tiled = None if across or alone or not may_repeat else in_tiles(body, parameters)
    body = tiled or body
    shared = bool(body.rows) or alone  # else one thread has the only row
    if across and not (whole or columns) and are_lines(body, parameters):
        described, nodes = "columns of lines", lines(body, parameters, may_repeat)
    else:
        if whole is not None:
            described, mapped = "a row a lane", whole_rows(body, parameters, may_repeat)
        elif columns is not None:
            described = "columns of rows that alternate"
            mapped = across_rows(body, parameters, columns.group, columns.unit)
        elif across:
            described, mapped = "lanes across rows", across_rows(body, parameters)
        else:
            described = "lanes along rows" + (" of tiles" if tiled else "")
            mapped = along_rows(body, parameters, may_repeat, alone)
        partials = tuple(map(thread_partial, body.folds_over_rows))
        mapped = (*mapped, *widened_blocks(body, 1))
        nodes = (Region(partials, mapped, _epilogue(body), threaded=shared),)
    return LoopNest(
        name=kernel_name("rows", segment),
        axes=body.axes,
        prologue=body.prologue,
        body=nodes,
        launch=Launch(
            threaded=shared and _work(body) >= parameters.processor.serial_work,
            past_cache=goes_past_cache(segment, parameters.processor.stream_bytes),
        ),
        index_dtype=DataType.Int,
        mapping=f"cpu rows, {described}",
        parameters=parameters,
        overwrite_refusal=rows_refusal(segment, body, by_team=False),
    )


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
