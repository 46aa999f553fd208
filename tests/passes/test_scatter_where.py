from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.errors import IndexOutOfRangeError
from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Broadcast, CheckIndex, Full, Fusion, Number, Scatter
from fuser.passes.scatter_where import compare_in_scatters
from tests.passes.drafts import draft_of_scatter
from tests.passes.rewriting import Draft, names, rewritten

COMPARED = ["iota", "broadcast", "check_index", "eq"]


def scattered(
    data: torch.Tensor,
    index: torch.Tensor,
    source: torch.Tensor | Number,
    dim: int = 1,
    mode: str = "scatter",
) -> Draft:
    draft = Draft()
    x, at = draft.tensor(data), draft.tensor(index)
    if isinstance(source, torch.Tensor):
        src = draft.tensor(source)
    else:
        src = draft.number(source, DataType.Double)
    return draft.out(draft.add(Scatter(x, at, src, dim, mode)))


def compared(draft: Draft) -> Fusion:
    return rewritten(compare_in_scatters, draft)


def test_one_number_a_row_is_a_comparison():
    # scatter(T0 [8, 12], T1 [8, 1], T2 [8, 1], dim=1)     ->     where(iota == T1, T2, T0)
    index = torch.randint(0, 12, (8, 1))
    after = compared(scattered(torch.randn(8, 12), index, torch.randn(8, 1)))
    assert names(after) == [*COMPARED, "where"]
    (check,) = (s.op for s in after.statements if isinstance(s.op, CheckIndex))
    assert (check.arg, check.size, check.operation) == (after.inputs[1], 12, "scatter")


@pytest.mark.parametrize(("start", "checked"), [(0, False), (4, False), (5, True), (-1, True)])
def test_constants_in_range_are_not_checked(start: int, checked: bool):
    draft = Draft()
    x, source = draft.tensor(torch.randn(8, 12)), draft.tensor(torch.randn(8, 1))
    index = draft.add(Broadcast(draft.range(8, start), (False, True)))
    after = compared(draft.out(draft.add(Scatter(x, index, source, 1, "scatter"))))
    assert ("check_index" in names(after)) is checked


def test_one_number_a_column_too():
    index = torch.randint(0, 8, (1, 12))
    after = compared(scattered(torch.randn(8, 12), index, torch.randn(1, 12), dim=0))
    assert names(after) == [*COMPARED, "where"]


def test_a_single_dimension_needs_no_broadcast():
    after = compared(scattered(torch.randn(8), torch.tensor([3]), torch.randn(1), dim=0))
    assert names(after) == ["iota", "check_index", "eq", "where"]


@pytest.mark.parametrize(
    ("mode", "joins"),
    [("scatter_add", "add"), ("scatter_amax", "maximum"), ("scatter_prod", "mul")],
)
def test_what_joins_is_compared_for_too(mode: str, joins: str):
    index = torch.randint(0, 12, (8, 1))
    draft = scattered(torch.randn(8, 12), index, torch.randn(8, 1), mode=mode)
    assert names(compared(draft)) == [joins, *COMPARED, "where"]


@pytest.mark.parametrize(
    ("dtype", "number", "converted"),
    [
        (torch.float32, -1.0, -1.0),
        (torch.int64, 2.7, 2),
        (torch.bool, 2.7, True),
        (torch.complex64, 1.5, 1.5 + 0j),
        (torch.float16, 1e-3, torch.tensor(1e-3).half().item()),
    ],
)
def test_a_number_is_converted_as_scatter_converts_it(
    dtype: torch.dtype, number: float, converted: Number
):
    draft = scattered(torch.zeros(3, 4).to(dtype), torch.tensor([[0], [3], [1]]), number)
    compared(draft)
    assert interpret(compare_in_scatters(draft.fusion), draft.inputs)[0][1, 3].item() == converted


@pytest.mark.parametrize("mode", ["scatter", "scatter_add"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_narrow_type_is_kept(dtype: torch.dtype, mode: str):
    index = torch.randint(0, 12, (8, 1))
    source = torch.randn(8, 1).to(dtype)
    after = compared(scattered(torch.randn(8, 12).to(dtype), index, source, mode=mode))
    last = ["where", "cast"] if mode == "scatter_add" else ["eq", "where"]  # what adds is wider
    assert names(after)[-2:] == last


def test_a_larger_source_is_read_in_part():
    index = torch.randint(0, 12, (8, 1))
    after = compared(scattered(torch.randn(8, 12), index, torch.randn(9, 3)))
    assert names(after) == ["slice", *COMPARED, "where"]


@pytest.mark.parametrize("mode", ["scatter", "scatter_add"])
@pytest.mark.parametrize("wrong", [-1, -12, 12])
def test_an_index_out_of_range_is_refused_as_before(mode: str, wrong: int):
    index = torch.tensor([[3], [wrong]])
    draft = scattered(torch.randn(2, 12), index, torch.randn(2, 1), mode=mode)
    compared(draft)
    after = compare_in_scatters(draft.fusion)
    with pytest.raises(IndexOutOfRangeError, match=rf"{mode}: index {wrong}"):
        interpret(after, draft.inputs)


@pytest.mark.parametrize(
    ("index", "mode"),
    [
        (torch.randint(0, 12, (8, 2)), "scatter_add"),
        (torch.randint(0, 12, (7, 1)), "scatter"),
        (torch.tensor([3]), "index_add"),
    ],
)
def test_an_index_of_more_or_of_a_part_of_the_rows_stays(index: torch.Tensor, mode: str):
    draft = scattered(torch.randn(8, 12), index, torch.randn(8, index.shape[-1]), mode=mode)
    assert names(compared(draft)) == [mode]


def test_the_result_lies_as_before():
    index = torch.randint(0, 12, (1, 8)).t()
    after = compared(scattered(torch.randn(12, 8).t(), index, torch.randn(8, 1)))
    assert names(after) == [*COMPARED, "where"]


def test_scatters_into_one_kind_of_data_share_what_they_compare_with():
    draft = Draft()
    index = draft.tensor(torch.randint(0, 12, (8, 1)))
    for number in (1, 2):
        data = draft.add(Full((8, 12), draft.number(0), DataType.Float))
        draft.out(draft.add(Scatter(data, index, draft.number(number, DataType.Double), 1)))
    after = compared(draft)
    assert names(after).count("check_index") == names(after).count("eq") == 1


@given(st.integers(0, 10**6))
@settings(max_examples=250, deadline=None)
def test_comparisons_choose_what_scatters_write(seed: int):
    rewritten(compare_in_scatters, draft_of_scatter(random.Random(seed)))
