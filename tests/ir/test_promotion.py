"""Promotion rules beside torch, for tensors, tensors without dimensions, and scalars."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch

from fuser import DataType
from fuser.ir.dtypes import from_torch
from fuser.ir.promotion import (
    Operand,
    Rule,
    arithmetic,
    comparison,
    complex_parts,
    floating,
    identity,
    magnitude,
    predicate,
    real_part,
    selection,
)

PYTHON = {DataType.Double: 1.0, DataType.Int: 1, DataType.Bool: True}
"""Scalars of the types that Python's numbers have."""
RANKED = [
    Operand(dtype, rank)
    for dtype in (DataType.Bool, DataType.Int8, DataType.Int, DataType.BFloat16, DataType.Double)
    for rank in (0, 1)
]
OPERANDS = [*RANKED, *(Operand(dtype, None) for dtype in PYTHON)]
PAIRS = [pair for pair in itertools.product(OPERANDS, OPERANDS) if any(o.rank for o in pair)]


def made(operand: Operand) -> torch.Tensor | float:
    """What torch is given for an operand."""
    if operand.rank is None:
        return PYTHON[operand.dtype]
    return torch.ones((2,) * operand.rank, dtype=operand.dtype.torch)


@pytest.mark.parametrize(
    ("rule", "function"),
    [(arithmetic, torch.add), (floating, torch.true_divide), (comparison, torch.lt)],
)
def test_pairs_come_to_torchs_type_but_16_bit_floats_stay_wide(
    rule: Rule, function: Callable[..., torch.Tensor]
) -> None:
    for pair in PAIRS:
        # A number first, torch takes on the other side only.
        left, right = sorted(pair, key=lambda operand: operand.rank is None)
        result = function(made(left), made(right))
        assert rule(pair).result is from_torch(result.dtype).compute, pair


def test_comparisons_are_made_in_the_type_of_a_sum() -> None:
    for pair in PAIRS:
        assert comparison(pair).args == arithmetic(pair).args


def test_predicates_leave_each_operand_its_own_type() -> None:
    given = Operand(DataType.Int, 1), Operand(DataType.Half, 1)
    assert predicate(given).args == (DataType.Int, DataType.Float)
    assert predicate(given).result is DataType.Bool


def test_copies_and_choices_keep_narrow_floats() -> None:
    condition, half = Operand(DataType.Bool, 1), Operand(DataType.Half, 1)
    assert identity((half,)).result is DataType.Half
    assert selection((condition, half, half)).args == (DataType.Bool, DataType.Half, DataType.Half)


@pytest.mark.parametrize("rank", [None, 0, 1])
def test_a_choice_of_two_scalars_is_of_their_type(rank: int | None) -> None:
    condition = Operand(DataType.Bool, rank)
    for one, other in itertools.product((*PYTHON, DataType.Float, DataType.ComplexDouble), PYTHON):
        found = selection((condition, Operand(one, None), Operand(other, None)))
        assert found.result is from_torch(torch.promote_types(one.torch, other.torch))


@pytest.mark.parametrize("dtype", [DataType.Half, DataType.Int, DataType.Bool, DataType.Double])
def test_the_real_part_of_a_real_number_is_itself(dtype: DataType) -> None:
    assert real_part((Operand(dtype, 1),)) == identity((Operand(dtype, 1),))


def test_absolute_values_and_parts_of_complex_numbers_are_real() -> None:
    assert real_part((Operand(DataType.ComplexDouble, 1),)).result is DataType.Double
    assert magnitude((Operand(DataType.ComplexFloat, 1),)).result is DataType.Float
    parts = complex_parts((Operand(DataType.Float, 1), Operand(DataType.Double, 1)))
    assert parts.args == (DataType.Double, DataType.Double)
    assert parts.result is DataType.ComplexDouble
