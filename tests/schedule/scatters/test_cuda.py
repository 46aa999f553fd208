"""Scatters on a GPU: who takes which points and columns."""

from __future__ import annotations

import pytest
import torch

from fuser.schedule import CudaRowParameters, LoopNest
from fuser.schedule.indices.index import Axis
from fuser.schedule.scatters.cuda import schedule_scatter_cuda
from fuser.schedule.tree.bindings import Binding, Team
from fuser.schedule.tree.counts import ceil_div
from fuser.schedule.tree.expressions import Literal
from fuser.schedule.tree.loop_tree import Loop, every_node
from fuser.schedule.tree.scatter_nodes import WarpElements, WarpPoints
from fuser.schedule.tree.statements import CheckedIndex, Load, Store
from tests.definitions import Define
from tests.schedule.scatters.in_place import (
    ELEMENTS,
    added,
    added_elements,
    added_weighted,
    overwritten,
    rows,
    scatter_segment,
)

ALIGNED = 64
GIVEN = CudaRowParameters()
WARPS = GIVEN.scatter_warps


def nest(define: Define, inputs: tuple[torch.Tensor, ...]) -> LoopNest:
    segment = scatter_segment(define, *inputs)
    alignments = {lies.base: ALIGNED for lies in segment.memory.values()}
    return schedule_scatter_cuda(segment, alignments, GIVEN)


def warp_points(columns: int) -> tuple[LoopNest, WarpPoints]:
    made = nest(added, rows(columns))
    (node,) = made.body
    assert isinstance(node, WarpPoints)
    return made, node


@pytest.mark.parametrize(
    ("columns", "lanes"), [(16, 1), (32, 1), (64, 2), (128, 4), (768, 4), (130, 2), (129, 1)]
)
def test_a_warp_takes_points_and_each_thread_aligned_neighbours_of_their_columns(
    columns: int, lanes: int
) -> None:
    made, node = warp_points(columns)
    assert made.team is Team.WARP
    assert (node.columns.binding, node.columns.step) == (Binding.TEAM, lanes)
    assert node.columns.axis.extent == columns
    assert node.store.lanes == lanes


@pytest.mark.parametrize(("columns", "chunks"), [(32, 1), (128, 1), (768, 6), (2048, 16)])
def test_there_is_a_warp_for_every_32_points_and_as_many_columns_as_it_has_lanes_for(
    columns: int, chunks: int
) -> None:
    made, _ = warp_points(columns)
    assert made.launch.block == (32, WARPS, 1)
    assert made.launch.grid == (ceil_div(chunks, WARPS), 1, 1)  # of nine points


def test_the_place_of_a_point_is_apart_from_its_columns() -> None:
    (node,) = nest(added_weighted, (*rows(64), torch.randn(9))).body
    assert isinstance(node, WarpPoints)
    place = [term for term, _ in node.place.terms]
    assert [getattr(term, "name", None) for term in place] == [
        check.name for check in node.code if isinstance(check, CheckedIndex)
    ]
    assert [term for term, _ in node.store.at.terms] == [node.columns.axis]
    # The source and its weight are read where columns are, not where the place is made.
    reads = [load.tensor.name for load in node.code if isinstance(load, Load)]
    inside = [load.tensor.name for load in node.columns.body if isinstance(load, Load)]
    assert (reads, sorted(inside)) == (["T1"], ["T2", "T4"])
    assert not any(isinstance(inner, Store) for inner in every_node(node.columns.body))


def test_sums_of_a_place_begin_with_what_adds_nothing() -> None:
    _, node = warp_points(64)
    assert isinstance(node.fill, Literal)
    number = torch.tensor(node.fill.value)
    for kept in (torch.tensor(-0.0), torch.tensor(0.0)):
        assert torch.signbit(kept + number) == torch.signbit(kept)


@pytest.mark.parametrize("columns", [2, GIVEN.shared_columns - 1])
def test_of_few_columns_a_warp_takes_elements(columns: int) -> None:
    made = nest(added, rows(columns))
    (node,) = made.body
    assert isinstance(node, WarpElements)
    assert sorted(axis.extent for axis in node.axes) == sorted([9, columns])
    assert node.store.joins == "add"
    assert made.launch.grid == (ceil_div(ceil_div(9 * columns, 32), WARPS), 1, 1)


def grid_axes(made: LoopNest) -> list[Axis]:
    assert made.team is Team.GRID
    loops = [node for node in every_node(made.body) if isinstance(node, Loop)]
    assert all(loop.step == 1 for loop in loops)
    return [loop.axis for loop in loops if loop.binding is Binding.TEAM]


@pytest.mark.parametrize("define", [added_elements, overwritten])
def test_columns_with_indices_of_their_own_and_overwriting_go_element_by_element(
    define: Define,
) -> None:
    made = nest(define, ELEMENTS)
    assert [axis.extent for axis in grid_axes(made)] == [9, 16]
    (store,) = [node for node in every_node(made.body) if isinstance(node, Store)]
    assert store.joins == ("add" if define is added_elements else None)


def test_all_are_named_after_what_they_do() -> None:
    made = nest(added, rows(64)), nest(added, rows(4)), nest(added_elements, ELEMENTS)
    assert all("scatter" in each.name for each in made)
