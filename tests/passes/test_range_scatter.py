from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Expand,
    Full,
    Fusion,
    Pad,
    Scatter,
    StrideOrder,
    Value,
    View,
)
from fuser.passes.range_scatter import pad_range_scatters
from tests.passes.drafts import draft_of_scatter
from tests.passes.rewriting import Draft, names, rewritten

Span = tuple[int, int, int]


def padded(draft: Draft) -> Fusion:
    return rewritten(pad_range_scatters, draft)


def zeros(draft: Draft, *shape: int, dtype: DataType = DataType.Float) -> Value:
    return draft.add(Full(shape, draft.number(0), dtype))


def index_added(span: Span, source: torch.Tensor, shape: tuple[int, ...], dim: int) -> Draft:
    """index_add of `source` into zeros at a range: length, start, step."""
    draft = Draft()
    data = zeros(draft, *shape)
    src = draft.tensor(source)
    return draft.out(draft.add(Scatter(data, draft.range(*span), src, dim, "index_add")))


def pads(fusion: Fusion) -> list[tuple[tuple[int, int], ...]]:
    return [s.op.widths for s in fusion.statements if isinstance(s.op, Pad)]


def test_adding_to_zeros_at_a_range_is_a_pad():
    # index_add(zeros [8, 12], 3 + i, T0 [8, 4])     ->     pad(T0, 3 before, 5 after)
    after = padded(index_added((4, 3, 1), torch.randn(8, 4), (8, 12), 1))
    assert names(after) == ["pad"]
    assert pads(after) == [((0, 0), (3, 5))]


def test_a_sum_lies_as_a_scatter_into_what_was_turned():
    # index_add(T0 turned [8, 4], i, T0 [8, 4])     ->     T0 + T0, laid out again
    draft = Draft()
    x = draft.tensor(torch.randn(8, 4))
    turned = draft.add(StrideOrder(x, (0, 1)))
    draft.out(draft.add(Scatter(turned, draft.range(8), x, 0, "index_add")))
    assert names(padded(draft)) == ["stride_order", "add", "stride_order"]


def test_a_step_puts_zeros_between():
    after = padded(index_added((4, 3, 2), torch.randn(8, 4), (8, 12), 1))
    assert names(after) == ["broadcast", "pad", "reshape", "pad"]
    assert pads(after) == [((0, 0), (0, 0), (0, 1)), ((0, 0), (3, 1))]


def test_zeros_behind_the_last_element_are_cut():
    after = padded(index_added((4, 0, 3), torch.randn(4), (10,), 0))
    assert pads(after) == [((0, 0), (0, 2)), ((0, -2),)]
    same_size = padded(index_added((2, 1, 2), torch.randn(2), (4,), 0))
    assert pads(same_size)[-1] == ((1, -1),)


def test_a_falling_range_is_flipped_first():
    after = padded(index_added((4, 7, -1), torch.randn(4), (10,), 0))
    assert names(after) == ["flip", "pad"]
    assert pads(after) == [((4, 2),)]


def test_a_range_that_covers_everything_adds_nothing_around():
    draft = index_added((6,), torch.randn(6), (6,), 0)
    assert names(padded(draft)) == ["stride_order"]  # a copy of the input


@pytest.mark.parametrize("span", [(3, 2, 0), (4, 7, 1), (2, 1, -2), (2, -2, 1)])
def test_a_range_that_meets_itself_or_leaves_the_dimension_stays(span: Span):
    after = padded(index_added(span, torch.randn(span[0]), (8,), 0))
    assert "index_add" in names(after)


def test_nothing_is_added_at_an_empty_range():
    after = padded(index_added((0, 5, 9), torch.randn(3, 0), (3, 8), 1))
    assert names(after) == ["pad"]
    assert pads(after) == [((0, 0), (0, 8))]


def test_rows_below_zero_count_from_the_end_where_torch_says_so():
    draft = Draft()
    data, src = zeros(draft, 8, 2), draft.tensor(torch.randn(3, 2))
    index = draft.range(3, -4, 1)
    draft.out(draft.add(Scatter(data, index, src, 0, "index_put_accumulate")))
    assert pads(padded(draft)) == [((4, 1), (0, 0))]


def test_rows_of_an_index_of_more_dimensions_are_taken_as_they_lie():
    draft = Draft()
    data, src = zeros(draft, 8, 2), draft.tensor(torch.randn(1, 4, 2))
    index = draft.add(View(draft.range(4, 1, 1), (1, 4)))
    draft.out(draft.add(Scatter(data, index, src, 0, "index_put_accumulate")))
    assert names(padded(draft)) == ["reshape", "pad"]


