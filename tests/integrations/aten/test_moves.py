"""What moves elements by fixed rules: torch's results, and by which operations they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from fuser.integrations import dynamo
from fuser.integrations.partitions.partition_call import define
from fuser.ir.interpret import interpret
from fuser.ir.printer import operation_name
from tests.integrations.graphs import CPU

aten: Any = torch.ops.aten
END = 2**63 - 1
ODD = torch.arange(11 * 3.0).view(11, 3)
IMAGE = torch.randn(2, 5, 4)
PLACED = {"slice", "cat", "pad", "where", "index_select"}
"""What tells how elements get to their places."""


def placed_by(function: Callable[..., Any], *inputs: torch.Tensor) -> set[str]:
    """The operations by which elements are moved, of a function whose results are torch's."""
    definition = define(make_fx(function, tracing_mode="fake")(*inputs).graph)
    results = interpret(definition.fusion, list(inputs), CPU)
    expected = function(*inputs)
    torch.testing.assert_close(results, [expected] if torch.is_tensor(expected) else expected)
    return {operation_name(s.op) for s in definition.fusion.statements} & PLACED


def agree_at(function: Callable[..., torch.Tensor], *calls: tuple[Any, ...]) -> None:
    """Results are torch's at each call, and all of them have one definition."""
    run = torch.compile(function, backend="fuser", dynamic=True)
    for call in calls:
        torch.testing.assert_close(run(*call), function(*call))
    (report,) = dynamo.reports()
    assert report.percent == 100


# -- cat, repeat, flip ---------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_parts_of_several_dtypes_are_joined_in_the_widest(dim: int):
    parts = (IMAGE, IMAGE.to(torch.bfloat16), torch.ones_like(IMAGE, dtype=torch.int64))
    assert placed_by(lambda *parts: torch.cat(parts, dim), *parts) == {"cat"}


def test_what_is_empty_and_of_one_dimension_is_skipped():
    assert placed_by(lambda x, y: torch.cat([x, y]), torch.empty(0), ODD) == set()


@pytest.mark.parametrize("repeats", [(2, 3), (2, 1, 3), (1, 1)])
def test_repeats_are_a_view_of_what_is_expanded(repeats: tuple[int, ...]):
    assert placed_by(lambda x: x.repeat(repeats), ODD) == set()


def test_repeats_that_are_known_at_the_call():
    def repeated(x: torch.Tensor, down: int, across: int) -> torch.Tensor:
        return (x * 2).repeat(down, across, 2)

    agree_at(repeated, (ODD, 2, 3), (ODD, 4, 5), (ODD[:7], 5, 2))


@pytest.mark.parametrize("dims", [(0,), (0, -1), ()])
def test_flips(dims: tuple[int, ...]):
    placed_by(lambda x: torch.flip(x, dims), IMAGE)


# -- pads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pad", [(1, 2), (-1, 2, 0, 3), (0, 0, 1, -2), (-2, -2)])
def test_a_pad_adds_and_takes_away(pad: tuple[int, ...]):
    assert placed_by(lambda x: aten.constant_pad_nd(x, pad, 5.0), IMAGE) == {"pad"}


def test_pads_whose_widths_are_known_at_the_call_are_reads_at_clamped_places():
    def padded(x: torch.Tensor, before: int, after: int) -> torch.Tensor:
        return torch.nn.functional.pad(x, (before, 1, 2, after), value=-1.0) * 2

    agree_at(padded, (ODD, 2, 3), (ODD, 4, 6), (ODD[:7], 5, 2))


def test_of_what_is_empty_a_pad_of_any_widths_is_its_filler():
    def padded(x: torch.Tensor, before: int, after: int) -> torch.Tensor:
        return torch.nn.functional.pad(x * 2, (before, after), value=-1.0)

    agree_at(padded, (ODD[:, :0], 2, 3), (ODD[:7, :0], 4, 6))


# -- slices that are written ---------------------------------------------------------------------


@pytest.mark.parametrize("fill", [0.0, 2.5])
@pytest.mark.parametrize(
    ("dim", "start", "end", "step"), [(0, 2, 9, 1), (1, None, 2, 1), (0, -3, END, 1), (0, 1, 10, 3)]
)
def test_a_slice_of_what_is_full_of_a_number_is_padded(
    fill: float, dim: int, start: int | None, end: int, step: int
):
    def written(x: torch.Tensor) -> torch.Tensor:
        full = aten.full([11, 3], fill)
        return aten.slice_scatter(full, aten.slice(x, dim, start, end, step), dim, start, end, step)

    assert "pad" in placed_by(written, ODD)
    assert placed_by(written, ODD) <= {"pad", "slice"}


