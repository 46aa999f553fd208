"""Points as rows of a GPU: where rows are not aligned, vectors that begin elsewhere in each.

    T0 [8192, 30522] BFloat16 * T1 [8192, 1]
      by points   4 bytes at a time, and an index divided for each
      by rows     T1 once; 16 bytes at a time from where T0 is aligned, and single elements before
                  and after

All that a thread reads of its part of a row is loaded before it computes.
"""

from __future__ import annotations

from fuser.schedule.body import Body
from fuser.schedule.counts import ceil_div
from fuser.schedule.heuristics import CudaRowParameters
from fuser.schedule.row_body import RowBody, Sweep, indices_in
from fuser.schedule.row_vectors import divided, vectors_for
from fuser.schedule.vectors import Alignments, step_along
from fuser.segmenter import Segment

_MOST_PARTS = 65535
"""Blocks along the second dimension of a grid."""


def as_rows(
    segment: Segment, body: Body, lanes: int, alignments: Alignments, parameters: CudaRowParameters
) -> RowBody | None:
    """The rows of a body that has vectors of `lanes` by points; None where those of rows are no
    wider, or a row has fewer of them than a warp has threads.

    What is divided or clamped along a row stays with points, whose lanes share such an index.
    """
    if len(body.axes) < 2 or any(load.drawn is not None for load in body.loads):
        return None
    *rows, inner = body.axes
    code = (*body.loads, *body.lets)
    indices = [store.at for store in body.stores] + [i for node in code for i in indices_in(node)]
    if any(step_along(index, inner) is None for index in indices):
        return None
    same, _ = divided(code, inner)
    swept = Sweep((inner,), tuple(node for node in code if node not in same), (), body.stores)
    vectors = vectors_for(
        segment, [swept], inner, alignments, parameters, may_peel=True, may_move=True
    )
    count = ceil_div(inner.extent, vectors.lanes)
    if vectors.lanes <= lanes or not 32 <= count <= _MOST_PARTS * parameters.grid_threads:
        return None
    of_row = (Sweep((), tuple(same), (), ()),) if same else ()
    return RowBody(tuple(rows), body.prologue, (*of_row, swept), ())
