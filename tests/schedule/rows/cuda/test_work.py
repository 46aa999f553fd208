"""What the team of a row is chosen by: sweeps along an axis, vectors, loads that come again."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.rows.cuda.room import Demand
from fuser.schedule.rows.cuda.work import demand_of
from fuser.schedule.rows.vectors import Vectors
from tests.definitions import Define
from tests.row_functions import softmax
from tests.schedule.row_bodies import column_sums, sums, work_of

X = torch.empty(8, 64)


def test_sweeps_along_one_axis_take_the_same_points() -> None:
    work = work_of(softmax, X)
    (((axis,), sweeps),) = work.groups.items()
    assert (axis.extent, len(sweeps)) == (64, 3)
    assert (work.rows, work.longest) == (8, 64)


@pytest.mark.parametrize(
    ("define", "folds_or_scans", "scans", "has_arrays"),
    [(softmax, True, False, False), (column_sums, True, False, True), (sums, True, True, False)],
)
def test_what_is_folded_or_scanned_is_told(
    define: Define, folds_or_scans: bool, scans: bool, has_arrays: bool
) -> None:
    work = work_of(define, X)
    assert (work.folds_or_scans, work.scans, work.has_arrays) == (folds_or_scans, scans, has_arrays)


def test_what_several_sweeps_load_is_to_keep() -> None:
    work = work_of(softmax, X)
    vectors = work.vectors(may_peel=True)
    assert list(vectors.values()) == [Vectors(4)]
    kept = work.to_keep(vectors)
    assert kept.axes in work.groups
    assert [load.tensor.name for load in kept.loads] == ["T0"]


def test_what_several_sweeps_load_of_several_axes_is_to_keep() -> None:
    x, weight = torch.empty(8, 6, 4, 6), torch.empty(4, 6)

    def normalized(fd: FusionDefinition, x: Handle, weight: Handle) -> Handle:
        return x / fd.ops.sum(x * weight, [1, 3], keepdim=True)

    def column_too(fd: FusionDefinition, x: Handle, weight: Handle) -> tuple[Handle, ...]:
        y = normalized(fd, x, weight)
        return y, fd.ops.sum(y, [0, 1])

    work = work_of(normalized, x, weight)
    vectors = work.vectors_over_several()
    assert list(vectors.values()) == [Vectors(2)]
    kept = work.to_keep(vectors)
    assert ([axis.extent for axis in kept.axes], kept.demand) == ([6, 6], Demand(18, 2, (4,)))
    assert [load.tensor.name for load in kept.loads] == ["T0"]
    assert not work_of(column_too, x, weight).vectors_over_several()


def test_what_is_loaded_once_or_scanned_is_not() -> None:
    once = work_of(lambda fd, x: fd.ops.max(x, [1]), X)
    assert not once.to_keep(once.vectors(may_peel=True)).loads
    twice = work_of(lambda fd, x: fd.ops.cumsum(x, 1) - fd.ops.max(x, [1], keepdim=True), X)
    assert not twice.to_keep(twice.vectors(may_peel=False)).loads


def test_sums_of_several_tensors_are_folded_at_once() -> None:
    x, y = torch.empty(8, 64), torch.empty(50)
    apart = work_of(lambda fd, x, y: fd.ops.sum(x, [0, 1]) + fd.ops.sum(y, [0]), x, y).at_once
    assert apart is not None
    assert [len(stages) for stages in apart] == [0, 2, 1]
    stored = work_of(
        lambda fd, x, y: [fd.ops.sum(y * x, [1]), x * 2.0], torch.empty(8, 1), x
    ).at_once
    assert stored is not None
    assert [sum(len(sweep.stores) for sweep in stages) for stages in stored] == [0, 0, 2]
    waiting = work_of(lambda fd, x, y: fd.ops.sum(y * fd.ops.sum(x, [0, 1]), [0]), x, y)
    assert waiting.at_once is None
    assert work_of(softmax, x).at_once is None


def test_slots_that_rows_fold_into_keep_their_threads() -> None:
    # Rows that begin anywhere could be peeled, but their elements' slots would move.
    ragged = torch.empty(8, 61)
    (peeled,) = work_of(softmax, ragged).vectors(may_peel=True).values()
    (fixed,) = work_of(column_sums, ragged).vectors(may_peel=True).values()
    assert peeled.peel is not None
    assert fixed == Vectors(1)


def test_a_demand_is_of_vectors_and_the_bytes_of_each_load() -> None:
    work = work_of(softmax, torch.empty(8, 70, dtype=torch.float64))
    kept = work.to_keep(work.vectors(may_peel=True))
    assert demand_of(kept.axes, Vectors(4), kept.sizes) == Demand(vectors=18, lanes=4, sizes=(8,))
