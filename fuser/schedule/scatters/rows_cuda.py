"""Scatters of rows with points of their own on a GPU: shared memory joins, and all of a row is
read once and written once.

    for each row, by a warp or a block:
      for i1 < V: T4_row[i1] = T1[i0, i1]
      the threads meet
      for i2 < P: T4_row[T2[i0, i2]] += T3[i0, i2]
      the threads meet
      for i1 < V: T4[i0, i1] = T4_row[i1], and what else is made of it
"""

from __future__ import annotations

from dataclasses import replace

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.ir.scatter import joined_type
from fuser.schedule.code.in_place import scatter_refusal
from fuser.schedule.code.row_body import Sweep, indices_of
from fuser.schedule.cuda_parameters import WARP, CudaRowParameters
from fuser.schedule.indices.width import index_dtype
from fuser.schedule.rows.cuda.lanes import neighbours
from fuser.schedule.rows.vectors import Vectors
from fuser.schedule.scatters.elements import scatter_of
from fuser.schedule.scatters.lanes import lanes_kept, sweep_in_lanes, whole_lanes
from fuser.schedule.scatters.rows import ScatteredRows, trace_scattered_rows
from fuser.schedule.tree.bindings import Binding, Team
from fuser.schedule.tree.buffers import ACCESS_BYTES, Alignments, Buffers
from fuser.schedule.tree.counts import ceil_div, point_count, power_of_two
from fuser.schedule.tree.loop_nest import Launch, LoopNest
from fuser.schedule.tree.loop_tree import Loop, Meet, Node, Region, nested
from fuser.schedule.tree.names import kernel_name
from fuser.schedule.tree.row_statements import Keep, Place, RowArray
from fuser.segmenter import Segment


def schedule_scattered_rows_cuda(
    segment: Segment, alignments: Alignments, parameters: CudaRowParameters
) -> LoopNest:
    """The loop nest of a segment with a scatter whose rows have points of their own."""
    statement, op = scatter_of(segment)
    buffers = Buffers(segment.memory, alignments)
    body = trace_scattered_rows(segment, joined_type(op.arg.dtype))
    lanes = whole_lanes(buffers, (body.begun, body.last), parameters)
    of_points = 1
    if body.added.axes:
        of_points = whole_lanes(buffers, (body.added,), parameters)
    *_, keep = body.begun.code
    assert isinstance(keep, Keep)
    room = _room(keep.dtype, point_count(body.begun.axes))
    team, x, y = _team(body, parameters)
    rows = (
        *body.of_row,
        RowArray(keep.name, keep.dtype, keep.axes, 1, Place.SHARED, room=room),
        *_begun(body.begun, keep, statement.out, lanes),
        Meet(),
        *_added(body, of_points),
        Meet(),
        *_shared_out(body.last, sweep_in_lanes(body.last, lanes), lanes),
    )
    blocks = min(ceil_div(point_count(body.rows), y), parameters.most_blocks)
    sweeps = body.begun, body.added, body.last, Sweep((), body.of_row)
    indices = indices_of(sweeps)
    axes = dict.fromkeys((*body.rows, *body.begun.axes, *body.added.axes))
    return LoopNest(
        name=kernel_name("scatter", segment),
        axes=tuple(axes),
        prologue=body.prologue,
        body=(Region((), nested(body.rows, Binding.TEAMS, rows), ()),),
        launch=Launch(
            *((blocks, 1, 1), (x, y, 1), x * y),
            shared_bytes=y * room * keep.dtype.itemsize,
        ),
        index_dtype=index_dtype(segment, indices, point_count(body.rows) + blocks * y),
        mapping=f"cuda scatter, {team.name.lower()} of {x} x {y}, rows in shared memory",
        parameters=parameters,
        overwrite_refusal=scatter_refusal(segment),
        team=team,
    )


def _begun(sweep: Sweep, keep: Keep, out: Value, lanes: int) -> tuple[Node, ...]:
    """What a row holds before its points."""
    made = lanes_kept(sweep, out, lanes)
    kept = replace(keep, lanes=lanes, source=made.source)
    return _shared_out(sweep, (*made.code, kept), lanes)


def _added(body: ScatteredRows, lanes: int) -> tuple[Node, ...]:
    """What each point adds, some of them at once."""
    sweep = body.added
    if not sweep.axes:
        return sweep.code
    taken = neighbours(sweep, sweep.axes[-1], lanes, Vectors(lanes) if lanes > 1 else None)
    each = Loop(taken.lane, Binding.LANES, taken.each.code)
    return _shared_out(sweep, (*taken.once, each), lanes)


def _shared_out(sweep: Sweep, inside: tuple[Node, ...], lanes: int) -> tuple[Node, ...]:
    """Loops whose points the threads of a team share out."""
    *outer, inner = sweep.axes
    loop = Loop(inner, Binding.TEAM, inside, lanes, whole=inner.extent % lanes == 0)
    return nested(outer, Binding.TEAM, (loop,))


def _room(dtype: DataType, elements: int) -> int:
    """Elements of a row in shared memory, so that the next row is aligned as it is."""
    each = max(ACCESS_BYTES // dtype.itemsize, 1)
    return ceil_div(elements, each) * each


def _team(body: ScatteredRows, parameters: CudaRowParameters) -> tuple[Team, int, int]:
    """Who does a row: a warp where it is short, else a block; its threads, and how many a block."""
    longest = max(point_count(body.begun.axes), point_count(body.added.axes))
    if longest <= parameters.warp_elements:
        return Team.WARP, WARP, parameters.warps
    threads = power_of_two(ceil_div(longest, parameters.elements))
    return Team.BLOCK, min(max(threads, WARP), parameters.threads), 1
