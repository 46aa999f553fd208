from __future__ import annotations

import pytest
import torch

from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.ir.nodes import (
    Expand,
    Full,
    Fusion,
    Permute,
    Scatter,
    ScatterForm,
)
from fuser.passes.scatter_forms import choose_scatter_forms
from tests.passes.rewriting import Draft, names

LISTS, IN_PLACE, TORCH = ScatterForm.LISTS, ScatterForm.IN_PLACE, ScatterForm.TORCH
ROWS = ScatterForm.ROWS


def chosen(draft: Draft, *, in_order: bool = False, repeatable: bool = False) -> Fusion:
    """`draft` with forms, which change no number."""
    after = choose_scatter_forms(draft.fusion, in_order=in_order, repeatable=repeatable)
    pairs = zip(interpret(after, draft.inputs), interpret(draft.fusion, draft.inputs), strict=True)
    for got, want in pairs:
        torch.testing.assert_close(got, want)
    return after


def forms(fusion: Fusion) -> list[ScatterForm]:
    return [s.op.form for s in fusion.statements if isinstance(s.op, Scatter)]


def added(base: torch.Tensor, count: int = 9, dim: int = 0) -> Draft:
    """index_add of ones to an input."""
    draft, shape = Draft(), list(base.shape)
    shape[dim] = count
    data, source = draft.tensor(base), draft.tensor(torch.ones(shape).to(base.dtype))
    index = draft.tensor(torch.arange(count) % base.shape[dim])
    return draft.out(draft.add(Scatter(data, index, source, dim, "index_add")))


@pytest.mark.parametrize("columns", [15, 16, 1 << 14, (1 << 14) + 1])
def test_lists_are_made_where_enough_neighbours_share_an_index(columns: int) -> None:
    wanted = LISTS if 16 <= columns <= 1 << 14 else IN_PLACE
    assert forms(chosen(added(torch.zeros(4, columns)), in_order=True)) == [wanted]
    assert forms(chosen(added(torch.zeros(columns, 4), dim=1), in_order=True)) == [IN_PLACE]
    assert forms(chosen(added(torch.zeros(4, columns)))) == [wanted]


def test_lists_in_any_order_are_not_for_overwriting() -> None:
    draft = Draft()
    data, source = draft.tensor(torch.zeros(4, 32)), draft.tensor(torch.randn(3, 32))
    index = draft.tensor(torch.tensor([[3], [0], [2]]))
    wide = draft.add(Expand(index, (3, 32)))
    draft.out(draft.add(Scatter(data, wide, source, 0)))
    assert forms(chosen(draft, in_order=True)) == [LISTS]
    assert forms(chosen(draft)) == [IN_PLACE]


@pytest.mark.parametrize(
    ("rows", "length", "form"),
    [(7, 16, IN_PLACE), (8, 15, IN_PLACE), (8, 16, ROWS), (8, 1 << 14, ROWS), (9, 16385, IN_PLACE)],
)
def test_rows_with_points_of_their_own_are_made_one_by_one(
    rows: int, length: int, form: ScatterForm
) -> None:
    draft = added(torch.zeros(rows, length), dim=1)
    assert forms(chosen(draft, in_order=True)) == [form]
    assert forms(chosen(draft)) == [IN_PLACE]


@pytest.mark.parametrize(
    ("rows", "length", "dtype", "form"),
    [
        (63, 16, torch.float32, IN_PLACE),
        (64, 16, torch.float32, ROWS),
        (64, 1 << 14, torch.bfloat16, ROWS),
        (64, 1 << 13, torch.float64, ROWS),
        (64, 1 << 14, torch.float64, IN_PLACE),
    ],
)
def test_rows_that_shared_memory_holds_are_made_one_by_one(
    rows: int, length: int, dtype: torch.dtype, form: ScatterForm
) -> None:
    assert forms(chosen(added(torch.zeros(rows, length, dtype=dtype), dim=1))) == [form]


@pytest.mark.parametrize(("points", "form"), [((8, 3), ROWS), ((7, 3), IN_PLACE)])
def test_a_row_without_points_is_none_that_is_made(
    points: tuple[int, int], form: ScatterForm
) -> None:
    """Where an index has fewer rows than the data, those of the data are not all alike."""
    draft = Draft()
    data, source = draft.tensor(torch.zeros(8, 16)), draft.tensor(torch.ones(8, 3))
    index = draft.tensor(torch.ones(points).long())
    draft.out(draft.add(Scatter(data, index, source, 1, "scatter_add")))
    after = chosen(draft, in_order=True)
    assert forms(after) == [form]
    assert names(after) == (["scatter_add"] if form is ROWS else ["set", "scatter_add"])


