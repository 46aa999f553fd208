"""Rows of a division as loops: every point once, cut where a pad begins, no division inside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.axes import arrange
from fuser.schedule.code.body import trace
from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.points.divided_rows import over_divided_rows
from fuser.schedule.tree.loop_tree import Loop
from fuser.schedule.tree.statements import Load, Store
from fuser.schedule.tree.vectors import step_along
from tests.schedule.one_thread import OneThread
from tests.schedule.row_bodies import segment_of

Define = Callable[..., Handle]
COLUMNS = 96
X = torch.randn(8, COLUMNS)


def rows_of(length: int, widths: tuple[int, int]) -> Define:
    """Rows of `length`, but for their last column, of padded rows of X one after the other."""
    flat = len(X) * (COLUMNS + sum(widths))
    count = flat // length

    def define(fd: FusionDefinition, x: Handle) -> Handle:
        padded = fd.ops.reshape(fd.ops.pad(fd.ops.neg(x), list(widths), 1.0), [flat])
        rows = fd.ops.reshape(fd.ops.slice(padded, [0], [count * length]), [count, length])
        return fd.ops.exp(fd.ops.slice(rows, [0, 0], [count, length - 1]))

    return define


def divided(define: Define, least: int = 64) -> Loop | None:
    """The loop that becomes of a definition; it stores what the oracle says."""
    segment = segment_of(define, X)
    body = arrange(trace(segment))
    loop = over_divided_rows(body, CpuParameters(divided_row=least))
    if loop is not None:
        thread = OneThread(segment, [X])
        thread.run(body.prologue)
        thread.at_points(body.axes[:-1], [loop])
        thread.check()
    return loop


def parts_of(loop: Loop) -> list[Loop]:
    return [part for part in loop.body if isinstance(part, Loop)]


@pytest.mark.parametrize(
    ("length", "widths", "rows", "extents"),
    [
        (96, (0, 1), 2, [96, 1]),  # each one further to the right than the one before
        (98, (0, 1), 2, [96, 1]),  # or to the left
        (150, (3, 101), 2, [3, 96, 101]),
        (250, (0, 1), 4, [96, 1]),  # several rows in one
        (100, (-1, 0), 2, [95]),  # nothing is padded
    ],
)
def test_rows_are_cut_where_a_pad_is(
    length: int, widths: tuple[int, int], rows: int, extents: list[int]
):
    loop = divided(rows_of(length, widths))
    assert loop is not None
    assert loop.axis.extent == rows
    parts = parts_of(loop)
    assert [part.axis.extent for part in parts] == extents
    for part in parts:
        assert part.within is not None
        assert part.within.extent == length - 1
        moved = [node.at for node in part.body if isinstance(node, Load | Store)]
        step = 0 if part.axis.extent == 1 else 1
        assert {step_along(at, part.axis) for at in moved} == {step}


def test_two_reads_of_rows_that_begin_elsewhere_have_cuts_of_both():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        left, right = (rows_of(96, widths)(fd, x) for widths in ((1, 2), (2, 1)))
        return fd.ops.add(left, right)

    loop = divided(define)
    assert loop is not None
    assert [part.axis.extent for part in parts_of(loop)] == [1, 1, 95, 1, 1]


@pytest.mark.parametrize("least", [98, 200])
def test_shorter_rows_are_no_loops(least: int):
    assert divided(rows_of(96, (0, 1)), least) is None


def test_nothing_is_made_of_rows_of_two_lengths():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        first, second = (rows_of(96, widths)(fd, x) for widths in ((0, 1), (0, 2)))
        return fd.ops.add(
            fd.ops.slice(first, [0, 0], [8, 95]), fd.ops.slice(second, [0, 0], [8, 95])
        )

    assert divided(define) is None
