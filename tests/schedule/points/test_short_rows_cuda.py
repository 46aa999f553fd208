"""Rows of a few elements as points of a GPU's thread."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CudaParameters, schedule_short_rows_cuda
from fuser.schedule.points.short_rows_cuda import short_rows
from tests.definitions import Define
from tests.row_functions import softmax
from tests.schedule.one_thread import run_body
from tests.schedule.row_bodies import segment_of

GIVEN = CudaParameters()


def means(high: int, wide: int) -> Define:
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        parts = fd.ops.reshape(x, [12 // high, high, 48 // wide, wide])
        return fd.ops.mean(parts, [1, 3])

    return define


def sum_of_all(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """A fold of rows, and one over them."""
    sums = fd.ops.sum(x, [1])
    return [sums, fd.ops.sum(sums * sums, [0])]


def running(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cumsum(x, 1)


def x(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("window", [(2, 2), (1, 2), (2, 3), (3, 2)], ids=str)
def test_windows_are_points(window: tuple[int, int]) -> None:
    inputs = [x(12, 48)]
    segment = segment_of(means(*window), *inputs)
    made = short_rows(segment, GIVEN)
    assert made is not None
    body, _ = made
    assert len(body.loads) == window[0] * window[1]
    run_body(segment, body, inputs).check(exact=False)


def test_all_elements_of_a_row_may_be_stored() -> None:
    inputs = [x(64, 2)]
    segment = segment_of(softmax, *inputs)
    made = short_rows(segment, GIVEN)
    assert made is not None
    assert (len(made[0].loads), len(made[0].stores)) == (2, 2)
    run_body(segment, made[0], inputs).check(exact=False)


@pytest.mark.parametrize(
    ("define", "shape"),
    [
        (means(2, 4), (12, 48)),
        (softmax, (64, 8)),
        (softmax, (64, 3)),  # one text with rows of 4
        (sum_of_all, (64, 2)),
        (running, (64, 2)),
    ],
)
def test_longer_rows_and_others_are_none(define: Define, shape: tuple[int, int]) -> None:
    assert short_rows(segment_of(define, x(*shape)), GIVEN) is None


@pytest.mark.parametrize(("shape", "are_points"), [((64, 2), True), ((63, 2), False)])
def test_rows_are_points_where_several_fill_vectors(
    shape: tuple[int, int], are_points: bool
) -> None:
    segment = segment_of(softmax, x(*shape))
    alignments = dict.fromkeys((lies.base for lies in segment.memory.values()), 16)
    nest = schedule_short_rows_cuda(segment, alignments, GIVEN)
    assert (nest is not None) == are_points
