import itertools

import pytest
import torch

from fuser.ir import dtypes
from fuser.ir.conversions import converted
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Cast, Permute, Slice, Value
from fuser.passes.cast_chains import PRESERVED_BY, compose_casts
from tests.passes.rewriting import Draft, names, rewritten


def chain(given: torch.Tensor, *dtypes: DataType) -> tuple[Draft, Value]:
    draft = Draft()
    value = draft.tensor(given)
    for dtype in dtypes:
        value = draft.add(Cast(value, dtype))
    return draft, value


def left_of(given: torch.Tensor, *dtypes: DataType) -> list[DataType]:
    """The types that are still cast to, one after the other, where the result is computed on."""
    draft, value = chain(given, *dtypes)
    draft.out(draft.pointwise("isnan", value))
    after = rewritten(compose_casts, draft)
    return [s.op.dtype for s in after.statements if isinstance(s.op, Cast)]


def test_a_cast_that_keeps_every_number_goes_away():
    # T0: BFloat16 -> Float -> Half     ->     T0 -> Half
    given = torch.randn(8).bfloat16()
    assert left_of(given, DataType.Float, DataType.Half) == [DataType.Half]
    assert left_of(given, DataType.Float, DataType.Double, DataType.Half) == [DataType.Half]


def test_a_cast_there_and_back_goes_away():
    given = torch.randn(8).bfloat16()
    assert left_of(given, DataType.Float, DataType.BFloat16) == []
    assert left_of(given, DataType.Float, DataType.Double, DataType.BFloat16) == []
    assert left_of(given, DataType.BFloat16) == []


def test_elements_may_be_relabelled_between_casts():
    # T0: BFloat16 -> Float -> permute -> slice -> BFloat16     ->     T0 -> permute -> slice
    draft = Draft()
    given = draft.tensor(torch.randn(4, 6).bfloat16())
    wide = draft.add(Cast(given, DataType.Float))
    turned = draft.add(Permute(wide, (1, 0)))
    part = draft.add(Slice(turned, (1, 0), (5, 4), (2, 1)))
    narrow = draft.add(Cast(part, DataType.BFloat16))
    draft.out(draft.pointwise("isnan", narrow))
    assert names(rewritten(compose_casts, draft)) == ["permute", "slice", "isnan"]


def test_what_is_read_between_casts_stays_for_its_reader():
    draft = Draft()
    wide = draft.add(Cast(draft.tensor(torch.randn(4, 6).half()), DataType.Float))
    turned = draft.add(Permute(wide, (1, 0)))
    halved = draft.pointwise("mul", turned, draft.number(0.5))
    narrow = draft.pointwise("isnan", draft.add(Cast(turned, DataType.Half)))
    after = rewritten(compose_casts, draft.out(halved, narrow))
    assert sorted(names(after)) == ["cast", "isnan", "mul", "permute", "permute"]


def test_an_output_stays_apart_from_the_input_it_relabels():
    draft = Draft()
    wide = draft.add(Cast(draft.tensor(torch.randn(4, 6).half()), DataType.Float))
    turned = draft.add(Permute(wide, (1, 0)))
    after = rewritten(compose_casts, draft.out(draft.add(Cast(turned, DataType.Half))))
    assert names(after) == ["cast", "permute", "cast"]


def test_casts_that_lose_numbers_stay():
    given = torch.tensor([1.0001, 3e9, -2.5])
    assert left_of(given, DataType.Half, DataType.Float) == [DataType.Half, DataType.Float]
    assert left_of(given, DataType.Int, DataType.Float) == [DataType.Int, DataType.Float]
    large = torch.tensor([2**53 + 1, -(2**62) - 1])
    assert left_of(large, DataType.Double, DataType.Int) == [DataType.Double, DataType.Int]
    wide = torch.tensor([2**24 + 1], dtype=torch.int32)
    assert left_of(wide, DataType.Float, DataType.Int32) == [DataType.Float, DataType.Int32]


def test_a_cast_with_another_reader_stays_for_it():
    # T1 = Float(T0); T2 = Double(T1); out T1, T2     ->     T2 = Double(T0)
    draft, value = chain(torch.randn(4).half(), DataType.Float, DataType.Double)
    first = draft.fusion.statements[0].out
    after = rewritten(compose_casts, draft.out(first, value))
    assert names(after) == ["cast", "cast"]
    assert [s.op.arg for s in after.statements] == list(after.inputs * 2)


def test_an_output_that_was_a_copy_stays_one():
    draft, value = chain(torch.randn(4).bfloat16(), DataType.Float, DataType.BFloat16)
    assert names(rewritten(compose_casts, draft.out(value))) == ["cast", "cast"]


def test_scalars_are_cast_once_too():
    draft = Draft()
    x, number = draft.tensor(torch.randn(4)), draft.scalar(3, DataType.Int32)
    wide = draft.add(Cast(number, DataType.Double))
    draft.out(draft.pointwise("mul", x, draft.add(Cast(wide, DataType.Float))))
    assert names(rewritten(compose_casts, draft)) == ["cast", "mul"]


NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    127,
    255,
    2**8 + 1,
    2**11 + 1,
    2**15 - 1,
    2**24 + 1,
    2**31 - 1,
    2**53 + 1,
)
FRACTIONS = (0.0, -0.0, 0.5, 65504.0, 6e-8, 1e-3, 3e38, 1e300, float("inf"), float("nan"))


@pytest.mark.parametrize(
    ("narrow", "wide"),
    list(itertools.permutations(dtypes.NUMBERS, 2)),
    ids=lambda dtype: dtype.name,
)
def test_the_table_names_no_type_that_loses_a_number(narrow: DataType, wide: DataType):
    if narrow.is_complex and not wide.is_complex:
        assert wide not in PRESERVED_BY[narrow]
        return
    numbers = torch.tensor(NUMBERS if narrow.is_integral else [*NUMBERS, *FRACTIONS])
    given = converted(numbers, narrow)
    pairs = zip(given.tolist(), converted(given, wide).tolist(), strict=True)
    keeps = all(before == after or before != before for before, after in pairs)
    assert keeps or wide not in PRESERVED_BY[narrow]


@pytest.mark.parametrize(
    ("first", "wide"),
    [
        pair
        for pair in itertools.permutations(dtypes.NUMBERS, 2)
        if pair[1] in PRESERVED_BY[pair[0]]
    ],
)
def test_what_is_left_out_changes_no_bit(first: DataType, wide: DataType):
    small = converted(torch.tensor([0, 1, 2, 100, 1]), first)
    for last in dtypes.NUMBERS:
        draft, value = chain(small, wide, last)
        rewritten(compose_casts, draft.out(draft.pointwise("set", value)), bits=True)
