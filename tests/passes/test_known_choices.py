"""Choices that constants decide, with the oracle's numbers, dtypes and strides."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Broadcast, Cast, Full, Pointwise, Reduce
from fuser.passes.known_choices import take_known_choices
from tests.passes.rewriting import Draft, names, rewritten
from tests.passes.test_ranges import ranges_of

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@given(
    op=st.sampled_from(COMPARISONS),
    length=st.integers(1, 5),
    start=st.integers(-6, 6),
    step=st.integers(-3, 3),
    number=st.integers(-6, 6),
    turned=st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_a_comparison_is_known_where_it_comes_out_the_same_everywhere(
    op: str, length: int, start: int, step: int, number: int, turned: bool
) -> None:
    draft = Draft()
    operands = [draft.range(length, start, step), draft.number(number)]
    compared = draft.pointwise(op, *(operands[::-1] if turned else operands))
    (result,) = interpret(draft.out(compared).fusion, [])
    values = set(result.tolist())
    known = ranges_of(draft).number(compared)
    if known is not None:
        assert values == {bool(known)}
    elif len(values) == 1:  # equal to none of them, but between the first and the last
        assert op in ("eq", "ne")
        assert min(start, start + step * (length - 1)) < number
        assert max(start, start + step * (length - 1)) > number


@pytest.mark.parametrize(("number", "taken"), [(-100, 0), (8, 0), (3, None)])
def test_a_choice_by_it_is_what_is_chosen(number: int, taken: int | None) -> None:
    draft = Draft()
    places = draft.range(8)
    kept = draft.pointwise("ne", places, draft.number(number))
    x, y = draft.tensor(torch.randn(8)), draft.tensor(torch.randn(8))
    chosen = draft.pointwise("neg", draft.pointwise("where", kept, x, y))
    after = rewritten(take_known_choices, draft.out(chosen))
    if taken is None:
        assert names(after) == ["iota", "ne", "where", "neg"]
    else:
        (statement,) = after.statements
        assert statement.op == Pointwise("neg", (after.inputs[taken],))


def test_what_is_chosen_has_the_type_and_the_sizes_of_the_choice() -> None:
    draft = Draft()
    few = draft.range(1, 5)
    kept = draft.add(Broadcast(draft.pointwise("lt", few, draft.number(0)), (True, False)))
    x, y = draft.tensor(torch.randn(4, 8).double()), draft.tensor(torch.randn(8))
    draft.out(draft.pointwise("where", kept, x, y))
    assert names(rewritten(take_known_choices, draft))[:3] == ["cast", "broadcast", "expand"]


@pytest.mark.parametrize("number", [0, 1])
def test_what_may_lie_otherwise_is_chosen_by_a_number(number: int) -> None:
    """Inputs may have any strides here, and the result is returned."""
    draft = Draft()
    full = draft.add(Full((), draft.number(number), DataType.Int))
    kept = draft.pointwise("eq", full, draft.number(1))
    x, y = (draft.tensor(torch.randn(4, 3).t(), declared=False) for _ in range(2))
    draft.out(draft.pointwise("where", kept, x, y))
    after = rewritten(take_known_choices, draft)
    *_, choice = after.statements
    assert isinstance(choice.op, Pointwise)
    condition, *chosen = choice.op.args
    assert not condition.is_tensor
    assert chosen == list(after.inputs)


def test_what_is_written_into_an_input_is_what_is_chosen() -> None:
    draft = Draft()
    full = draft.add(Full((), draft.number(0), DataType.Int))
    kept = draft.pointwise("ne", full, draft.number(0))
    x, y = (draft.tensor(torch.randn(3, 4), declared=False) for _ in range(2))
    chosen = draft.pointwise("neg", draft.pointwise("where", kept, x, y))
    draft.builder.output(chosen, alias_of=x)
    (statement,) = rewritten(take_known_choices, draft).statements
    assert statement.op == Pointwise("neg", (y,))


def test_a_tensor_full_of_a_number_decides_too() -> None:
    draft = Draft()
    full = draft.add(Full((3, 4), draft.number(1), DataType.Int))
    kept = draft.pointwise("eq", full, draft.number(1))
    x = draft.tensor(torch.randn(3, 4))
    chosen = draft.pointwise("where", kept, x, draft.number(0.0, DataType.Double))
    draft.out(draft.pointwise("neg", chosen))
    assert names(rewritten(take_known_choices, draft)) == ["neg"]


def test_numbers_and_what_is_known_at_execution_only_stay() -> None:
    draft = Draft()
    kept = draft.pointwise("lt", draft.range(4), draft.number(9))
    x = draft.tensor(torch.randn(4))
    one = draft.pointwise("where", kept, draft.number(1.0, DataType.Double), x)
    by_input = draft.pointwise("ge", draft.range(4), draft.scalar(7, DataType.Int))
    other = draft.add(Pointwise("where", (by_input, x, one)))
    assert names(rewritten(take_known_choices, draft.out(one, other))).count("where") == 2


def test_statements_with_several_results_stay() -> None:
    draft = Draft()
    results = draft.builder.add(
        Reduce("var_mean", draft.tensor(torch.randn(4, 8)), (1,), correction=0)
    )
    assert len(take_known_choices(draft.out(*results).fusion).statements) == 1


@pytest.mark.parametrize(
    ("op", "numbers", "is_known"),
    [
        ("clamp", (0, 7), True),
        ("clamp", (-3, 9), True),
        ("clamp", (1, 7), False),
        ("clamp", (0, 6), False),
        ("maximum", (0,), True),
        ("maximum", (1,), False),
        ("minimum", (7,), True),
        ("minimum", (6,), False),
        ("remainder", (8,), True),
        ("remainder", (7,), False),
        ("fmod", (8,), True),
        ("abs", (), True),
        ("relu", (), True),
    ],
)
def test_what_changes_no_number_within_the_bounds_is_left_out(
    op: str, numbers: tuple[int, ...], is_known: bool
) -> None:
    draft = Draft()
    made = draft.pointwise(op, draft.range(8), *map(draft.number, numbers))
    after = rewritten(take_known_choices, draft.out(draft.pointwise("neg", made)))
    assert names(after) == (["iota", "neg"] if is_known else ["iota", op, "neg"])


def test_a_limit_that_wraps_around_in_the_type_is_none() -> None:
    draft = Draft()
    at = draft.add(Cast(draft.range(8), DataType.Int32))
    made = draft.pointwise("minimum", at, draft.number(2**32 + 3))
    rewritten(take_known_choices, draft.out(draft.pointwise("neg", made)))


def test_zeros_of_floats_stay_what_they_are() -> None:
    draft = Draft()
    zeros = draft.pointwise("neg", draft.add(Cast(draft.range(1), DataType.Float)))
    made = draft.pointwise("maximum", zeros, draft.number(0))
    assert names(rewritten(take_known_choices, draft.out(made), bits=True))[-1] == "maximum"
