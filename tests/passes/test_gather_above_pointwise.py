from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.errors import IndexOutOfRangeError
from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    CheckIndex,
    Expand,
    Full,
    Fusion,
    Gather,
    Permute,
    Reduce,
    StrideOrder,
    Value,
    View,
)
from fuser.passes.gather_above_pointwise import MAX_COST, MAX_REPEATS, move_gathers_up
from tests.passes.drafts import draft_of_gather
from tests.passes.rewriting import Draft, names, rewritten

MODES = ("gather", "index_select", "take_along_axis", "select")


def moved(draft: Draft) -> Fusion:
    return rewritten(move_gathers_up, draft)


def data_of_gathers(fusion: Fusion) -> list[Value]:
    return [s.op.arg for s in fusion.statements if isinstance(s.op, Gather)]


def picked(draft: Draft, shape: tuple[int, ...], size: int) -> Value:
    """A random index into a dimension of `size`."""
    return draft.tensor(torch.randint(0, size, shape))


def test_log_softmax_and_gather_reads_the_input_at_the_gathered_places():
    # gather(x - max - log(sum), T1)     ->     gather(x, T1) - max - log(sum)
    draft = Draft()
    x = draft.tensor(torch.randn(6, 20))
    index = picked(draft, (6, 1), 20)
    top = draft.add(Reduce("max", x, (1,), True))
    shifted = draft.pointwise("sub", x, top)
    total = draft.add(Reduce("sum", draft.pointwise("exp", shifted), (1,)))
    row = draft.add(Broadcast(draft.pointwise("log", total), (False, True)))
    result = draft.pointwise("sub", shifted, draft.add(Expand(row, (6, 20))))
    draft.out(draft.add(Gather("gather", result, index, 1)))

    after = moved(draft)

    assert data_of_gathers(after) == [x]
    assert names(after)[-3:] == ["gather", "sub", "sub"]


@pytest.mark.parametrize("mode", MODES)
def test_every_gather_moves_above_arithmetic(mode: str):
    # gather(exp(T0) * 2)     ->     exp(gather(T0)) * 2
    draft = Draft()
    x = draft.tensor(torch.randn(6, 20))
    if mode == "select":
        index = draft.scalar(-3, DataType.Int)
    else:
        index = picked(draft, (3,) if mode == "index_select" else (6, 3), 20)
    doubled = draft.pointwise("mul", draft.pointwise("exp", x), draft.number(2))
    draft.out(draft.pointwise("neg", draft.add(Gather(mode, doubled, index, 1))))

    after = moved(draft)

    assert data_of_gathers(after) == [x]
    kept = ["select", "broadcast", "exp", "mul", "squeeze", "neg"]
    assert names(after) == (kept if mode == "select" else [mode, "exp", "mul", "neg"])


def test_a_selected_output_keeps_the_strides_of_its_data():
    # torch selects without a copy: the result has the stride 20, and all of exp behind it
    draft = Draft()
    y = draft.pointwise("exp", draft.tensor(torch.randn(6, 20)))
    draft.out(draft.add(Gather("select", y, draft.scalar(3, DataType.Int), 1)))
    assert names(moved(draft)) == ["exp", "select"]


def test_each_operand_is_gathered_but_those_that_are_the_same_along_the_dimension():
    draft = Draft()
    x, y = draft.tensor(torch.randn(6, 20)), draft.tensor(torch.randn(20))
    column, number = draft.tensor(torch.randn(6, 1)), draft.scalar(2.0, DataType.Double)
    value = draft.pointwise("add", draft.pointwise("mul", x, y), column)
    value = draft.pointwise("mul", value, number)
    draft.out(draft.add(Gather("index_select", value, picked(draft, (3,), 20), 1)))
    after = moved(draft)
    assert data_of_gathers(after) == [x, y]
    assert names(after) == ["index_select", "index_select", "mul", "add", "mul"]


def test_a_gather_that_reads_some_rows_takes_those_of_every_operand():
    draft = Draft()
    x, column = draft.tensor(torch.randn(6, 20)), draft.tensor(torch.randn(6, 1))
    row = draft.tensor(torch.randn(20))
    value = draft.pointwise("mul", draft.pointwise("add", x, column), row)
    draft.out(draft.add(Gather("gather", value, picked(draft, (4, 3), 20), 1)))
    after = moved(draft)
    assert names(after) == ["gather", "slice", "add", "broadcast", "expand", "gather", "mul"]


@pytest.mark.parametrize("mode", ["gather", "index_select", "take_along_axis"])
def test_permutes_and_views_that_keep_the_dimension_are_seen_through(mode: str):
    draft = Draft()
    x = draft.tensor(torch.randn(4, 20, 3))
    value = draft.add(View(draft.add(Permute(draft.pointwise("exp", x), (0, 2, 1))), (12, 20)))
    shape = (5,) if mode == "index_select" else (12, 1)
    draft.out(draft.add(Gather(mode, value, picked(draft, shape, 20), 1)))
    assert data_of_gathers(moved(draft)) == [x]


def test_casts_layouts_and_full_tensors_are_seen_through():
    draft = Draft()
    x = draft.tensor(torch.randn(4, 20).half())
    wide = draft.add(StrideOrder(draft.add(Cast(x, DataType.Float)), (0, 1)))
    full = draft.add(Full((4, 20), draft.scalar(2.0, DataType.Double), DataType.Double))
    value = draft.pointwise("add", wide, full)
    draft.out(draft.add(Gather("gather", value, picked(draft, (4, 1), 20), 1)))
    after = moved(draft)
    assert data_of_gathers(after) == [x]
    assert names(after) == ["gather", "cast", "full", "add"]


