from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Cast, Cat, Full, Fusion, Reduce, Scatter, Value
from fuser.passes.joined_scatters import MOST_JOINED, join_scatters
from tests.passes.rewriting import Draft, names, rewritten


def quarters(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers whose sums are exact in any order."""
    return (torch.randint(-4, 5, shape) / 4).to(dtype)


def zeros(draft: Draft, *shape: int, dtype: DataType = DataType.Float) -> Value:
    return draft.add(Full(shape, draft.number(0), dtype))


def added(draft: Draft, data: Value, count: int, dim: int) -> Value:
    """index_add of `count` elements along `dim` at random places."""
    shape = list(data.shape)
    shape[dim] = count
    source = draft.tensor(quarters(*shape, dtype=data.dtype.torch))
    index = draft.tensor(torch.randint(0, data.shape[dim], (count,)))
    return draft.add(Scatter(data, index, source, dim, "index_add"))


def joined(draft: Draft) -> Fusion:
    return rewritten(join_scatters, draft)


def cats(fusion: Fusion) -> list[int]:
    """Of how many parts each concatenation is, in order."""
    return [len(s.op.args) for s in fusion.statements if isinstance(s.op, Cat)]


def test_a_sum_of_two_is_one_with_the_points_of_both():
    # index_add(zeros, 5 points) + index_add(zeros, 3 points)  ->  index_add(zeros, 5 and 3 points)
    draft = Draft()
    data = zeros(draft, 8, 12)
    terms = added(draft, data, 5, 1), added(draft, data, 3, 1)
    assert names(joined(draft.out(draft.pointwise("add", *terms)))) == [
        "full",
        "cat",
        "cat",
        "index_add",
    ]


def test_sums_of_sums_have_the_points_side_by_side():
    draft = Draft()
    data = zeros(draft, 9, 4)
    total = added(draft, data, 2, 0)
    for count in (3, 4):
        total = draft.pointwise("add", total, added(draft, data, count, 0))
    other = draft.pointwise("add", added(draft, data, 1, 0), added(draft, data, 6, 0))
    after = joined(draft.out(draft.pointwise("add", total, other)))
    assert names(after).count("index_add") == 1
    assert cats(after)[-2:] == [5, 5]


@pytest.mark.parametrize("count", [MOST_JOINED, MOST_JOINED + 1, 2 * MOST_JOINED])
def test_no_more_than_some_are_joined(count: int):
    draft = Draft()
    data = zeros(draft, 5, 3)
    total = added(draft, data, 2, 0)
    for _ in range(count - 1):
        total = draft.pointwise("add", total, added(draft, data, 2, 0))
    after = joined(draft.out(total))
    assert names(after).count("index_add") == 1 + max(count - MOST_JOINED, 0)
    assert max(cats(after)) == MOST_JOINED


def test_numbers_that_are_made_wider_are_added_in_the_wider_type():
    draft = Draft()
    data = zeros(draft, 8, 6, dtype=DataType.BFloat16)
    terms = [draft.add(Cast(added(draft, data, 4, 0), DataType.Float)) for _ in range(2)]
    after = joined(draft.out(draft.pointwise("add", *terms)))
    assert sorted(names(after)) == ["cast", "cast", "cat", "cat", "full", "index_add"]


def test_indices_of_any_rank_are_joined():
    draft = Draft()
    data = zeros(draft, 7, 3)
    terms: list[Value] = []
    for shape in ((2, 5), (), (4,)):
        source = draft.tensor(quarters(*shape, 3))
        index = draft.tensor(torch.randint(-7, 7, shape))
        terms.append(draft.add(Scatter(data, index, source, 0, "index_put_accumulate")))
    total = draft.pointwise("add", draft.pointwise("add", *terms[:2]), terms[2])
    after = joined(draft.out(total))
    assert names(after).count("index_put_accumulate") == 1
    assert cats(after)[-2:] == [3, 3]


def test_index_adds_at_one_place_are_joined():
    draft = Draft()
    data = zeros(draft, 7, 3)
    source, index = draft.tensor(quarters(1, 3)), draft.tensor(torch.tensor(6))
    one = draft.add(Scatter(data, index, source, 0, "index_add"))
    after = joined(draft.out(draft.pointwise("add", one, added(draft, data, 2, 0))))
    assert names(after).count("index_add") == 1


def test_what_the_index_does_not_name_is_not_added():
    # scatter_add reads no more of its source than the index has elements
    draft = Draft()
    data = zeros(draft, 4, 9)
    terms: list[Value] = []
    for width in (3, 5):
        source = draft.tensor(quarters(6, width + 2))
        index = draft.tensor(torch.randint(0, 9, (4, width)))
        terms.append(draft.add(Scatter(data, index, source, 1, "scatter_add")))
    after = joined(draft.out(draft.pointwise("add", *terms)))
    assert names(after) == ["full", "slice", "slice", "cat", "cat", "scatter_add"]


def test_indices_of_two_types_become_the_wider_one():
    draft = Draft()
    data = zeros(draft, 7, 3)
    source, index = draft.tensor(quarters(2, 3)), draft.tensor(torch.randint(0, 7, (2,)).int())
    narrow = draft.add(Scatter(data, index, source, 0, "index_add"))
    after = joined(draft.out(draft.pointwise("add", added(draft, data, 2, 0), narrow)))
    assert names(after) == ["full", "cast", "cat", "cat", "index_add"]


@pytest.mark.parametrize("dtype", [DataType.Int, DataType.BFloat16])
def test_numbers_are_added_before_they_lose_digits(dtype: DataType):
    # cast(0.5 + 0.5 at one place, Int) is 1, of casts 0
    draft = Draft()
    data = zeros(draft, 3, 3)
    terms = [draft.add(Cast(added(draft, data, 20, 0), dtype)) for _ in range(2)]
    after = joined(draft.out(draft.pointwise("add", *terms)))
    assert names(after).count("index_add") == 2


@pytest.mark.parametrize("reason", ["read", "output", "data", "dim", "shape", "twice", "number"])
def test_scatters_stay(reason: str):
    draft = Draft()
    data = zeros(draft, 6, 6)
    one = added(draft, data, 2, 0)
    match reason:
        case "data":
            other = added(draft, draft.tensor(quarters(6, 6)), 3, 0)
        case "dim":
            other = added(draft, data, 3, 1)
        case "shape":  # the sum repeats its one column
            other = added(draft, zeros(draft, 6, 1), 3, 0)
        case "twice":
            other = one
        case _:
            other = added(draft, data, 3, 0)
    draft.out(draft.pointwise("add", one, draft.number(1.0) if reason == "number" else other))
    if reason == "read":
        draft.out(draft.pointwise("neg", other))
    if reason == "output":
        draft.out(one)
    assert "cat" not in names(joined(draft))


def random_term(rng: random.Random, draft: Draft, data: Value) -> Value:
    """A scatter of a random kind, into `data` or into numbers, some of whose indices are wrong."""
    mode = rng.choice(["index_add", "index_add", "scatter_add", "index_put_accumulate"])
    dim = 0 if mode == "index_put_accumulate" else rng.randrange(2)
    if rng.random() < 0.1:
        data = draft.tensor(quarters(*data.shape, dtype=data.dtype.torch))
    shape, count, size = list(data.shape), rng.randint(0, 4), data.shape[dim]
    shape[dim] = count
    low = -size if mode == "index_put_accumulate" else 0
    places = shape if mode == "scatter_add" else [count]
    index = draft.tensor(torch.randint(low, size + (rng.random() < 0.05), places))
    source = draft.tensor(quarters(*shape, dtype=data.dtype.torch))
    return draft.add(Scatter(data, index, source, dim, mode))


@settings(max_examples=150)
@given(seed=st.integers(0, 10**6))
def test_random_sums_are_the_same(seed: int):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    draft = Draft()
    dtype = rng.choice([DataType.Float, DataType.Int, DataType.Double, DataType.BFloat16])
    data = zeros(draft, rng.randint(1, 5), rng.randint(1, 5), dtype=dtype)
    terms = [random_term(rng, draft, data) for _ in range(rng.randint(2, 5))]
    while len(terms) > 1:
        rng.shuffle(terms)
        one, other = terms.pop(), terms.pop()
        if dtype is not DataType.Double and rng.random() < 0.5:
            to = rng.choice([DataType.Float, DataType.Int, DataType.Double])
            one, other = (draft.add(Cast(term, to)) for term in (one, other))
        total = draft.pointwise("add", one, other)
        terms.append(total if total.dtype is dtype else draft.add(Cast(total, dtype)))
        if rng.random() < 0.1:
            draft.out(one)
    joined(draft.out(*terms))


def test_operations_of_several_results_are_no_sums():
    draft = Draft()
    x = draft.tensor(quarters(4, 5))
    both = draft.builder.add(Reduce("var_mean", x, (1,), correction=0))
    assert names(joined(draft.out(*both))) == ["var_mean"]
