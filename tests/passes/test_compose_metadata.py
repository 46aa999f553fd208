from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Broadcast,
    Expand,
    Flip,
    Operation,
    Permute,
    Pointwise,
    Reduce,
    Slice,
    Squeeze,
    Value,
    View,
)
from fuser.passes.compose_metadata import compose_metadata
from tests.passes.drafts import another_shape, random_tensor
from tests.passes.rewriting import Draft, rewritten

Step = Callable[[Value], Operation]


def build(given: tuple[int, ...] | torch.Tensor, *steps: Step, declared: bool = True) -> Draft:
    """A chain: each step takes the last value and gives an operation on it."""
    draft = Draft()
    tensor = given if isinstance(given, torch.Tensor) else torch.randn(given)
    value = draft.tensor(tensor, declared=declared)
    for step in steps:
        value = draft.add(step(value))
    return draft.out(value)


def view(*shape: int) -> Step:
    return lambda value: View(value, shape)


def permute(*dims: int) -> Step:
    return lambda value: Permute(value, dims)


def operation(name: str) -> Step:
    return lambda value: Pointwise(name, (value,))


def squeeze(*dims: int) -> Step:
    return lambda value: Squeeze(value, dims)


def broadcast(*new: int) -> Step:
    """New dimensions at these places of the result."""
    return lambda value: Broadcast(
        value, tuple(dim in new for dim in range(len(value.shape) + len(new)))
    )


def expand(*shape: int) -> Step:
    return lambda value: Expand(value, shape)


def slice_(*spans: tuple[int, int, int]) -> Step:
    starts, ends, steps = zip(*spans, strict=True)
    return lambda value: Slice(value, starts, ends, steps)


def flip(*dims: int) -> Step:
    return lambda value: Flip(value, dims)


def composed(draft: Draft) -> list[Operation]:
    """The operations left after composing; numbers and strides stay."""
    return [statement.op for statement in rewritten(compose_metadata, draft).statements]


def input_of(draft: Draft) -> Value:
    return draft.fusion.inputs[0]


def test_a_view_that_undoes_a_view_disappears():
    # T0 [8, 6] -> view [2, 4, 6] -> view [8, 6]     ->     T0
    assert composed(build((8, 6), view(2, 4, 6), view(8, 6))) == []


def test_a_chain_of_views_becomes_its_last():
    fusion = build((8, 6), view(2, 4, 6), view(48), view(6, 8))
    assert composed(fusion) == [View(input_of(fusion), (6, 8))]


def test_permutes_compose_to_one_or_to_none():
    fusion = build((2, 3, 4), permute(0, 2, 1), permute(2, 0, 1))
    assert composed(fusion) == [Permute(input_of(fusion), (1, 0, 2))]
    assert composed(build((2, 3, 4), permute(1, 2, 0), permute(2, 0, 1))) == []
    assert composed(build((2, 3), permute(0, 1))) == []


def test_views_on_either_side_of_arithmetic_are_not_composed():
    fusion = build((8, 6), view(2, 4, 6), operation("exp"), view(8, 6))
    assert [type(op) for op in composed(fusion)] == [View, Pointwise, View]


def test_a_view_between_permutes_keeps_them_apart():
    fusion = build((4, 6), permute(1, 0), view(4, 6), permute(1, 0))
    assert [type(op) for op in composed(fusion)] == [Permute, View, Permute]


def test_a_link_that_is_read_elsewhere_stays():
    # T1 = view(T0); T2 = view(T1); out T1, T2    ->    T2 = view(T0), and T1 as it was
    draft = Draft()
    x = draft.tensor(torch.randn(8, 6))
    first = draft.add(View(x, (48,)))
    draft.out(first, draft.add(View(first, (6, 8))))
    assert composed(draft) == [View(x, (48,)), View(x, (6, 8))]


def test_what_changes_nothing_disappears():
    assert composed(build((4, 1), lambda v: Expand(v, (4, 1)))) == []
    assert composed(build((4, 1), lambda v: Squeeze(v, ()))) == []
    assert composed(build((4, 6), view(4, 6))) == []
    expanded = build((4, 1), lambda v: Expand(v, (4, 3)))
    assert composed(expanded) == [Expand(input_of(expanded), (4, 3))]


def test_views_of_an_empty_tensor_compose():
    assert composed(build((0, 4), view(7, 0), view(0, 4))) == []


def test_squeezes_and_broadcasts_are_views():
    draft = build((4, 1, 6), squeeze(1), broadcast(0), view(24, 1))
    assert composed(draft) == [View(input_of(draft), (24, 1))]
    assert composed(build((4, 1, 6), squeeze(1), broadcast(1))) == []
    assert composed(build((4, 6), broadcast(1, 3), squeeze(1, 3))) == []


@pytest.mark.parametrize("step", [squeeze(1), broadcast(0), permute(1, 0, 2)])
def test_alone_they_stay_as_they_are_written(step: Step):
    draft = build((4, 1, 6), step)
    assert composed(draft) == [step(input_of(draft))]


def test_a_permute_that_moves_sizes_of_one_only_is_a_view():
    draft = build((4, 6), broadcast(1), permute(1, 0, 2), view(4, 6, 1))
    assert composed(draft) == [View(input_of(draft), (4, 6, 1))]
    assert composed(build((4, 6), broadcast(0), permute(1, 2, 0), squeeze(2))) == []
    assert composed(build((1, 4, 1), permute(2, 1, 0))) == []


