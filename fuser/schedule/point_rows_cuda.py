"""Points as rows of a GPU: where rows are not aligned, vectors that begin elsewhere in each.

    T0 [8192, 30522] BFloat16 * T1 [8192, 1]
      by points   4 bytes at a time, and an index divided for each
      by rows     T1 once; 16 bytes at a time from where T0 is aligned, and single elements before
                  and after

All that a thread reads of its part of a row is loaded before it computes. Where an index is
gathered by, aligned rows are such, too: it is read and checked once for a part.
"""

from __future__ import annotations

from fuser.schedule.body import Body
from fuser.schedule.counts import ceil_div
from fuser.schedule.cuda_parameters import CudaRowParameters
from fuser.schedule.index import Axis
from fuser.schedule.row_body import RowBody, Sweep, indices_in
from fuser.schedule.row_vectors import divided, vectors_for
from fuser.schedule.statements import Load
from fuser.schedule.vectors import ACCESS_BYTES, Alignments, step_along
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
    if vectors.lanes <= lanes or not _is_long(inner, vectors.lanes, parameters):
        return None
    of_row = (Sweep((), tuple(same), (), ()),) if same else ()
    return RowBody(tuple(rows), body.prologue, (*of_row, swept), ())


def may_stream(body: RowBody, parameters: CudaRowParameters) -> bool:
    """Whether rows are swept once and fold nothing, along an axis that is long enough for teams."""
    swept = [sweep for sweep in body.stages if sweep.axes]
    if len(swept) != 1 or len(swept[0].axes) != 1 or not body.rows:
        return False
    (sweep,) = swept
    if any(isinstance(node, Load) and node.drawn is not None for node in sweep.code):
        return False
    if sweep.scans or any(other.stores or other.folds for other in body.stages if other != sweep):
        return False
    sizes = [store.tensor.dtype.itemsize for store in sweep.stores]
    return not sweep.folds and _is_long(sweep.axes[0], ACCESS_BYTES // min(sizes), parameters)


def _is_long(axis: Axis, lanes: int, parameters: CudaRowParameters) -> bool:
    """Whether a warp finds something to do in a row, and a grid has blocks enough for its parts."""
    return 32 <= ceil_div(axis.extent, lanes) <= _MOST_PARTS * parameters.grid_threads
