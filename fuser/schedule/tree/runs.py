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
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.indices.rewrites import variables_of
from fuser.schedule.tree.buffers import ACCESS_BYTES, Buffers
from fuser.schedule.tree.expressions import Ref
from fuser.schedule.tree.statements import Lanes, Load, LoadRun, Store, StoreRun
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


def runs_among(
    buffers: Buffers, accesses: Iterable[Access], inner: Axis, most: int
) -> Iterator[Run[Access]]:
    """The runs among accesses in steps of up to `most` elements along an axis."""
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