def test_a_view_that_undoes_a_view_through_a_permute_is_that_permute():
    # T0 [8, 6] -> view [2, 4, 6] -> permute [6, 2, 4] -> view [6, 8]     ->     permute(T0)
    draft = build((8, 6), view(2, 4, 6), permute(2, 0, 1), view(6, 8))
    assert composed(draft) == [Permute(input_of(draft), (1, 0))]
    draft = build((2, 4, 6), view(8, 6), permute(1, 0), view(6, 2, 4))
    assert composed(draft) == [Permute(input_of(draft), (2, 0, 1))]


def test_a_permute_between_views_that_cancels_is_nothing():
    assert composed(build((8, 6), view(8, 1, 6), permute(1, 0, 2), view(8, 6))) == []
    assert composed(build((8, 6), broadcast(0), permute(1, 0, 2), squeeze(1))) == []


def test_sizes_of_one_that_are_left_over_are_viewed_in():
    draft = build((8, 1, 6), view(2, 4, 6), permute(2, 0, 1), view(6, 8))
    (first, second) = composed(draft)
    assert first == Permute(input_of(draft), (1, 2, 0))
    assert (type(second), second.shape) == (View, (6, 8))


def test_a_permute_between_views_that_parts_a_dimension_stays():
    draft = build((8, 6), view(2, 4, 6), permute(1, 0, 2), view(8, 6))
    assert [type(op) for op in composed(draft)] == [View, Permute, View]
    draft = build((8, 6), view(2, 4, 6), permute(2, 0, 1), view(12, 4))
    assert [type(op) for op in composed(draft)] == [View, Permute, View]


def test_expands_slices_and_flips_compose():
    draft = build((4, 1, 1), expand(4, 3, 1), expand(4, 3, 2))
    assert composed(draft) == [Expand(input_of(draft), (4, 3, 2))]
    draft = build((20, 6), slice_((2, 18, 3), (1, 5, 1)), slice_((1, 6, 2), (0, 4, 2)))
    assert composed(draft) == [Slice(input_of(draft), (5, 1), (18, 4), (6, 2))]
    draft = build((20,), slice_((3, 9, 1)), slice_((4, 4, 1)))
    assert composed(draft) == [Slice(input_of(draft), (0,), (0,), (1,))]
    draft = build((4, 5, 1), flip(0, 2), flip(1, 0))
    assert composed(draft) == [Flip(input_of(draft), (1,))]


def test_flips_that_undo_each_other_go_away_where_nobody_holds_the_copy():
    twice = (flip(0), flip(0))
    assert composed(build((4, 5), *twice, operation("exp")))[0] == Pointwise(
        "exp", (input_of(build((4, 5))),)
    )
    assert [type(op) for op in composed(build((4, 5), *twice))] == [Flip, Flip]


def test_a_view_that_may_be_a_copy_is_not_composed_past_where_its_strides_show():
    # T0 permuted: the first view copies, so the result is row-major. T0 itself is not.
    tensor = torch.randn(6, 8).t()
    draft = build(tensor, view(48), view(8, 6))
    assert [type(op) for op in composed(draft)] == [View, View]
    draft = build(tensor, view(48), view(8, 6), declared=False)
    assert [type(op) for op in composed(draft)] == [View, View]
    # Of the largest numbers, no stride shows.
    draft = build(tensor, view(48), view(8, 6), lambda v: Reduce("max", v, (0,)))
    assert [type(op) for op in composed(draft)] == [Reduce]


def random_chain(rng: random.Random) -> Draft:
    """A tensor, and metadata operations one after the other, some of them outputs.

    Chains that expand compute nothing: torch lays out what it computes from an expanded tensor by
    strides of sizes of 1, which are otherwise never used.
    """
    draft = Draft()
    shape = tuple(rng.choice([1, 2, 3, 4, 6]) for _ in range(rng.randint(1, 3)))
    value = draft.tensor(random_tensor(rng, shape, DataType.Float), declared=rng.random() < 0.7)
    expands = rng.random() < 0.5
    for _ in range(rng.randint(2, 8)):
        value = draft.add(random_step(rng, value, expands))
        if rng.random() < 0.1:
            draft.out(value)
    computes = not expands and rng.random() < 0.5
    return draft.out(draft.pointwise("exp", value) if computes else value)


def random_step(rng: random.Random, value: Value, expands: bool) -> Operation:
    shape = value.shape
    match rng.randrange(7):
        case 0:
            dims = list(range(len(shape)))
            rng.shuffle(dims)
            return Permute(value, tuple(dims))
        case 1:
            new = rng.randint(0, len(shape))
            return broadcast(new)(value)
        case 2:
            return Squeeze(value, tuple(d for d, size in enumerate(shape) if size == 1))
        case 3 if expands:
            return Expand(value, tuple(rng.randint(1, 3) if size == 1 else size for size in shape))
        case 4:
            spans = [(rng.randint(0, size), size, rng.randint(1, 2)) for size in shape]
            return slice_(*spans)(value) if spans else View(value, ())
        case 5 if not expands:
            return Flip(value, tuple(d for d in range(len(shape)) if rng.random() < 0.5))
        case _:
            return View(value, another_shape(rng, shape))


@given(st.integers(0, 10**6))
@settings(max_examples=250, deadline=None)
def test_composing_changes_no_number_and_no_stride(seed: int):
    rewritten(compose_metadata, random_chain(random.Random(seed)))
