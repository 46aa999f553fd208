"""Points as rows of a GPU: loads ahead, and vectors that begin elsewhere in each row.

    T0 [8192, 30522] BFloat16 * T1 [8192, 1]
      by points   4 bytes at a time, and an index divided for each
      by rows     T1 once; 16 bytes at a time from where T0 is aligned, and single elements before
                  and after

All that a thread reads of its part of a row is loaded before it computes. So aligned rows are
such, too, where one access for a vector is too little to keep memory busy, and where an index is
gathered by: it is read and checked once for a part.
"""

from __future__ import annotations

from fuser.schedule.code.body import Body
from fuser.schedule.code.cuda_blocks import MOST_BLOCKS
from fuser.schedule.code.row_body import RowBody, Sweep
from fuser.schedule.cuda_parameters import WARP, CudaRowParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.rows.cuda.kept import loads_to_keep
from fuser.schedule.rows.vectors import Vectors, divided, vectors_for
from fuser.schedule.tree.buffers import ACCESS_BYTES, Buffers
from fuser.schedule.tree.counts import arithmetic, ceil_div, power_of_two
from fuser.schedule.tree.statements import Load
from fuser.schedule.tree.vectors import step_along


def as_rows(
    buffers: Buffers, body: Body, lanes: int, parameters: CudaRowParameters
) -> RowBody | None:
    """The rows of a body that has vectors of `lanes` by points, or its only axis as a row; None
    where those of rows are no wider and nothing is loaded ahead, or a row has fewer of them than a
    warp has threads.

    What is divided or clamped along a row stays with points, whose lanes share such an index.
    """
    if not body.axes or body.draws:
        return None
    *rows, inner = body.axes
    if any(step_along(index, inner) is None for index in body.indices()):
        return None
    same, _ = divided(body.code, inner)
    swept = Sweep((inner,), tuple(node for node in body.code if node not in same), (), body.stores)
    vectors = vectors_for(buffers, [swept], inner, parameters, may_peel=True, may_move=True)
    of_row = (Sweep((), tuple(same)),) if same else ()
    made = RowBody(tuple(rows), body.prologue, (*of_row, swept), ())
    ahead = vectors.lanes == lanes and bool(loads_ahead(made, vectors, parameters))
    if not rows:
        return made if ahead else None
    wider = vectors.lanes > lanes
    return made if (wider or ahead) and _is_long(inner, vectors.lanes, parameters) else None


def loads_ahead(body: RowBody, vectors: Vectors, parameters: CudaRowParameters) -> list[Load]:
    """The loads of points that threads make for several whole vectors before they compute: what
    differs from row to row, if that is one access for a vector; none where nothing is gained."""
    sweep, *others = body.swept
    if others or len(sweep.axes) != 1 or vectors.peel or not vectors.whole:
        return []
    (axis,) = sweep.axes
    if not all(n.at.is_of_axes and n.at.coefficient(axis) in (0, 1) for n in sweep.loads):
        return []
    loads = loads_to_keep([sweep], body.rows, vectors.lanes, least=1)
    nbytes = vectors.lanes * sum(load.dtype.itemsize for load in loads)
    dear = arithmetic(sweep.code) > parameters.ahead_instructions
    if dear or nbytes > ACCESS_BYTES:
        return []
    of_row = axis.extent // vectors.lanes
    return loads if not body.rows or _fills_threads(of_row, parameters) else []


def _fills_threads(of_row: int, parameters: CudaRowParameters) -> bool:
    """Whether so many vectors, each row's for threads of its own, are two for most threads."""
    most = parameters.grid_threads * parameters.ahead_rounds
    places = min(max(power_of_two(of_row), WARP * parameters.ahead_rounds), most)
    places *= ceil_div(of_row, places)
    return 3 * of_row >= 2 * places


def may_stream(body: RowBody, parameters: CudaRowParameters) -> bool:
    """Whether rows are swept once and fold nothing, along an axis that is long enough for teams."""
    if len(body.swept) != 1 or len(body.swept[0].axes) != 1 or not body.rows:
        return False
    (sweep,) = body.swept
    if (
        sweep.draws
        or sweep.scans
        or any(other.stores or other.folds for other in body.stages if other != sweep)
    ):
        return False
    sizes = [store.dtype.itemsize for store in sweep.stores]
    return not sweep.folds and _is_long(sweep.axes[0], ACCESS_BYTES // min(sizes), parameters)


def _is_long(axis: Axis, lanes: int, parameters: CudaRowParameters) -> bool:
    """Whether a warp finds something to do in a row, and a grid has blocks enough for its parts."""
    return WARP <= ceil_div(axis.extent, lanes) <= MOST_BLOCKS * parameters.grid_threads
