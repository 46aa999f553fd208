"""Scatters in place: points, what is done once for each, and columns; and the oracle's sums."""

from __future__ import annotations

import pytest
import torch

from fuser.schedule.scatters.elements import scatter_of
from fuser.schedule.scatters.trace import PointBody, trace_points
from fuser.schedule.tree.statements import CheckedIndex, Load
from tests.definitions import Define
from tests.schedule.one_thread import OneThread
from tests.schedule.scatters.in_place import (
    APART,
    ELEMENTS,
    ROWS,
    added,
    added_columns,
    added_elements,
    added_tables,
    added_weighted,
    overwritten,
    scatter_segment,
)


def traced(define: Define, inputs: tuple[torch.Tensor, ...]) -> PointBody:
    """The body of a scatter; it stores what the oracle says."""
    segment = scatter_segment(define, *inputs)
    body = trace_points(segment)
    _, op = scatter_of(segment)
    data, *others = inputs
    buffers = [segment.memory[v].base.id for v in segment.fusion.inputs if v is not op.arg]
    given = {segment.memory[op.arg].base.id: data} | dict(zip(buffers, others, strict=True))
    thread = OneThread(segment, given)
    thread.memory[body.store.tensor.name] = data.flatten().clone()
    thread.run(body.prologue)
    nodes = (*body.code, *body.sweep.code, *body.sweep.stores)
    thread.at_points((*body.outside, *body.points, *body.sweep.axes), nodes)
    thread.check(exact=False)
    return body


def extents(body: PointBody) -> tuple[list[int], ...]:
    """Columns outside of all points, points, and columns inside."""
    axes = body.outside, body.points, body.sweep.axes
    return tuple([axis.extent for axis in part] for part in axes)


def test_rows_that_are_added_have_an_index_for_each_point_and_columns_inside() -> None:
    # for i0 < 9: T_index = T1[i0]; for i1 < 16: out[T_index, i1] += T2[i0, i1]
    body = traced(added, ROWS)
    assert extents(body) == ([], [9], [16])
    (check,) = [node for node in body.code if isinstance(node, CheckedIndex)]
    assert check.size == 5
    assert body.shares_index
    assert body.store.joins == "add"


def test_columns_whose_strides_are_longer_than_the_points_are_outside_of_them() -> None:
    assert extents(traced(added_columns, ROWS)) == ([5], [9], [])


def test_points_that_an_index_of_several_dimensions_numbers_are_one_axis() -> None:
    data, index, source = ROWS
    inputs = data, index.view(3, 3), source.view(3, 3, 16)
    assert extents(traced(added_tables, inputs)) == ([], [9], [16])


def test_what_a_point_has_once_is_not_made_for_each_column() -> None:
    body = traced(added_weighted, (*ROWS, torch.randn(9)))
    once, each = (
        [node.tensor.name for node in code if isinstance(node, Load)]
        for code in (body.code, body.sweep.code)
    )
    # T4 is the weight of a point, for all columns.
    assert (sorted(once), each) == (["T1", "T4"], ["T2"])


def test_columns_with_indices_of_their_own_check_one_for_each() -> None:
    body = traced(added_elements, ELEMENTS)
    assert not body.shares_index
    assert any(isinstance(node, CheckedIndex) for node in body.sweep.code)


def test_what_overwrites_joins_nothing() -> None:
    assert traced(overwritten, APART).store.joins is None


@pytest.mark.parametrize("define", [added, added_columns])
def test_code_for_a_name_is_what_leads_to_it(define: Define) -> None:
    body = traced(define, ROWS)
    (check,) = [node for node in body.code if isinstance(node, CheckedIndex)]
    names = [node.name for node in body.code_for([check.name])]
    assert names[-1] == check.name
    assert len(names) == 2  # the load of the index, and the check
    assert body.code_for([]) == ()
