"""How many lanes do a short row, by its length, its vectors and how it lies."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CudaRowParameters
from fuser.schedule.code.row_body import RowBody
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.cuda.short import lanes_across, lanes_along, threads_of_column
from fuser.schedule.rows.trace import trace_rows
from fuser.schedule.rows.vectors import Vectors
from tests.row_functions import softmax
from tests.schedule.row_bodies import segment_of

GIVEN = CudaRowParameters()


def body_of(*shape: int) -> RowBody:
    return arrange_rows(trace_rows(segment_of(softmax, torch.empty(shape, device="meta"))))


@pytest.mark.parametrize(
    ("length", "vector", "lanes"),
    [
        *((1, 1, 1), (8, 1, 1), (9, 1, 4), (21, 1, 8), (64, 1, 16), (65, 1, 0)),
        *((16, 4, 1), (20, 4, 2), (32, 4, 2), (64, 4, 4), (128, 4, 8), (256, 4, 16), (260, 4, 0)),
        *((16, 8, 1), (32, 8, 2), (64, 8, 4), (256, 8, 16)),  # two accesses a vector
    ],
)
def test_a_lane_has_up_to_four_accesses(length: int, vector: int, lanes: int):
    body = body_of(5, length)
    axes = body.stages[-1].axes
    vectors = {axes: Vectors(vector)} if axes else {}
    assert lanes_along(body, vectors, GIVEN) == lanes


@pytest.mark.parametrize(("window", "lanes"), [((2, 2), 1), ((3, 3), 1), ((5, 8), 0)])
def test_windows_are_one_threads_while_they_are_small(window: tuple[int, int], lanes: int):
    height, width = window

    def mean(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.mean(x, [1, 3])

    segment = segment_of(mean, torch.empty(6, height, 9, width, device="meta"))
    assert lanes_along(arrange_rows(trace_rows(segment)), {}, GIVEN) == lanes


def test_a_thread_does_a_long_row_across_memory_where_rows_are_many_and_nothing_is_kept():
    few = dataclasses.replace(GIVEN, multiprocessors=0)
    short, long = body_of(5, 32), body_of(5, 33)
    assert lanes_across(short, GIVEN, keeps=True) == 1
    assert lanes_across(long, GIVEN, keeps=False) == 0
    assert lanes_across(long, few, keeps=False) == 1
    assert lanes_across(long, few, keeps=True) == 0


@pytest.mark.parametrize(("length", "threads"), [(33, 4), (128, 8), (300, 16)])
def test_columns_have_fewer_threads_where_they_are_many(length: int, threads: int):
    assert threads_of_column(body_of(5, length), GIVEN) == 16
    many = dataclasses.replace(GIVEN, multiprocessors=0)
    assert threads_of_column(body_of(5, length), many) == threads
