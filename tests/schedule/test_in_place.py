"""Kernels that store where an input lies: where that is refused, and why."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.passes.lower_reductions import lower_reductions
from fuser.schedule.axes import arrange
from fuser.schedule.body import trace
from fuser.schedule.in_place import points_refusal, rows_refusal, scatter_refusal
from fuser.schedule.row_axes import arrange_rows
from fuser.schedule.row_trace import trace_rows
from fuser.segmenter import Segment, segment
from tests.schedule.rows import softmax
from tests.segmented import concrete, memory_of

Define = Callable[..., Handle]
X = torch.randn(4, 4)
ELSEWHERE = "an element is computed from others of the old T0"


def updating(define: Define, *inputs: torch.Tensor) -> Segment:
    """The kernel that writes what is defined into the first input."""
    with FusionDefinition() as fd:
        given = list(map(fd.from_pytorch, inputs))
        fd.add_output(define(fd, *given), alias_input=given[0])
    fusion = lower_reductions(concrete(fd.fusion, inputs))
    *_, last = segment(fusion, memory_of(fusion, inputs)).segments
    return last


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


def running(fd: FusionDefinition, mean: Handle, x: Handle) -> Handle:
    """A running mean of each row."""
    return mean * 0.9 + fd.ops.mean(x, [1]) * 0.1


def test_what_is_the_same_all_along_a_row_is_read_by_a_whole_team() -> None:
    assert of_rows(running, torch.randn(4), X) is None
    refusal = of_rows(running, torch.randn(4), X, by_team=True)
    assert refusal == "several threads read the old T0"


def test_what_other_rows_read_is_not_overwritten_by_what_all_rows_fold() -> None:
    def define(fd: FusionDefinition, bias: Handle, x: Handle) -> Handle:
        return fd.ops.sum(x * fd.ops.broadcast(bias, [True, False]), [0])

    refusal = of_rows(define, torch.randn(4), X)
    assert refusal == "the old T0 is read by other rows"


def test_an_element_that_is_stored_again_is_not_computed_from_what_was_there() -> None:
    def define(fd: FusionDefinition, bias: Handle, x: Handle) -> Handle:
        return bias + fd.ops.sum(x, [0])

    assert of_rows(define, torch.randn(4), X) is None


def test_a_scatter_reads_nothing_of_what_it_overwrites() -> None:
    assert scatter_refusal(updating(lambda fd, x: fd.ops.exp(x), X)) is not None
