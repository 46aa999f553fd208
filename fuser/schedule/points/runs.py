"""Runs of memory: what several loads, or several stores, of a point move beside each other.

    T1 = load T0[2 i0]; T2 = load T0[2 i0 + 1]      i0 in lanes: T1 and T2 take turns in memory

For neighbouring points, each of them takes steps over what the others move. Together they leave
nothing out, so that lanes of all of them are vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.schedule.code.body import Body
from fuser.schedule.cuda_parameters import CudaParameters
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.indices.rewrites import variables_of
from fuser.schedule.tree.buffers import ACCESS_BYTES, Buffers
from fuser.schedule.tree.expressions import Ref
from fuser.schedule.tree.statements import Lanes, Load, LoadRun, Store, StoreRun, reads_in
from fuser.schedule.tree.vectors import step_along

Access = TypeVar("Access", Load, Store)


@dataclass(frozen=True, slots=True)
class Run(Generic[Access]):
    """Accesses in the order of memory, each one element after the one before."""

    accesses: tuple[Access, ...]

    @property
    def first(self) -> Access:
        """The one whose lanes begin where the run does."""
        return self.accesses[0]

    @property
    def each(self) -> int:
        """Elements at a point."""
        return len(self.accesses)

    @property
    def point_bytes(self) -> int:
        """Bytes at a point."""
        return self.each * self.first.dtype.itemsize


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
        tuple(_runs(buffers, reads_in(body.loads), inner, most)),
        tuple(_runs(buffers, body.stores, inner, most)),
    )


def _runs(
    buffers: Buffers, accesses: Iterable[Access], inner: Axis, most: int
) -> Iterator[Run[Access]]:
    beside: dict[tuple[Value, DataType, Index], dict[int, Access]] = {}
    for access in accesses:
        step = step_along(access.at, inner)
        if step is None or not 1 < step <= most or variables_of(access.at):
            continue
        start = Index(0, access.at.terms)
        base = buffers.memory[access.tensor].base
        found = beside.setdefault((base, access.dtype, start), {})
        found.setdefault(access.at.constant, access)
    for (_, _, start), found in beside.items():
        yield from _without_gaps(found, start.coefficient(inner))


def _without_gaps(found: dict[int, Access], step: int) -> Iterator[Run[Access]]:
    """Accesses, by where they begin, in runs of `step` elements."""
    for place in sorted(found):
        places = range(place, place + step)
        if all(each in found for each in places):
            yield Run(tuple(found.pop(each) for each in places))


def are_neighbours(body: Body, runs: Runs) -> bool:
    """Whether nothing is loaded from memory between which and its neighbour's there are others."""
    in_runs = {load for run in runs.loads for load in run.accesses}
    others = (load for load in body.loads if load not in in_runs)
    return all(step_along(load.at, body.axes[-1]) in (0, 1) for load in others)


def piece_of(buffers: Buffers, run: Run[Access], inner: Axis, lanes: int) -> int:
    """How many elements of a run an access may move, if a thread has so many lanes of it."""
    tensor, size = run.first.tensor, run.first.dtype.itemsize
    start, alignment = run.first.at.without(inner), buffers.alignment(tensor)
    piece = max(ACCESS_BYTES // size, 1)
    while run.each * lanes % piece or not start.is_multiple_of(piece) or alignment % (piece * size):
        piece //= 2
    return piece


def load_run(buffers: Buffers, run: Run[Load], inner: Axis, lanes: int) -> LoadRun:
    """The load of all lanes of a run, of that of its tensors which reaches as far as it does."""
    names = tuple(load.name for load in run.accesses)
    piece = piece_of(buffers, run, inner, lanes)
    return LoadRun(names, run.accesses[-1].tensor, run.first.at, lanes, piece)


def store_run(buffers: Buffers, run: Run[Store], lanes: Sequence[Lanes], inner: Axis) -> StoreRun:
    """The store of all lanes of a run, from an array for each of its stores."""
    count = lanes[0].count
    sources = tuple(Ref(array.name, array.dtype) for array in lanes)
    piece = piece_of(buffers, run, inner, count)
    return StoreRun(run.first.tensor, run.first.at, sources, count, piece)


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
