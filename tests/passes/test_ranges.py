from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.errors import FuserError
from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Expand,
    Flip,
    Full,
    Iota,
    Permute,
    Slice,
    Squeeze,
    Value,
    View,
)
from fuser.passes.ranges import Range, Ranges
from tests.passes.drafts import another_shape
from tests.passes.rewriting import Draft


def ranges_of(draft: Draft) -> Ranges:
    ranges = Ranges()
    for statement in draft.fusion.statements:
        ranges.note(statement)
    return ranges


def along(draft: Draft, value: Value, dim: int = 0) -> Range | None:
    return ranges_of(draft).along(value, dim)


def test_an_iota_is_a_range():
    draft = Draft()
    assert along(draft, draft.range(4, 3, 2)) == Range(3, 2, 4)
    assert along(draft, draft.range(4, 3, -2)) == Range(3, -2, 4)
    assert along(draft, draft.range(1, 3, 5)) == Range(3, 0, 1)
    assert along(draft, draft.range(0)) == Range(0, 0, 0)


def test_a_start_that_is_not_known_makes_no_range():
    draft = Draft()
    start = draft.scalar(2, DataType.Int)
    assert along(draft, draft.add(Iota(4, start, draft.number(1), DataType.Int))) is None


def test_an_iota_of_a_floating_type_is_a_range_where_its_numbers_are_whole():
    def floating(start: float, step: float, dtype: DataType) -> Range | None:
        draft = Draft()
        first, pace = draft.number(start, DataType.Double), draft.number(step, DataType.Double)
        return along(draft, draft.add(Cast(draft.add(Iota(4, first, pace, dtype)), DataType.Int)))

    assert floating(1.0, 2.0, DataType.Float) == Range(1, 2, 4)
    assert floating(0.5, 1.0, DataType.Float) is None
    assert floating(0.0, 0.5, DataType.Float) is None
    assert floating(float("inf"), 1.0, DataType.Float) is None
    assert floating(2.0**24 - 3, 1.0, DataType.Float) == Range(2**24 - 3, 1, 4)
    assert floating(2.0**24, 1.0, DataType.Float) is None
    assert floating(254.0, 1.0, DataType.BFloat16) is None


def test_arithmetic_with_constants_is_followed():
    # (3 - 2 i) * -4 + 1
    draft = Draft()
    value = draft.pointwise("sub", draft.number(3), draft.range(4, 0, 2))
    value = draft.pointwise("mul", draft.number(-4), value)
    full = draft.add(Full((4,), draft.number(1), DataType.Int))
    value = draft.pointwise("neg", draft.pointwise("add", value, full))
    assert along(draft, value) == Range(11, -8, 4)


def test_products_of_ranges_and_numbers_that_overflow_are_not():
    draft = Draft()
    value = draft.range(4)
    assert along(draft, draft.pointwise("mul", value, value)) is None
    large = draft.number(2**62)
    assert along(draft, draft.pointwise("mul", value, large)) is None
    narrow = draft.add(Cast(draft.range(4, 2**31 - 2), DataType.Int32))
    assert along(draft, narrow) is None
    assert along(draft, draft.add(Cast(value, DataType.Bool))) is None


def test_a_range_is_one_along_one_dimension():
    draft = Draft()
    row = draft.add(Broadcast(draft.range(4, 1, 2), (True, False)))
    grid = draft.add(Expand(row, (3, 4)))
    ranges = ranges_of(draft)
    assert ranges.along(grid, 1) == Range(1, 2, 4)
    assert ranges.along(grid, 0) is None
    column = draft.add(Permute(grid, (1, 0)))
    assert along(draft, column, 0) == Range(1, 2, 4)
    single = draft.add(Squeeze(draft.add(Slice(column, (0, 1), (4, 2), (2, 1))), (1,)))
    assert along(draft, single) == Range(1, 4, 2)
    assert along(draft, draft.add(Flip(single, (0,)))) == Range(5, -4, 2)