def test_an_input_is_copied_and_stays_as_it_is() -> None:
    # index_add(T0, ...)     ->     T4 = set(T0); index_add(T4, ...) in the memory of T4
    assert names(chosen(added(torch.zeros(4, 3)))) == ["set", "index_add"]


def test_what_a_kernel_makes_for_the_scatter_alone_is_changed_in_place() -> None:
    def draft(*others: str) -> Draft:
        made = Draft()
        x, index = made.tensor(torch.randn(4, 3)), made.tensor(torch.tensor([1, 1]))
        data, source = made.pointwise("exp", x), made.tensor(torch.randn(2, 3))
        if "viewed" in others:
            data = made.add(Permute(data, (0, 1)))
        out = made.add(Scatter(data, index, source, 0, "index_add"))
        if "read" in others:
            made.out(made.pointwise("neg", data))
        if "output" in others:
            made.out(data)
        return made.out(out)

    assert names(chosen(draft())) == ["exp", "index_add"]
    assert "set" in names(chosen(draft("read")))
    assert "set" in names(chosen(draft("output")))
    assert "set" in names(chosen(draft("viewed")))


def test_two_scatters_into_the_same_zeros_have_memory_of_their_own() -> None:
    draft = Draft()
    zeros = draft.add(Full((4, 3), draft.number(0.0, DataType.Float), DataType.Float))
    index, source = draft.tensor(torch.tensor([1, 1])), draft.tensor(torch.randn(2, 3))
    for _ in range(2):
        draft.out(draft.add(Scatter(zeros, index, source, 0, "index_add")))
    after = chosen(draft)
    bases = [s.op.arg for s in after.statements if isinstance(s.op, Scatter)]
    assert len(set(bases)) == 2


def test_a_scatter_goes_on_in_the_memory_of_another() -> None:
    draft = added(torch.zeros(4, 3))
    (first,) = (s for s in draft.fusion.statements if isinstance(s.op, Scatter))
    again = Draft()
    data, source, index = map(again.tensor, draft.inputs)  # pyright: ignore[reportArgumentType]
    once = again.add(Scatter(data, index, source, 0, first.op.mode))
    again.out(again.add(Scatter(once, index, source, 0, first.op.mode)))
    assert names(chosen(again)) == ["set", "index_add", "index_add"]


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [
        (torch.bfloat16, DataType.Float),
        (torch.float16, DataType.Float),
        (torch.int8, DataType.Int32),
        (torch.uint8, DataType.Int32),
        (torch.int16, DataType.Int32),
    ],
)
def test_small_types_are_added_in_wider_ones(dtype: torch.dtype, wide: DataType) -> None:
    after = chosen(added(torch.zeros(4, 3).to(dtype)))
    assert names(after) == ["cast", "cast", "index_add", "cast"]
    assert [s.out.dtype for s in after.statements if isinstance(s.op, Scatter)] == [wide]
    assert names(chosen(added(torch.zeros(4, 32).to(dtype)))) == ["index_add"]  # by lists


def test_small_types_are_overwritten_as_they_are() -> None:
    draft = Draft()
    data, index = draft.tensor(torch.zeros(4, 3).bool()), draft.tensor(torch.tensor([[1], [2]]))
    out = draft.add(Scatter(data, index, draft.number(2.0, DataType.Double), 0))
    after = chosen(draft.out(out))
    assert names(after) == ["cast", "set", "scatter"] or names(after) == ["set", "scatter"]
    (op,) = (s.op for s in after.statements if isinstance(s.op, Scatter))
    assert op.src.dtype is DataType.Bool


@pytest.mark.parametrize(
    ("dtype", "form"), [(torch.float32, TORCH), (torch.int32, LISTS), (torch.complex64, TORCH)]
)
def test_sums_in_no_order_are_torchs_where_the_same_are_wanted(
    dtype: torch.dtype, form: ScatterForm
) -> None:
    assert forms(chosen(added(torch.zeros(4, 32).to(dtype)), repeatable=True)) == [form]


def test_nothing_to_scatter_is_left_to_torch() -> None:
    assert forms(chosen(added(torch.zeros(4, 32), count=0), in_order=True)) == [TORCH]
    assert forms(chosen(added(torch.zeros(4, 0)), in_order=True)) == [TORCH]
