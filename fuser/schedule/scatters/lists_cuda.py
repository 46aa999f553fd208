"""Scatters by lists of points on a GPU: every element of the result is made once, by one thread.

The blocks of one launch make the lists, and then the rows. A warp takes some rows and a chunk of
their columns, and walks the points of one row after the other. A row with many points is cut into
pieces, for a warp each, of which the last one to finish has the sum of all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fuser.ir.nodes import Value
from fuser.schedule.code.in_place import scatter_refusal
from fuser.schedule.code.row_body import Code, Sweep, indices_of, names_in, nodes_read
from fuser.schedule.cuda_parameters import WARP, CudaRowParameters
from fuser.schedule.indices.width import index_dtype
from fuser.schedule.scatters.elements import scatter_of, starts_from
from fuser.schedule.scatters.lanes import lanes_kept, lanes_of_warp, sweep_in_lanes
from fuser.schedule.scatters.lists import ListBody, trace_lists
from fuser.schedule.tree.bindings import Binding, Team
from fuser.schedule.tree.buffers import Alignments, Buffers
from fuser.schedule.tree.counts import ceil_div, point_count, power_of_two
from fuser.schedule.tree.loop_nest import Launch, LoopNest
from fuser.schedule.tree.loop_tree import Loop, nested
from fuser.schedule.tree.names import kernel_name
from fuser.schedule.tree.row_statements import Kept
from fuser.schedule.tree.scatter_nodes import ByLists, PointLists, PointOf, WarpRows
from fuser.schedule.tree.statements import Store
from fuser.segmenter import Segment


def schedule_lists_cuda(
    segment: Segment, alignments: Alignments, parameters: CudaRowParameters
) -> LoopNest:
    """The loop nest of a segment with a scatter that joins, and makes all of its result."""
    statement, op = scatter_of(segment)
    buffers = Buffers(segment.memory, alignments)
    body = trace_lists(segment, op.arg.dtype.compute)
    listed, inner = body.listed, body.begun.axes[-1]
    name = str(statement.out)
    lanes = lanes_of_warp(buffers, (body.begun, body.given, body.last), parameters)
    place = (*listed.code, PointOf(name, listed.number, listed.row))
    lists = PointLists(name, listed.rows, listed.points, nested(listed.axes, Binding.TEAM, place))
    assert op.joins is not None, "threads that overwrite are in no order"
    rows = _rows(body, statement.out, op.joins, lanes, parameters)
    warps = rows.cut_by + ceil_div(point_count(rows.axes), rows.tile) * rows.chunks
    threads = WARP * parameters.scatter_warps
    blocks = 2 * ceil_div(listed.points, threads) + ceil_div(listed.rows, threads)
    blocks += ceil_div(warps, parameters.scatter_warps)
    once = (Sweep((), code) for code in (listed.code, body.of_row, body.of_point))
    sweeps = (body.begun, body.given, body.last, *once)
    indices = [listed.number, *indices_of(sweeps)]
    return LoopNest(
        name=kernel_name("scatter", segment),
        axes=tuple(dict.fromkeys((*listed.axes, *rows.axes, inner))),
        prologue=body.prologue,
        body=(ByLists(lists, rows),),
        launch=Launch((blocks, 1, 1), (WARP, parameters.scatter_warps, 1), threads),
        index_dtype=index_dtype(
            segment, indices, blocks * threads, rows.pieces * rows.copies * rows.chunks
        ),
        mapping=f"cuda scatter, by lists of points, {lanes} column(s) a thread",
        parameters=parameters,
        overwrite_refusal=scatter_refusal(segment),
        team=Team.WARP,
    )


def _rows(
    body: ListBody, out: Value, joins: str, lanes: int, parameters: CudaRowParameters
) -> WarpRows:
    (kept,) = (node for node in body.last.code if isinstance(node, Kept))
    *others, inner = body.begun.axes
    axes, points = (*others, *body.outside, *body.rows), body.listed.points
    added, base = (lanes_kept(sweep, out, lanes) for sweep in (body.given, body.begun))
    finish = sweep_in_lanes(body.last, lanes)
    finish = tuple(node for node in finish if node not in (kept, replace(kept, lanes=lanes)))
    copies, chunks = point_count((*others, *body.outside)), ceil_div(inner.extent, WARP * lanes)
    longest = _longest(body, copies * chunks, parameters)
    pieces = max(2 * points // longest, 1)
    return WarpRows(
        lists=str(out),
        name=kept.name,
        dtype=kept.dtype,
        axes=axes,
        copies=copies,
        point=body.point.name,
        columns=Loop(inner, Binding.TEAM, (), lanes, whole=True),
        joins=joins,
        of_row=_of_row(body, (*body.of_point, *body.given.code)),
        added=replace(added, code=(*body.of_point, *added.code)),
        base=replace(base, code=(*_of_row(body, body.begun.code), *base.code)),
        finish=(*_of_row(body, (*body.last.code, *body.last.stores)), *finish),
        fill=starts_from(joins, kept.dtype),
        tile=_tile(point_count(axes) * chunks, parameters),
        longest=longest,
        pieces=pieces,
        cut_by=min(pieces * copies * chunks, parameters.scatter_warps * parameters.multiprocessors),
    )


def _of_row(body: ListBody, nodes: Iterable[Code | Store]) -> tuple[Code, ...]:
    """What is done once for a row, of which these nodes need the names."""
    return nodes_read(body.of_row, set(names_in(nodes)), reporting=False)


# -- how many --------------------------------------------------------------------------------------


def _tile(warps: int, parameters: CudaRowParameters) -> int:
    """Rows of a warp, of which there would be so many if each had one: as many as it has lanes,
    which each know of one; fewer, where that leaves the GPU without anything to do."""
    tile, wanted = WARP, 2 * parameters.resident // WARP
    while tile > parameters.fewest_listed_rows and warps < tile * wanted:
        tile //= 2
    return tile


def _longest(body: ListBody, warps: int, parameters: CudaRowParameters) -> int:
    """Points of a row that a warp joins, where so many have each point: more than most rows have,
    whose sums are stored once; but fewer, where that leaves the GPU without anything to do."""
    points, rows = body.listed.points, body.listed.rows
    wanted = max(parameters.resident // WARP, 1)
    each = min(power_of_two(ceil_div(points, rows)), ceil_div(points * warps, 8 * wanted))
    return max(parameters.listed_points, 8 * each)