def test_a_view_of_a_range_is_flat():
    draft = Draft()
    grid = draft.add(View(draft.range(6, 1, 2), (2, 3)))
    ranges = ranges_of(draft)
    assert ranges.along(grid, 0) is None
    assert ranges.flat(grid) == Range(1, 2, 6)
    assert ranges_of(draft).flat(draft.add(Permute(grid, (1, 0)))) is None


@pytest.mark.parametrize(
    ("given_", "size", "wraps", "expected"),
    [
        (Range(0, 1, 4), 4, False, Range(0, 1, 4)),
        (Range(1, 1, 4), 4, False, None),
        (Range(3, -1, 4), 4, False, Range(3, -1, 4)),
        (Range(-1, 1, 2), 4, True, None),
        (Range(-2, 1, 2), 4, False, None),
        (Range(-2, 1, 2), 4, True, Range(2, 1, 2)),
        (Range(-5, 1, 2), 4, True, None),
        (Range(2, 0, 9), 4, False, Range(2, 0, 9)),
        (Range(9, 7, 0), 4, False, Range(0, 1, 0)),
        (Range(2, 9, 1), 4, False, Range(2, 1, 1)),
    ],
)
def test_positions_within_a_dimension(
    given_: Range, size: int, wraps: bool, expected: Range | None
):
    assert given_.within(size, wraps=wraps) == expected


def random_step(rng: random.Random, draft: Draft, value: Value, other: Value) -> Value:
    rank = len(value.shape)
    match rng.randrange(8):
        case 0:
            dtype = rng.choice([DataType.Int, DataType.Int32, DataType.Int8, DataType.Float])
            return draft.add(Cast(value, dtype))
        case 1:
            return draft.pointwise(rng.choice(["add", "sub", "mul"]), value, other)
        case 2:
            return draft.pointwise("neg", value)
        case 3:
            new = rng.randint(0, rank)
            return draft.add(Broadcast(value, tuple(d == new for d in range(rank + 1))))
        case 4:
            sizes = (rng.randint(1, 3) if size == 1 else size for size in value.shape)
            return draft.add(Expand(value, tuple(sizes)))
        case 5:
            dims = list(range(rank))
            rng.shuffle(dims)
            return draft.add(Permute(value, tuple(dims)))
        case 6:
            spans = [(rng.randint(0, size), size, rng.randint(1, 2)) for size in value.shape]
            starts, ends, steps = zip(*spans, strict=True) if spans else ((), (), ())
            sliced = draft.add(Slice(value, starts, ends, steps))
            return draft.add(Flip(sliced, tuple(d for d in range(rank) if rng.random() < 0.3)))
        case _:
            return draft.add(View(value, another_shape(rng, value.shape)))


@given(st.integers(0, 10**6))
@settings(max_examples=200, deadline=None)
def test_what_is_said_of_a_tensor_is_what_it_holds(seed: int):
    rng = random.Random(seed)
    draft = Draft()
    values = [draft.range(rng.randint(0, 6), rng.randint(-5, 5), rng.randint(-3, 3))]
    values.append(draft.number(rng.choice([-2, 0, 3, 100, 2**40])))
    for _ in range(8):
        value = rng.choice([value for value in values[-3:] if value.is_tensor] or values[:1])
        try:
            values.append(random_step(rng, draft, value, rng.choice(values)))
        except FuserError:
            continue
    tensors = [value for value in values if value.is_tensor]
    ranges = ranges_of(draft.out(*tensors))
    for value, held in zip(tensors, interpret(draft.fusion, []), strict=True):
        flat = ranges.flat(value)
        if flat is not None:
            numbers = range(flat.start, flat.start + flat.step * flat.count, flat.step or 1)
            expected = list(numbers) if flat.step else [flat.start] * flat.count
            assert held.flatten().long().tolist() == expected
        for dim, size in enumerate(value.shape):
            found = ranges.along(value, dim)
            if found is not None and held.numel():
                steps = torch.arange(size) * found.step + found.start
                shape = [size if d == dim else 1 for d in range(len(value.shape))]
                assert torch.equal(held.long(), steps.view(shape).expand(value.shape))