def test_a_view_through_the_dimension_ends_the_way():
    draft = Draft()
    x = draft.tensor(torch.randn(4, 20))
    value = draft.add(View(draft.pointwise("exp", x), (8, 10)))
    draft.out(draft.add(Gather("index_select", value, picked(draft, (3,), 10), 1)))
    assert names(moved(draft)) == ["exp", "reshape", "index_select"]


def test_reductions_inputs_and_boundaries_end_the_way():
    draft = Draft()
    x = draft.tensor(torch.randn(4, 20, 3))
    index = picked(draft, (3,), 20)
    total = draft.add(Reduce("sum", x, (2,)))
    marked = draft.pointwise("segment_set", draft.pointwise("exp", total))
    for value in (x, total, marked):
        draft.out(draft.add(Gather("index_select", value, index, 1)))
    assert moved(draft) == draft.fusion


def test_a_relabelled_input_is_not_relabelled_after_the_gather_instead():
    draft = Draft()
    x = draft.tensor(torch.randn(20, 4))
    turned = draft.add(Permute(x, (1, 0)))
    value = draft.pointwise("exp", turned)
    draft.out(draft.add(Gather("gather", value, picked(draft, (4, 1), 20), 1)))
    assert names(moved(draft)) == ["permute", "gather", "exp"]


def test_other_readers_keep_what_was_computed():
    draft = Draft()
    y = draft.pointwise("exp", draft.tensor(torch.randn(4, 20)))
    draft.out(draft.add(Gather("gather", y, picked(draft, (4, 1), 20), 1)), y)
    assert names(moved(draft)) == ["exp", "gather", "exp"]


def test_a_gather_of_more_than_there_is_stays():
    draft = Draft()
    y = draft.pointwise("exp", draft.tensor(torch.randn(4, 20)))
    draft.out(draft.add(Gather("index_select", y, picked(draft, (21,), 20), 1)))
    assert names(moved(draft)) == ["exp", "index_select"]


def test_what_is_too_costly_to_repeat_stays():
    draft = Draft()
    value = draft.tensor(torch.randn(4, 20))
    for _ in range(MAX_COST // 10 + 1):
        value = draft.pointwise("exp2", value)
    draft.out(draft.add(Gather("index_select", value, picked(draft, (3,), 20), 1)))
    assert moved(draft) == draft.fusion


def test_a_result_is_repeated_for_a_few_gathers_only():
    draft = Draft()
    y = draft.pointwise("exp", draft.tensor(torch.randn(4, 20)))
    for _ in range(MAX_REPEATS + 2):
        draft.out(draft.add(Gather("index_select", y, picked(draft, (3,), 20), 1)))
    after = moved(draft)
    assert names(after).count("exp") == MAX_REPEATS + 1
    assert data_of_gathers(after).count(y) == 2


def test_gathers_of_gathers_move_up_together():
    draft = Draft()
    x = draft.tensor(torch.randn(4, 20))
    first = draft.add(Gather("index_select", draft.pointwise("exp", x), picked(draft, (9,), 20), 1))
    second = draft.add(
        Gather("index_select", draft.pointwise("neg", first), picked(draft, (3,), 9), 1)
    )
    assert names(moved(draft.out(second))) == ["index_select", "index_select", "exp", "neg"]


def rows_only(mode: str, index: torch.Tensor, dtype: torch.dtype = torch.float32) -> Draft:
    """A gather from what is the same along its dimension."""
    draft = Draft()
    row = draft.tensor(torch.randn(6, 1).to(dtype))
    value = draft.add(Expand(row, (6, 20)))
    value = draft.add(Cast(draft.pointwise("exp", value), DataType.Half))
    return draft.out(draft.add(Gather(mode, value, draft.tensor(index), 1)))


@pytest.mark.parametrize("mode", ["gather", "index_select"])
def test_an_index_that_nothing_is_read_with_is_checked(mode: str):
    shape = (6, 1) if mode == "gather" else (4,)
    after = moved(rows_only(mode, torch.randint(0, 20, shape)))
    (check,) = (s.op for s in after.statements if isinstance(s.op, CheckIndex))
    assert (check.size, check.operation) == (20, mode)
    assert mode not in names(after)


@pytest.mark.parametrize("mode", ["gather", "index_select", "take_along_axis"])
@pytest.mark.parametrize("wrong", [-21, -1, 20])
def test_an_index_out_of_range_is_refused_as_before(mode: str, wrong: int):
    shape = (6, 1) if mode != "index_select" else (4,)
    index = torch.full(shape, 3)
    index[2] = wrong
    draft = rows_only(mode, index)
    after = moved(draft)
    if mode != "take_along_axis" or wrong != -1:
        with pytest.raises(IndexOutOfRangeError, match=f"{mode}: index {wrong}"):
            interpret(after, draft.inputs)


@given(st.integers(0, 10**6))
@settings(max_examples=250, deadline=None)
def test_what_is_read_is_what_was_computed(seed: int):
    rewritten(move_gathers_up, draft_of_gather(random.Random(seed)))
