"""Linear functions of coordinates, beside the tensors that they stand for."""

from __future__ import annotations

import itertools

import pytest
import torch

from fuser import DataType
from fuser.passes.linear import Linear

SHAPE = (4, 8)
ROWS = Linear(3, (16, 2))
APART = Linear(3, (8, 2))


def tensor(found: Linear, shape: tuple[int, ...]) -> torch.Tensor:
    """Every element, by its coordinates."""
    places = itertools.product(*map(range, shape))
    elements = [sum(map(int.__mul__, found.steps, at)) + found.offset for at in places]
    return torch.tensor(elements, dtype=torch.int64).reshape(shape)


@pytest.mark.parametrize("new", [(32,), (2, 2, 8), (8, 4), (2, 16), (4, 8, 1), (4, 2, 2, 2)])
def test_rows_that_go_on_where_the_last_ended_are_viewed_freely(new: tuple[int, ...]) -> None:
    viewed = ROWS.viewed(SHAPE, new)
    assert viewed is not None
    assert torch.equal(tensor(viewed, new), tensor(ROWS, SHAPE).view(new))


@pytest.mark.parametrize(("new", "linear"), [((32,), False), ((2, 2, 8), True), ((2, 16), False)])
def test_other_dimensions_are_split_but_not_merged(new: tuple[int, ...], linear: bool) -> None:
    viewed = APART.viewed(SHAPE, new)
    assert (viewed is not None) == linear
    if viewed is not None:
        assert torch.equal(tensor(viewed, new), tensor(APART, SHAPE).view(new))


@pytest.mark.parametrize("found", [ROWS, APART, Linear(-5, (-3, 2)), Linear(7, (0, 0))])
def test_arithmetic_and_bounds_are_those_of_the_elements(found: Linear) -> None:
    elements = tensor(found, SHAPE)
    assert found.bounds(SHAPE) == (elements.min(), elements.max())
    assert torch.equal(tensor(found.times(-3), SHAPE), elements * -3)
    assert torch.equal(tensor(found.plus(APART), SHAPE), elements + tensor(APART, SHAPE))


def test_a_lone_element_has_no_step() -> None:
    assert Linear(3, (5, 2)).over((1, 8)) == Linear(3, (0, 2))


@pytest.mark.parametrize(
    "dtype", [DataType.Int8, DataType.UInt8, DataType.Half, DataType.BFloat16, DataType.Bool]
)
@pytest.mark.parametrize("last", [1, 127, 128, 255, 256, 257, 2048, 2049])
def test_what_fits_comes_back_from_the_type_as_it_was(dtype: DataType, last: int) -> None:
    count = torch.arange(last + 1)
    kept = torch.equal(count.to(dtype.torch).to(torch.int64), count)
    # Of truth values both are held, but a range is not all the same.
    assert Linear(0, (1,)).fits((last + 1,), dtype) == (kept and dtype is not DataType.Bool)


def test_truth_values_fit_where_all_are_the_same() -> None:
    assert Linear(1, (0,)).fits((5,), DataType.Bool)
    assert not Linear(2, (0,)).fits((5,), DataType.Bool)
