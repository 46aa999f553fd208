"""The runs of memory of a body (`schedule/tree/runs.py`), and how many lanes a thread takes of
them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuser.schedule.code.body import Body
from fuser.schedule.cuda_parameters import CudaParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.tree.buffers import ACCESS_BYTES, Buffers
from fuser.schedule.tree.runs import Access, Run, piece_of, runs_among
from fuser.schedule.tree.statements import Load, Store, reads_in
from fuser.schedule.tree.vectors import step_along


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a body along its innermost axis."""

    loads: tuple[Run[Load], ...] = ()
    stores: tuple[Run[Store], ...] = ()


def runs_of(buffers: Buffers, body: Body, most: int) -> Runs:
    """What is loaded and stored in steps of up to `most` elements from point to point, where it is
    a run."""
    if not body.axes:
        return Runs()
    inner = body.axes[-1]
    return Runs(
        tuple(runs_among(buffers, reads_in(body.loads), inner, most)),
        tuple(runs_among(buffers, body.stores, inner, most)),
    )


def are_neighbours(body: Body, runs: Runs) -> bool:
    """Whether nothing is loaded from memory between which and its neighbour's there are others."""
    in_runs = {load for run in runs.loads for load in run.accesses}
    others = (load for load in body.loads if load not in in_runs)
    return all(step_along(load.at, body.axes[-1]) in (0, 1) for load in others)


def run_lanes(buffers: Buffers, body: Body, runs: Runs, parameters: CudaParameters) -> int:
    """The lanes of a body, as many as the narrowest type has in an access, if a thread has not
    too much to hold; 1 if something is not stored in whole accesses then."""
    if not body.axes:
        return 1
    inner = body.axes[-1]
    stores = [*runs.stores, *_alone(body.stores, runs.stores, inner)]
    if sum(run.each for run in stores) < len(body.stores):
        return 1
    loads = [*runs.loads, *_alone(body.loads, runs.loads, inner)]
    moved = [*stores, *loads]
    lanes = ACCESS_BYTES // min(run.first.dtype.itemsize for run in moved)

    def fits() -> bool:
        if inner.extent % lanes or any(run.point_bytes * lanes > _most(run) for run in moved):
            return False
        if sum(run.point_bytes for run in loads) * lanes > parameters.loaded_bytes:
            return False
        return all(_is_whole(buffers, run, inner, lanes) for run in stores)

    def _most(run: Run[Load] | Run[Store]) -> int:
        # Elements by threes are whole accesses in three of them.
        whole = 3 * ACCESS_BYTES if run.each % 3 == 0 else 0
        return max(parameters.max_lane_bytes, whole)

    while lanes > 1 and not fits():
        lanes //= 2
    return lanes


def _alone(
    accesses: Sequence[Access], runs: Sequence[Run[Access]], inner: Axis
) -> list[Run[Access]]:
    """Those that are consecutive by themselves."""
    in_runs = {access for run in runs for access in run.accesses}
    others = (access for access in accesses if access not in in_runs)
    return [Run((access,)) for access in others if step_along(access.at, inner) == 1]


def _is_whole(buffers: Buffers, run: Run[Store], inner: Axis, lanes: int) -> bool:
    """Whether the lanes of a run are accesses of 16 bytes, or one of fewer."""
    piece = piece_of(buffers, run, inner, lanes)
    size = run.first.dtype.itemsize
    return piece * size == ACCESS_BYTES or piece == lanes * run.each