@pytest.mark.parametrize(
    ("start", "end", "by"),
    [(0, 4, {"cat", "slice"}), (7, 11, {"cat", "slice"}), (3, 5, {"cat", "slice"}), (0, 11, set())],
)
def test_a_slice_that_is_written_stands_between_what_is_kept(start: int, end: int, by: set[str]):
    def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return aten.slice_scatter(x, y, 0, start, end)

    assert placed_by(written, ODD, -ODD[: end - start]) == by


@pytest.mark.parametrize(("start", "end", "step"), [(0, 11, 2), (1, 11, 4), (-9, 9, 3), (2, 7, 2)])
def test_every_few_elements_are_chosen_among_both(start: int, end: int, step: int):
    def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return aten.slice_scatter(x, y, 0, start, end, step)

    assert placed_by(written, ODD, -ODD[slice(start, end, step)] - 1) == {"pad", "where"}


def test_an_empty_slice_changes_nothing():
    def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return aten.slice_scatter(x, y, 0, 5, 2)

    assert placed_by(written, ODD, ODD[:0]) == set()


def test_a_slice_takes_the_type_of_what_it_is_written_to():
    def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return aten.slice_scatter(x, y, 0, 2, 4)

    placed_by(written, ODD.to(torch.bfloat16), ODD[:2])


def test_slices_whose_bounds_are_known_at_the_call():
    def written(x: torch.Tensor, start: int, end: int) -> torch.Tensor:
        return aten.slice_scatter(x + 1, x[start:end] * -2, 0, start, end) * 2

    agree_at(written, (ODD, 2, 7), (ODD, 3, 10), (ODD[:9], 4, 9))


def test_an_empty_slice_changes_nothing_whatever_the_sizes():
    def written(x: torch.Tensor, by: int) -> torch.Tensor:
        return aten.slice_scatter(x * by, x[:0], 0, 0, 0)

    agree_at(written, (ODD, 2), (ODD[:7], 3))


@pytest.mark.parametrize("step", [1, 2])
def test_gradients_of_slices_that_are_empty_at_the_call(step: int):
    def gradient(x: torch.Tensor, start: int) -> torch.Tensor:
        x = x.clone().requires_grad_()
        run(x, start).square().sum().backward()
        assert x.grad is not None
        return x.grad

    run = torch.compile(lambda x, start: x[:, start::step] * 2, backend="fuser", dynamic=True)
    for x, start in ((ODD.T, 2), (ODD.T, 11), (ODD.T[:2, :9], 9)):
        expected = torch.zeros_like(x)
        expected[:, start::step] = x[:, start::step] * 8
        torch.testing.assert_close(gradient(x, start), expected)


def test_slices_whose_steps_are_known_at_the_call():
    def written(x: torch.Tensor, start: int, step: int) -> torch.Tensor:
        return aten.slice_scatter(x + 1, x[start::step] * -2, 0, start, END, step) * 2

    agree_at(written, (ODD, 2, 2), (ODD, 3, 4), (ODD[:9], 4, 3))


# -- elements that are written -------------------------------------------------------------------


@pytest.mark.parametrize("index", [0, 2, -1, -5])
def test_a_selected_element_is_a_slice_of_one(index: int):
    def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return aten.select_scatter(x, y, 1, index)

    assert placed_by(written, IMAGE, torch.randn(2, 4)) == {"cat", "slice"}


def test_the_gradient_of_a_selected_element_is_a_pad():
    def written(y: torch.Tensor) -> torch.Tensor:
        return aten.select_scatter(aten.full([2, 5, 4], 0.0), y, 1, 3)

    assert placed_by(written, torch.randn(2, 4)) == {"pad"}


@pytest.mark.parametrize("index", [1, -2])
def test_an_element_of_a_size_that_is_open(index: int):
    def written(x: torch.Tensor) -> torch.Tensor:
        return aten.select_scatter(x + 1, x.sum(0), 0, index) * 2

    agree_at(written, (ODD,), (ODD[:5],), (ODD[2:9],))


def test_an_element_whose_place_is_known_at_the_call():
    def written(x: torch.Tensor, index: int) -> torch.Tensor:
        return aten.select_scatter(x + 1, x.sum(0), 0, index) * 2

    agree_at(written, (ODD, 3), (ODD, 7), (ODD[:5], 2))