def test_a_scatter_add_pads_the_other_dimensions_too():
    draft = Draft()
    data, src = zeros(draft, 5, 8), draft.tensor(torch.randn(4, 5))
    index = draft.add(Expand(draft.add(Broadcast(draft.range(3, 2), (True, False))), (2, 3)))
    draft.out(draft.add(Scatter(data, index, src, 1, "scatter_add")))
    after = padded(draft)
    assert names(after) == ["slice", "pad"]
    assert pads(after) == [((0, 3), (2, 3))]


def test_zeros_are_seen_through_broadcasts_expands_and_casts():
    draft = Draft()
    zero = draft.add(Broadcast(zeros(draft, 1), (False, True)))
    data = draft.add(Cast(draft.add(Expand(zero, (8, 3))), DataType.Half))
    src = draft.tensor(torch.randn(4, 3).half())
    draft.out(draft.add(Scatter(data, draft.range(4), src, 0, "index_add")))
    assert names(padded(draft)) == ["pad"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64, torch.bool])
def test_what_is_not_zero_is_added_to(dtype: torch.dtype):
    draft = Draft()
    x, src = draft.tensor(torch.ones(8, 3).to(dtype)), draft.tensor(torch.ones(4, 3).to(dtype))
    draft.out(draft.add(Scatter(x, draft.range(4, 2), src, 0, "index_add")))
    assert names(padded(draft)) == ["pad", "add"]


def test_no_zero_changes_its_sign_where_it_is_added_to():
    draft = Draft()
    x, src = draft.tensor(torch.tensor([-0.0, -0.0, 0.0, 1.0])), draft.tensor(torch.tensor([-0.0]))
    draft.out(draft.add(Scatter(x, draft.range(1, 1), src, 0, "index_add")))
    assert names(rewritten(pad_range_scatters, draft, bits=True)) == ["pad", "add"]


def test_a_sum_of_another_type_is_not_taken():
    draft = Draft()
    x, src = draft.tensor(torch.ones(8).half()), draft.tensor(torch.ones(4).half())
    draft.out(draft.add(Scatter(x, draft.range(4, 2), src, 0, "index_add")))
    assert names(padded(draft)) == ["iota", "index_add"]


def scattered(span: Span, shape: tuple[int, ...], dim: int, source: torch.Tensor | float) -> Draft:
    draft = Draft()
    x = draft.tensor(torch.randn(shape))
    along = draft.add(Broadcast(draft.range(*span), tuple(d != dim for d in range(len(shape)))))
    sizes = (*shape[:dim], span[0], *shape[dim + 1 :])
    index = draft.add(Expand(along, sizes))
    tensor = isinstance(source, torch.Tensor)
    src = draft.tensor(source) if tensor else draft.number(source, DataType.Double)
    return draft.out(draft.pointwise("exp", draft.add(Scatter(x, index, src, dim))))


def test_a_scatter_over_everything_is_its_source():
    source = torch.randn(8, 12)
    assert names(padded(scattered((12, 0, 1), (8, 12), 1, source))) == ["exp"]
    assert names(padded(scattered((8, 7, -1), (8, 12), 0, source))) == ["flip", "exp"]
    assert names(padded(scattered((12, 0, 1), (8, 12), 1, torch.randn(9, 13)))) == [
        *("slice", "exp")
    ]
    assert names(padded(scattered((12, 0, 1), (8, 12), 1, 2.5))) == ["full", "exp"]


def test_a_scatter_over_a_part_stays():
    assert "scatter" in names(padded(scattered((11, 0, 1), (8, 12), 1, torch.randn(8, 12))))
    assert "scatter" in names(padded(scattered((4, 0, 2), (8, 8), 1, torch.randn(8, 4))))


@given(st.integers(0, 10**6))
@settings(max_examples=250, deadline=None)
def test_pads_add_what_scatters_add(seed: int):
    rewritten(pad_range_scatters, draft_of_scatter(random.Random(seed)))


@pytest.mark.parametrize("step", [-3, -2, -1, 1, 2, 3])
@pytest.mark.parametrize("mode", ["scatter_add", "index_add", "index_put_accumulate"])
def test_every_short_range_adds_the_same_or_raises(mode: str, step: int):
    for start in range(-6, 7):
        for count in range(4):
            draft = Draft()
            src = draft.tensor(torch.arange(1.0, 1 + count))
            scatter = Scatter(zeros(draft, 5), draft.range(count, start, step), src, 0, mode)
            padded(draft.out(draft.add(scatter)))
