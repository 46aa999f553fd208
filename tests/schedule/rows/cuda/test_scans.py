"""Scans of a row on a GPU: lanes of a thread, and what a round makes of them."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CudaRowParameters, schedule_rows_cuda
from fuser.schedule.code.row_body import Fold, Sweep
from fuser.schedule.code.row_slots import row_partial
from fuser.schedule.indices.index import ZERO
from fuser.schedule.rows.cuda.scans import column_lanes, scan_lanes, scan_round
from fuser.schedule.rows.scans import carry_of
from fuser.schedule.rows.trace import trace_rows
from fuser.schedule.rows.vectors import Vectors
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import Loop, Node, Region, Share, every_node
from fuser.schedule.tree.row_statements import Accumulate, Finish
from fuser.schedule.tree.statements import Load, Store
from tests.definitions import Define
from tests.schedule.one_thread import OneThread
from tests.schedule.row_bodies import segment_of

X = torch.rand(3, 12) + 0.5


def accumulate(fold: Fold, sweep: Sweep) -> Accumulate:
    return Accumulate(row_partial(fold), ZERO, fold.value)


def sums(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cumsum(fd.ops.exp(x), 1)


def scaled(fd: FusionDefinition, x: Handle) -> Handle:
    """Sums less the largest of them, for which they are made again."""
    total = fd.ops.cumsum(x, 1)
    return total - fd.ops.max(total, [1], keepdim=True)


def from_the_end(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cumsum(x, 1, reverse=True)


def rounds(sweep: Sweep, lanes: int, aligned: Vectors) -> list[Node]:
    """Rounds of one thread over a sweep, and what its folds come to."""
    if not sweep.scans:
        return [*sweep.code, *sweep.stores]
    loop = scan_round(sweep, accumulate, lanes, aligned)
    partials = tuple(map(row_partial, sweep.folds))
    inside = (*map(carry_of, sweep.scans), loop)
    return [Region(partials, inside, tuple(Finish(partial, ZERO) for partial in partials))]


@pytest.mark.parametrize("define", [sums, scaled, from_the_end])
@pytest.mark.parametrize(("lanes", "vector"), [(1, 1), (4, 1), (4, 4), (2, 2), (6, 2)])
def test_rounds_make_what_a_scan_is(define: Define, lanes: int, vector: int) -> None:
    segment = segment_of(define, X)
    body, thread = trace_rows(segment), OneThread(segment, (X,))
    aligned = Vectors(1 if define is from_the_end else vector)
    each = [node for sweep in body.stages for node in rounds(sweep, lanes, aligned)]
    thread.run(body.prologue)
    thread.at_points(body.rows, each)
    thread.check(exact=False)


@pytest.mark.parametrize(("vector", "moved"), [(4, 4), (1, 1), (2, 1)])
def test_memory_is_moved_in_vectors_if_these_are_the_lanes(vector: int, moved: int) -> None:
    (sweep,) = trace_rows(segment_of(sums, X)).stages
    loop = scan_round(sweep, accumulate, 4, Vectors(vector))
    assert (loop.binding, loop.step) == (Binding.SCAN, 4)
    nodes = list(every_node((loop,)))
    assert [node.lanes for node in nodes if isinstance(node, Load)] == [moved]
    assert [node.lanes for node in nodes if isinstance(node, Store)] == [moved]


@pytest.mark.parametrize(
    ("vector", "extent", "threads", "lanes"),
    [
        (1, 1 << 16, 256, 8),  # as many single elements as the parameters say
        (1, 1024, 256, 4),  # no more than the row has for all threads
        (1, 100, 256, 1),
        (4, 100, 256, 4),  # never less than an aligned vector
        (16, 1 << 16, 256, 16),
    ],
)
def test_lanes_are_as_many_as_the_row_has(
    vector: int, extent: int, threads: int, lanes: int
) -> None:
    given = CudaRowParameters(scan_lanes=8)
    assert scan_lanes(Vectors(vector), extent, threads, given) == lanes


@pytest.mark.parametrize(
    ("columns", "extent", "dtype", "lanes"),
    [
        (264, 8192, torch.float32, 16),  # 64 bytes for each of 1024 threads
        (5000, 8192, torch.float32, 16),  # of which no more run at once
        (5000, 8192, torch.float64, 8),
        (1, 8192, torch.float32, 16),  # no more than there are registers for
        (1, 8192, torch.float64, 8),
        (1, 100, torch.float32, 8),  # nor than the column has for all threads
    ],
)
def test_threads_of_columns_keep_memory_busy(
    columns: int, extent: int, dtype: torch.dtype, lanes: int
) -> None:
    x = torch.empty(extent, 3, dtype=dtype, device="meta")
    (sweep,) = trace_rows(segment_of(lambda fd, x: fd.ops.cumsum(x, 0), x)).stages
    given = CudaRowParameters(multiprocessors=132, resident_threads=1024)
    assert column_lanes(sweep, 16, columns * 512, given) == lanes


def test_a_gpu_that_runs_no_thread_at_once_has_lanes() -> None:
    x = torch.empty(8192, 3, device="meta")
    (sweep,) = trace_rows(segment_of(lambda fd, x: fd.ops.cumsum(x, 0), x)).stages
    assert column_lanes(sweep, 16, 1 << 20, CudaRowParameters(resident_threads=0)) >= 1


@pytest.mark.parametrize(("elements", "whole"), [(1 << 20, True), ((1 << 20) + 2, False)])
def test_loads_for_the_total_of_a_part_have_no_branch_if_vectors_are_whole(
    elements: int, *, whole: bool
) -> None:
    """Those of unrolled rounds would wait for what is added in the rounds before."""
    segment = segment_of(sums, torch.empty(1, elements))
    alignments = dict.fromkeys(segment.memory, 16)
    nest = schedule_rows_cuda(segment, alignments, CudaRowParameters())
    (shared,) = (node for node in every_node(nest.body) if isinstance(node, Share))
    loops = [node for node in every_node(shared.totals) if isinstance(node, Loop)]
    found = [(loop.step, loop.whole) for loop in loops if loop.binding is Binding.TEAM]
    assert found == [(4, whole)]
