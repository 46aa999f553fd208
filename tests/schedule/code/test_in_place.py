"""Kernels that store where an input lies: where that is refused, and why."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.passes.lower_reductions import lower_reductions
from fuser.schedule.code.axes import arrange, with_index
from fuser.schedule.code.body import Body, trace
from fuser.schedule.code.in_place import points_refusal, rows_refusal, scatter_refusal
from fuser.schedule.code.row_body import RowBody
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import ZERO, Axis, Index
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.cpu.whole import as_whole
from fuser.schedule.rows.trace import trace_rows
from fuser.segmenter import Segment, place_updates, segment
from tests.definitions import Define
from tests.row_functions import softmax
from tests.schedule.row_bodies import segment_of
from tests.segmented import concrete, memory_of

X = torch.randn(4, 4)
ELSEWHERE = "an element is computed from others of the old T0"


def updating(define: Define, *inputs: torch.Tensor) -> Segment:
    """The kernel that writes what is defined into the first input."""
    with FusionDefinition() as fd:
        given = list(map(fd.from_pytorch, inputs))
        made = define(fd, *given)
        first, *others = [made] if isinstance(made, Handle) else made
        fd.add_output(first, alias_input=given[0])
        for other in others:
            fd.add_output(other)
    fusion = lower_reductions(concrete(fd.fusion, inputs))
    tried: list[Segment] = []

    def note(found: Segment) -> str | None:
        tried.append(found)
        return None

    place_updates(segment(fusion, memory_of(fusion, inputs)), {}, note)
    return tried[-1]


def of_points(define: Define, *inputs: torch.Tensor) -> str | None:
    made = updating(define, *inputs)
    return points_refusal(made, arrange(trace(made)))


def of_rows(define: Define, *inputs: torch.Tensor, by_team: bool = False) -> str | None:
    made = updating(define, *inputs)
    return rows_refusal(made, arrange_rows(trace_rows(made)), by_team=by_team)


@pytest.mark.parametrize(
    ("define", "refusal"),
    [
        (lambda fd, x: fd.ops.exp(x) + 1, None),
        (lambda fd, x: x + fd.ops.permute(x, [1, 0]), ELSEWHERE),
        (lambda fd, x: fd.ops.exp(fd.ops.flip(x, [1])), ELSEWHERE),
        (lambda fd, x: x * fd.ops.pad(x, [1, -1]), ELSEWHERE),
    ],
)
def test_a_point_may_read_only_the_element_that_it_stores(
    define: Define, refusal: str | None
) -> None:
    assert of_points(define, X) == refusal


def test_other_inputs_may_be_read_anywhere() -> None:
    assert of_points(lambda fd, x, y: x + fd.ops.permute(y, [1, 0]), X, X.clone()) is None


@pytest.mark.parametrize("by_team", [False, True])
def test_a_row_is_read_by_the_threads_that_overwrite_it_in_every_sweep(by_team: bool) -> None:
    assert of_rows(softmax, X, by_team=by_team) is None


def test_a_row_that_is_read_across_is_not_overwritten() -> None:
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return softmax(fd, x) + fd.ops.flip(x, [1])

    assert of_rows(define, X) == ELSEWHERE


def test_rows_that_one_lane_does_store_elements_of_their_own() -> None:
    made = updating(lambda fd, x: softmax(fd, x, 1), torch.randn(100, 3, 3))
    rows = as_whole(arrange_rows(trace_rows(made)), CpuRowParameters())
    assert isinstance(rows, RowBody)
    assert len([store for sweep in rows.stages for store in sweep.stores]) == 3
    assert rows_refusal(made, rows, by_team=False) is None
    *others, last = rows.stages
    early = dataclasses.replace(rows, stages=(last, *others))
    assert rows_refusal(made, early, by_team=False) == "the old T0 is read again after T5 is stored"


def running(fd: FusionDefinition, mean: Handle, x: Handle) -> Handle:
    """A running mean of each row."""
    return mean * 0.9 + fd.ops.mean(x, [1]) * 0.1


def test_what_is_the_same_all_along_a_row_is_read_by_a_whole_team() -> None:
    assert of_rows(running, torch.randn(4), X) is None
    refusal = of_rows(running, torch.randn(4), X, by_team=True)
    assert refusal == "several threads read the old T0"


def columns(fd: FusionDefinition, x: Handle) -> Handle:
    """A fold over the rows, which are those of a softmax."""
    return fd.ops.sum(softmax(fd, x), [0])


def test_what_all_rows_fold_may_overwrite_what_is_read_at_last_only() -> None:
    def of_rows_too(fd: FusionDefinition, bias: Handle, x: Handle) -> Handle:
        return bias + columns(fd, x * fd.ops.broadcast(bias, [True, False]))

    bias = torch.randn(4)
    assert of_rows(lambda fd, bias, x: bias + columns(fd, x), bias, X) is None
    assert of_rows(of_rows_too, bias, X) == "the old T0 is read by other rows"


def test_a_row_that_a_later_sweep_reads_again_is_not_overwritten() -> None:
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        moved = x - fd.ops.max(x, [1], keepdim=True)
        return [moved, x * fd.ops.sum(fd.ops.exp(moved), [1], keepdim=True)]

    refusal = of_rows(define, X)
    assert refusal is not None
    assert refusal.startswith("the old T0 is read again after ")


def test_a_scatter_reads_all_of_its_data_before() -> None:
    made = updating(lambda fd, x: fd.ops.exp(x), X)
    assert made.overwritten
    assert scatter_refusal(made) is not None
    assert scatter_refusal(segment_of(lambda fd, x: fd.ops.exp(x), X)) is None


def repeated(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
    """The second result numbers the elements of the first by quotients of its own axes."""
    made = fd.ops.exp(x)
    return [made, fd.ops.reshape(fd.ops.permute(made, [1, 0]), [8, 3]) + y]


def test_an_element_is_stored_at_one_point_of_the_loops() -> None:
    made = updating(repeated, torch.randn(4, 6), torch.randn(8, 3))
    assert points_refusal(made, arrange(trace(made))) == "an element of T2 is stored more than once"


def again(body: Body, extent: int, step: int) -> Body:
    """`body` at `extent` points in place of each, whose accesses lie `step` apart."""
    axis = Axis((9,), extent)
    apart = Index(0, ((axis, step),)) if step else ZERO
    return dataclasses.replace(
        body,
        axes=(axis, *body.axes),
        code=tuple(with_index(node, lambda at: at + apart) for node in body.code),
        stores=tuple(dataclasses.replace(store, at=store.at + apart) for store in body.stores),
    )


@pytest.mark.parametrize(("extent", "step", "fits"), [(1, 0, True), (2, 0, False), (2, 1, False)])
def test_points_that_store_an_element_again_are_noticed(extent: int, step: int, fits: bool) -> None:
    made = updating(lambda fd, x: fd.ops.exp(x), X)
    body = again(arrange(trace(made)), extent, step)
    assert (points_refusal(made, body) is None) is fits
