from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Broadcast, Cast, Expand, Fusion, Gather, Iota, Slice, View
from fuser.passes.range_gather import slice_range_gathers
from tests.passes.drafts import draft_of_gather
from tests.passes.rewriting import Draft, names, rewritten


def sliced(draft: Draft) -> Fusion:
    return rewritten(slice_range_gathers, draft)


def gathered(
    mode: str, data: torch.Tensor, index: torch.Tensor | tuple[int, int, int], dim: int
) -> Draft:
    """exp(gather): the index is a tensor, or a range broadcast to the data's rank."""
    draft = Draft()
    x = draft.tensor(data)
    at = draft.tensor(index) if isinstance(index, torch.Tensor) else draft.range(*index)
    if mode != "index_select" and not isinstance(index, torch.Tensor):
        at = draft.add(Broadcast(at, tuple(d != dim for d in range(data.dim()))))
    return draft.out(draft.pointwise("exp", draft.add(Gather(mode, x, at, dim))))


def slice_of(fusion: Fusion) -> Slice:
    (found,) = (s.op for s in fusion.statements if isinstance(s.op, Slice))
    return found


def test_an_index_select_by_a_range_is_a_slice():
    # index_select(T0, 3 + 2 i, dim=1)     ->     slice(T0, 3:10:2 along 1)
    after = sliced(gathered("index_select", torch.randn(8, 12), (4, 3, 2), 1))
    assert names(after) == ["slice", "exp"]
    found = slice_of(after)
    assert (found.starts, found.ends, found.steps) == ((0, 3), (8, 10), (1, 2))


def test_a_range_over_everything_is_nothing():
    after = sliced(gathered("index_select", torch.randn(8, 12), (12,), 1))
    assert names(after) == ["exp"]


def test_a_falling_range_is_flipped():
    after = sliced(gathered("index_select", torch.randn(8, 12), (4, 9, -2), 1))
    assert names(after) == ["slice", "flip", "exp"]
    found = slice_of(after)
    assert (found.starts, found.ends, found.steps) == ((0, 3), (8, 10), (1, 2))
    whole = sliced(gathered("index_select", torch.randn(8, 12), (12, 11, -1), 1))
    assert names(whole) == ["flip", "exp"]


def test_a_range_that_stays_is_expanded():
    # The order of exp's strides, which shows, would be left open by an expanded operand.
    after = sliced(gathered("index_select", torch.randn(8, 12), (5, 3, 0), 1))
    assert names(after) == ["slice", "expand", "stride_order", "exp"]


def test_a_gather_takes_no_more_of_the_other_dimensions_than_its_index():
    draft = Draft()
    x = draft.tensor(torch.randn(8, 12, 3))
    row = draft.add(Broadcast(draft.range(4, 3), (True, False, True)))
    index = draft.add(Expand(row, (5, 4, 2)))
    draft.out(draft.pointwise("exp", draft.add(Gather("gather", x, index, 1))))
    found = slice_of(sliced(draft))
    assert (found.starts, found.ends) == ((0, 3, 0), (5, 7, 2))


def test_take_along_axis_broadcasts_the_data_against_the_index():
    draft = Draft()
    x = draft.tensor(torch.randn(1, 12, 3))
    index = draft.add(Expand(draft.add(Broadcast(draft.range(4), (True, False, True))), (5, 4, 1)))
    draft.out(draft.pointwise("exp", draft.add(Gather("take_along_axis", x, index, 1))))
    after = sliced(draft)
    assert names(after) == ["slice", "expand", "stride_order", "exp"]
    assert after.statements[-1].out.shape == (5, 4, 3)


@pytest.mark.parametrize(
    ("mode", "left"),
    [("index_select", True), ("gather", True), ("take_along_axis", False)],
)
def test_positions_below_zero_count_from_the_end_where_torch_says_so(mode: str, left: bool):
    data = torch.randn(6)
    after = sliced(gathered(mode, data, (2, -3, 1), 0))
    assert (mode in names(after)) is left
    across_zero = sliced(gathered(mode, data, (2, -1, 1), 0))
    assert mode in names(across_zero)


@pytest.mark.parametrize("mode", ["index_select", "gather", "take_along_axis"])
def test_a_range_that_leaves_the_dimension_is_left_to_raise(mode: str):
    for span in [(4, 3, 1), (2, 3, -4), (1, -7, 1), (1, 6, 1)]:
        assert mode in names(sliced(gathered(mode, torch.randn(6), span, 0)))


def test_an_empty_range_is_an_empty_slice_wherever_it_starts():
    assert names(sliced(gathered("index_select", torch.randn(6), (0, 99, 5), 0))) == [
        "slice",
        "exp",
    ]


@pytest.mark.parametrize("position", [0, 2, -1, -3])
def test_a_select_at_a_known_position_is_a_slice(position: int):
    draft = Draft()
    x = draft.tensor(torch.randn(4, 3, 2).transpose(0, 1))
    draft.out(draft.add(Gather("select", x, draft.number(position), 0)))
    assert names(sliced(draft)) == ["slice", "squeeze"]


def test_a_select_outside_or_at_an_unknown_position_stays():
    for position in (3, -4):
        draft = Draft()
        x = draft.tensor(torch.randn(3, 2))
        draft.out(draft.add(Gather("select", x, draft.number(position), 0)))
        assert names(sliced(draft)) == ["select"]
    draft = Draft()
    x = draft.tensor(torch.randn(3, 2))
    draft.out(draft.add(Gather("select", x, draft.scalar(1, DataType.Int), 0)))
    assert names(sliced(draft)) == ["select"]


def test_an_output_is_still_a_copy_of_its_own():
    draft = Draft()
    x = draft.tensor(torch.randn(12, 8).t())
    draft.out(draft.add(Gather("index_select", x, draft.range(4), 1)))
    assert names(sliced(draft)) == ["slice", "stride_order"]


def test_a_range_computed_in_a_floating_type_is_one():
    draft = Draft()
    x = draft.tensor(torch.randn(12))
    start, step = draft.number(1.0, DataType.Double), draft.number(2.0, DataType.Double)
    floating = draft.add(Iota(4, start, step, DataType.Float))
    index = draft.add(View(draft.add(Cast(floating, DataType.Int32)), (4,)))
    draft.out(draft.pointwise("exp", draft.add(Gather("index_select", x, index, 0))))
    assert names(sliced(draft)) == ["slice", "exp"]


def test_any_other_index_stays():
    index = torch.tensor([0, 1, 2])
    after = sliced(gathered("index_select", torch.randn(6), index, 0))
    assert names(after) == ["index_select", "exp"]


@given(st.integers(0, 10**6))
@settings(max_examples=250, deadline=None)
def test_slices_read_what_gathers_read(seed: int):
    rewritten(slice_range_gathers, draft_of_gather(random.Random(seed)))


@pytest.mark.parametrize("step", [-2, -1, 1, 2])
@pytest.mark.parametrize("start", range(-3, 4))
@pytest.mark.parametrize("mode", ["index_select", "gather", "take_along_axis"])
def test_every_short_range_reads_the_same_or_raises(mode: str, start: int, step: int):
    for count in range(4):
        sliced(gathered(mode, torch.arange(12.0).view(3, 4), (count, start, step), 0))
