"""Neighbouring elements of a row for one thread: what is moved at once, and the same results."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import ThreadOrder
from fuser.schedule.code.row_body import Fold, RowBody, Sweep
from fuser.schedule.code.row_slots import row_partial
from fuser.schedule.indices.index import ZERO, Axis
from fuser.schedule.rows.cuda.lanes import in_lanes, neighbours
from fuser.schedule.rows.trace import trace_rows
from fuser.schedule.rows.vectors import Vectors
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import Loop, Node, Region
from fuser.schedule.tree.row_statements import Accumulate, Finish
from fuser.schedule.tree.statements import Let, Load, Store
from fuser.segmenter import Segment
from tests.row_functions import softmax, softmax_of_columns
from tests.schedule.one_thread import OneThread
from tests.schedule.row_bodies import segment_of

Define = Callable[..., Handle]
X, W = torch.randn(3, 8), torch.randn(8)


def accumulate(fold: Fold, sweep: Sweep) -> Accumulate:
    return Accumulate(row_partial(fold), ZERO, fold.value)


def rounds(sweep: Sweep, lanes: int) -> Sequence[Node]:
    """A sweep, `lanes` elements at a time, and what its folds come to."""
    if not sweep.axes:
        return [*sweep.code, *sweep.stores]
    (inner,) = sweep.axes
    inside = in_lanes(sweep, accumulate, inner, Vectors(lanes))
    loop = Loop(inner, Binding.SERIAL, inside, lanes)
    partials = tuple(map(row_partial, sweep.folds))
    return [Region(partials, (loop,), tuple(Finish(partial, ZERO) for partial in partials))]


def traced(define: Define, *inputs: torch.Tensor) -> tuple[Segment, RowBody]:
    segment = segment_of(define, *inputs)
    return segment, trace_rows(segment)


def scaled(fd: FusionDefinition, x: Handle, w: Handle) -> Handle:
    return softmax(fd, x) * w


def turned(fd: FusionDefinition, x: Handle) -> Handle:
    return softmax(fd, x) + fd.ops.flip(x, [1])


CASES = [
    (scaled, (X, W)),
    (softmax, (X,)),
    (turned, (X,)),
    (softmax_of_columns, (X.t().contiguous(),)),
]


@pytest.mark.parametrize(("define", "inputs"), CASES)
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_lanes_make_what_single_elements_do(
    define: Define, inputs: tuple[torch.Tensor, ...], lanes: int
) -> None:
    segment, body = traced(define, *inputs)
    thread = OneThread(segment, inputs)
    thread.run(body.prologue)
    thread.at_points(body.rows, [node for sweep in body.stages for node in rounds(sweep, lanes)])
    thread.check(exact=False)


def last_sweep(define: Define, *inputs: torch.Tensor) -> tuple[Sweep, Axis]:
    _, body = traced(define, *inputs)
    return body.stages[-1], body.stages[-1].axes[-1]


def test_neighbours_are_loaded_and_stored_at_once_and_computed_lane_by_lane() -> None:
    sweep, inner = last_sweep(scaled, X, W)
    nodes = in_lanes(sweep, accumulate, inner, Vectors(4))
    loads = [node for node in nodes if isinstance(node, Load)]
    assert {load.tensor.name: load.lanes for load in loads} == {"T0": 4, "T1": 4}
    (loop,) = [node for node in nodes if isinstance(node, Loop)]
    assert (loop.binding, loop.axis.extent) == (Binding.LANES, 4)
    assert all(isinstance(node, Let) for node in loop.body)
    store = nodes[-1]
    assert isinstance(store, Store)
    assert store.lanes == 4


def test_what_is_not_consecutive_is_moved_lane_by_lane() -> None:
    sweep, inner = last_sweep(turned, X)
    taken = neighbours(sweep, inner, 4, Vectors(4))
    assert [node.lanes for node in taken.once if isinstance(node, Load)] == [4]
    (backwards,) = [node for node in taken.each.code if isinstance(node, Load)]
    assert backwards.lanes == 1
    assert backwards.at.coefficient(taken.lane) == -1


def test_what_is_the_same_for_all_lanes_is_done_once() -> None:
    def define(fd: FusionDefinition, x: Handle, scale: Handle) -> Handle:
        return fd.ops.max(x * fd.ops.broadcast(scale, [False, True]), [1])

    _, body = traced(define, X, torch.randn(3))
    sweep = next(sweep for sweep in body.stages if sweep.axes)
    of_row = next(sweep for sweep in body.stages if not sweep.axes)
    joined = Sweep(sweep.axes, (*of_row.code, *sweep.code), sweep.folds, sweep.stores)
    taken = neighbours(joined, sweep.axes[0], 4, Vectors(4))
    assert {node.name for node in of_row.code} <= {node.name for node in taken.once}


def test_without_vectors_every_lane_reads_for_itself() -> None:
    sweep, inner = last_sweep(softmax, X)
    taken = neighbours(sweep, inner, 4, None)
    assert not [node for node in taken.once if isinstance(node, Load)]
    assert [n.at.coefficient(taken.lane) for n in taken.each.code if isinstance(n, Load)] == [1]


def test_accesses_that_are_not_aligned_are_made_in_pieces() -> None:
    sweep, inner = last_sweep(softmax, X)
    accesses = {(access.tensor, access.at): 2 for access in sweep.accesses}
    nodes = in_lanes(sweep, accumulate, inner, Vectors(4, pieces=accesses))
    moved = [node for node in nodes if isinstance(node, Load | Store)]
    assert [(type(node), node.piece) for node in moved] == [(Load, 2), (Store, 2)]


def of_turns(step: int, fd: FusionDefinition, x: Handle) -> Handle:
    """The largest sum of a row's elements that are read by `step` operations in turn."""
    groups = fd.ops.reshape(x, [fd.ops.size(x, 0), -1, step])
    turns = [fd.ops.cast(fd.ops.select(groups, n, 2), DataType.Float) for n in range(step)]
    total = functools.reduce(operator.add, turns)
    return fd.ops.cast(total - fd.ops.max(total, [1], keepdim=True), DataType.Float)


@pytest.mark.parametrize("columns", [64, 4096, 65])
@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("order", ThreadOrder)
def test_what_loads_read_in_turn_is_read_at_once(
    order: ThreadOrder,
    dtype: torch.dtype,
    step: int,
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
):
    x = torch.randn(5, columns * step, generator=torch.Generator().manual_seed(1)).to(dtype)
    with FusionDefinition() as fd:
        fd.add_output(of_turns(step, fd, fd.from_pytorch(x)))
    (kernel,) = fd.plan([x], target="cuda:sm_90").kernels
    assert ("load_run" in kernel.source) == (columns != 65)  # which no lanes fill
    monkeypatch.setattr(EmulatorBackend, "order", order)
    (got,) = fd.execute([x], target="emulator")
    torch.testing.assert_close(got, interpret(fd.fusion, [x])[0], rtol=1e-6, atol=1e-6)
