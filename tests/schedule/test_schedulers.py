"""Which scheduler takes a segment."""

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import Scheduler, scheduler_of
from tests.definitions import Define
from tests.row_functions import layernorm, softmax
from tests.schedule.row_bodies import loss, segment_of, segments_of


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, device="meta", dtype=dtype)


INDEX = empty(4, dtype=torch.int64)


@pytest.mark.parametrize(
    "define",
    [
        lambda fd, x: fd.ops.exp(x) + 1.0,
        lambda fd, x: fd.ops.permute(x, [1, 0]) * fd.ops.iota(8),
        lambda fd, x: fd.ops.slice(x * 2.0, [0, 0], [8, 2]),
    ],
)
def test_points_are_pointwise(define: Define):
    assert scheduler_of(segment_of(define, empty(8, 6))) is Scheduler.POINTWISE


@pytest.mark.parametrize(
    "define", [softmax, layernorm, lambda fd, x: fd.ops.any(x), lambda fd, x: fd.ops.argmax(x, 1)]
)
def test_reductions_are_rows(define: Define):
    assert scheduler_of(segment_of(define, empty(8, 6))) is Scheduler.ROWS


def test_gathers_and_checked_indices_are_rows():
    def checked(fd: FusionDefinition, x: Handle, i: Handle) -> Handle:
        return x + fd.ops.check_index(i, 5)

    assert scheduler_of(segment_of(loss, empty(4, 6), INDEX)) is Scheduler.ROWS
    assert scheduler_of(segment_of(checked, empty(6, 4), INDEX)) is Scheduler.ROWS


@pytest.mark.parametrize(
    ("define", "given"),
    [
        (lambda fd, x: fd.ops.sum(x, [1]), empty(8, 0)),
        (lambda fd, x: fd.ops.sum(x, [1]), empty(0, 6)),
        (lambda fd, x: fd.ops.prod(x, [1]), empty(8, 6, dtype=torch.complex64)),
        (lambda fd, x: fd.ops.pad(x, [1, 1]) * 2.0, empty(8, 0)),
    ],
)
def test_some_segments_are_left_to_torch(define: Define, given: torch.Tensor):
    for segment in segments_of(define, given):
        assert scheduler_of(segment) is None


def test_nothing_is_gathered_from_an_empty_dimension():
    def define(fd: FusionDefinition, x: Handle, i: Handle) -> Handle:
        return fd.ops.index_select(x, i, 1) * 2.0

    for segment in segments_of(define, empty(8, 0), INDEX):
        assert scheduler_of(segment) is None
