"""Bounds of values: every element that the oracle makes is within them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from fuser.errors import FuserError
from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.ir.nodes import (
    Cast,
    Cat,
    Expand,
    Extern,
    Flip,
    Full,
    Gather,
    Iota,
    Operation,
    Pad,
    Permute,
    Pointwise,
    Reduce,
    Scan,
    Slice,
    Value,
    View,
)
from fuser.passes.bounds import KnownBounds
from fuser.passes.intervals import Bounds
from tests.passes.rewriting import Draft

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
TWO = (
    *("add", "sub", "mul", "maximum", "minimum", "truediv", *COMPARISONS),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or"),
    *("bitwise_left_shift", "bitwise_right_shift"),
)
DIVISIONS = ("floor_divide", "div", "remainder", "mod", "fmod")
"""Of integers, torch refuses a divisor that is 0."""
ONE = (
    *("abs", "neg", "relu", "ceil", "floor", "round", "trunc", "sign", "set", "bitwise_not"),
    *("logical_not", "sqrt", "exp"),
)
DTYPES = (
    *(DataType.Int, DataType.Int32, DataType.Byte, DataType.Bool),
    *(DataType.Float, DataType.Double, DataType.Half, DataType.BFloat16),
)


def bounds_of(draft: Draft) -> KnownBounds:
    bounds = KnownBounds()
    for statement in draft.fusion.statements:
        bounds.note(statement)
    return bounds


def is_decided(found: Bounds | None) -> bool:
    return found is not None and found.low == found.high


class _Values:
    """Values of one shape, of all types, each made of earlier ones."""

    def __init__(self, seed: int) -> None:
        self.draft, self.rng = Draft(), random.Random(seed)
        self._random = torch.Generator().manual_seed(seed)
        self.shape = (self.rng.randint(1, 3), self.rng.randint(1, 5))
        self.values = [self._first() for _ in range(4)]
        self.numbers: list[Value] = []
        for _ in range(8):
            self._add()

    def _first(self) -> Value:
        rng, draft = self.rng, self.draft
        match rng.randrange(4):
            case 0:
                start, step = rng.randint(-9, 9), rng.randint(-4, 4)
                size = self.shape[0] * self.shape[1]
                return draft.add(View(draft.range(size, start, step), self.shape))
            case 1:
                return draft.tensor(self._drawn(torch.uint8, 0, 256))
            case 2:
                return draft.tensor(self._drawn(torch.int64, -20, 20))
            case _:
                number = draft.number(rng.choice([-2, 0, 1, 7, 300]))
                return draft.add(Full(self.shape, number, rng.choice(DTYPES[:3])))

    def _drawn(self, dtype: torch.dtype, low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high, self.shape, dtype=dtype, generator=self._random)

    def _operand(self) -> Value:
        if self.rng.random() < 0.7:
            return self.rng.choice(self.values)
        if self.rng.random() < 0.5:
            return self.draft.number(self.rng.choice([-7, -1, 0, 1, 2, 3, 255, 2**31 - 1]))
        number = self.rng.choice([-0.5, 0.0, 0.3, 1.7142857142857142, 1e4])
        return self.draft.number(number, DataType.Double)

    def _divisor(self) -> Value:
        number = self.draft.number(self.rng.choice([-3, 1, 2, 7, 100]))
        if self.rng.random() < 0.5:
            return number
        one = self.draft.number(1)
        return self.draft.pointwise("maximum", self.rng.choice(self.values), one)

    def _add(self) -> None:
        try:
            made = self.draft.add(self._operation())
        except FuserError:  # not of these types
            return
        if made.shape == self.shape:
            self.values.append(made)

    def _operation(self) -> Operation:
        rng, x = self.rng, self.rng.choice(self.values)
        of_shape: list[Callable[[], Operation]] = [
            lambda: Cast(x, rng.choice(DTYPES)),
            lambda: Pointwise(rng.choice(TWO), (x, self._operand())),
            lambda: Pointwise(rng.choice(TWO), (self._operand(), x)),
            lambda: Pointwise(rng.choice(DIVISIONS), (x, self._divisor())),
            lambda: Pointwise(rng.choice(ONE), (x,)),
            lambda: Pointwise("clamp", (x, self._operand(), self._operand())),
            lambda: Pointwise("where", (x, self._operand(), rng.choice(self.values))),
            lambda: Flip(x, (1,)),
            lambda: Scan(rng.choice(["cumsum", "cummax", "cummin"]), x, 1, rng.random() < 0.5),
            lambda: Expand(
                self.draft.add(
                    Reduce(
                        rng.choice(["sum", "max", "min", "argmax", "any"]), x, (1,), keepdim=True
                    )
                ),
                self.shape,
            ),
        ]
        return rng.choice(of_shape)()


@pytest.mark.parametrize("first", range(0, 1500, 100))
def test_every_element_is_within_the_bounds(first: int) -> None:
    decided = 0
    for seed in range(first, first + 100):
        made = _Values(seed)
        bounds, draft = bounds_of(made.draft), made.draft
        known = [value for value in dict.fromkeys(made.values) if bounds.of(value) is not None]
        for value in known:
            draft.builder.output(value)
        for value, result in zip(known, interpret(draft.fusion, draft.inputs), strict=True):
            found = bounds.of(value)
            assert found is not None
            assert isinstance(result, torch.Tensor)
            numbers = result.double() if result.is_floating_point() else result
            for number in numbers.flatten().tolist():
                assert found.low <= number <= found.high, (seed, value, found)
            decided += is_decided(found)
    assert decided > 20


def test_places_of_resized_images_are_in_them() -> None:
    draft = Draft()
    half, scale = (draft.number(n, DataType.Double) for n in (0.5, 384 / 224))
    places = draft.add(Cast(draft.range(224), DataType.Float))
    scaled = draft.pointwise("mul", draft.pointwise("add", places, half), scale)
    left = draft.pointwise("maximum", draft.pointwise("sub", scaled, half), draft.number(0))
    at = draft.add(Cast(left, DataType.Int))
    after = draft.pointwise("add", at, draft.number(1))
    assert bounds_of(draft).of(at) == Bounds(0, 382)
    assert bounds_of(draft).are_within(after, 384)
    assert not bounds_of(draft).are_within(after, 383)
    assert bounds_of(draft).of(draft.pointwise("lt", at, draft.number(0))) is not None


def test_sums_that_may_wrap_around_are_anything() -> None:
    draft = Draft()
    large = draft.add(Full((3,), draft.number(2**31 - 2), DataType.Int32))
    more = draft.pointwise("add", large, draft.range(3))
    narrow = draft.pointwise("add", large, draft.add(Cast(draft.range(3), DataType.Int32)))
    assert bounds_of(draft).of(more) == Bounds(2**31 - 2, 2**31)
    assert bounds_of(draft).of(narrow) == Bounds(-(2**31), 2**31 - 1)


def test_floats_of_inputs_have_none() -> None:
    draft = Draft()
    x = draft.tensor(torch.randn(4))
    above = draft.pointwise("maximum", x, draft.number(0))  # of NaN, NaN
    assert bounds_of(draft).of(above) is None
    assert bounds_of(draft).of(draft.add(Cast(above, DataType.Int))) == Bounds(-(2**63), 2**63 - 1)


def test_what_moves_elements_keeps_bounds() -> None:
    draft = Draft()
    x = draft.range(12, 5)
    grid = draft.add(Permute(draft.add(View(x, (3, 4))), (1, 0)))
    part = draft.add(Slice(grid, (1, 0), (3, 3), (1, 2)))
    padded = draft.add(Pad(part, ((1, 1), (0, 0)), draft.number(-3)))
    joined = draft.add(Cat((padded, draft.add(Full((1, 2), draft.number(90), DataType.Int))), 0))
    read = draft.add(Gather("gather", joined, draft.tensor(torch.zeros(2, 2).long()), 0))
    order = draft.add(Extern("argsort", (read,), (1, False, False)))
    _, picked = draft.builder.add(Extern("topk", (padded,), (2, 0, True, False)))
    bounds = bounds_of(draft)
    assert [bounds.of(value) for value in (part, padded, read, order, picked)] == [
        Bounds(5, 16),
        Bounds(-3, 16),
        Bounds(-3, 90),
        Bounds(0, 1),
        Bounds(0, 3),
    ]


def test_ranges_of_one_and_of_none() -> None:
    draft = Draft()
    one, none = draft.range(1, 7, 5), draft.range(0, 7, 5)
    assert bounds_of(draft).of(one) == bounds_of(draft).of(none) == Bounds(7, 7)


def test_numbers_known_at_execution_only_are_any_of_their_type() -> None:
    draft = Draft()
    start = draft.scalar(3, DataType.Int)
    places = draft.add(Iota(4, start, draft.number(1), DataType.Int))
    assert not bounds_of(draft).are_within(places, 8)
