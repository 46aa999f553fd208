from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Constant,
    Expand,
    Flip,
    Full,
    Fusion,
    Number,
    Permute,
    Slice,
    Squeeze,
    StrideOrder,
    Value,
    View,
)
from fuser.ir.pointwise import TABLE
from fuser.passes.constant_folding import fold_constants
from tests.passes.drafts import NUMBERS, random_tensor
from tests.passes.rewriting import Draft, names, rewritten

SPECIAL = torch.tensor([0.0, -0.0, 1.5, -2.0, float("inf"), float("-inf"), float("nan")])
COMPLEX = torch.complex(SPECIAL, SPECIAL.flip(0))


def folded(draft: Draft) -> Fusion:
    return rewritten(fold_constants, draft, bits=True)


def constants(fusion: Fusion) -> list[Constant]:
    return [s.op for s in fusion.statements if isinstance(s.op, Constant)]


def test_scalars_that_follow_from_constants_are_constants():
    # S3 = mul(S1, S2); S4 = cast(S3)     ->     S4 = 6
    draft = Draft()
    x = draft.tensor(torch.randn(3))
    product = draft.pointwise("mul", draft.number(2.5, DataType.Double), draft.number(2))
    whole = draft.add(Cast(product, DataType.Int))
    draft.out(draft.pointwise("add", x, whole))

    after = folded(draft)

    assert names(after) == ["add"]
    assert constants(after) == [Constant(5, DataType.Int)]


def test_what_raises_is_left_to_raise():
    # 1 / 0 of scalars, and of tensors that are full of them
    draft = Draft()
    one, zero = draft.number(1), draft.number(0)
    draft.pointwise("div", one, zero)
    full = draft.add(Full((3,), zero, DataType.Int))
    draft.pointwise("div", draft.add(Full((3,), one, DataType.Int)), full)
    assert names(fold_constants(draft.fusion)) == ["div", "full", "full", "div"]


@pytest.mark.parametrize(
    "relabel",
    [
        lambda v: View(v, (6, 1)),
        lambda v: Permute(v, (1, 0)),
        lambda v: Broadcast(v, (False, True, False)),
        lambda v: Slice(v, (0, 0), (2, 1), (2, 1)),
        lambda v: Squeeze(v, (1,)),
        lambda v: Flip(v, (0,)),
        lambda v: Expand(v, (6, 4)),
    ],
)
def test_a_relabelled_full_tensor_is_a_full_tensor(relabel):
    draft = Draft()
    full = draft.add(Full((6, 1), draft.number(2), DataType.Float))
    value = draft.add(relabel(full))
    draft.out(draft.pointwise("exp", draft.add(StrideOrder(value, tuple(range(len(value.shape)))))))

    after = folded(draft)

    assert names(after) == ["full", "stride_order", "exp"]


def test_an_expanded_output_stays_expanded():
    draft = Draft()
    full = draft.add(Full((4, 1), draft.number(2), DataType.Float))
    draft.out(draft.add(Expand(full, (4, 1000))))
    assert names(folded(draft)) == ["full", "expand"]


@pytest.mark.parametrize("is_output", [True, False])
def test_an_output_that_is_a_view_of_a_full_one_stays_its_view(is_output: bool):
    draft = Draft()
    full = draft.add(Full((4, 1), draft.number(2), DataType.Float))
    row = draft.add(Squeeze(full, (1,)))
    draft.out(*([full] if is_output else []), draft.add(View(row, (2, 2))))
    assert names(folded(draft)) == (["full", "squeeze", "reshape"] if is_output else ["full"])


def test_a_cast_full_tensor_is_rounded_twice_as_before():
    draft = Draft()
    full = draft.add(Full((4,), draft.number(1e-3, DataType.Double), DataType.Half))
    draft.out(draft.add(Cast(full, DataType.Double)))

    after = folded(draft)

    assert names(after) == ["full"]
    assert constants(after) == [Constant(torch.tensor(1e-3).half().item(), DataType.Half)]


@pytest.mark.parametrize("dtype", [DataType.Int, DataType.Float, DataType.Bool])
def test_the_real_part_of_a_complex_full_tensor_is_a_full_tensor(dtype: DataType):
    draft = Draft()
    full = draft.add(
        Full((4,), draft.number(-3 + 2j, DataType.ComplexFloat), DataType.ComplexFloat)
    )
    draft.out(draft.add(Cast(full, dtype)))
    assert names(folded(draft)) == ["full"]


def test_arithmetic_on_full_tensors_is_done_once():
    # full(2) + full(3) * 4     ->     full(14)
    draft = Draft()
    two, three = (draft.add(Full((3, 4), draft.number(n), DataType.Float)) for n in (2, 3))
    draft.out(draft.pointwise("add", two, draft.pointwise("mul", three, draft.number(4))))
    after = folded(draft)
    assert names(after) == ["full"]
    assert constants(after) == [Constant(14.0, DataType.Float)]


def test_full_operands_become_scalars():
    # add(T0, full(2))     ->     add(T0, 2)
    draft = Draft()
    x = draft.tensor(torch.randn(3, 4))
    full = draft.add(Full((3, 4), draft.number(2), DataType.Float))
    draft.out(draft.pointwise("add", x, full))
    after = folded(draft)
    assert names(after) == ["add"]
    assert after.statements[-1].op.args[0] == x
    assert not after.statements[-1].op.args[1].is_tensor


def test_a_full_tensor_of_a_number_that_is_not_known_becomes_that_scalar():
    draft = Draft()
    x, number = draft.tensor(torch.randn(3, 4)), draft.scalar(2.7, DataType.Double)
    draft.out(draft.pointwise("mul", x, draft.add(Full((4,), number, DataType.Float))))
    assert names(folded(draft)) == ["cast", "mul"]


def test_full_operands_that_decide_the_type_or_the_sizes_stay():
    draft = Draft()
    x = draft.tensor(torch.randn(4))
    wide = draft.add(Full((4,), draft.number(2), DataType.Double))
    large = draft.add(Full((3, 4), draft.number(2), DataType.Float))
    draft.out(draft.pointwise("add", x, wide), draft.pointwise("add", x, large))
    assert names(folded(draft)) == ["full", "full", "add", "add"]


def test_a_full_operand_that_decides_the_layout_stays():
    # add(full, T0) is row-major, add(2, T0) lies as T0
    draft = Draft()
    x = draft.tensor(torch.randn(4, 3).t())
    full = draft.add(Full((3, 4), draft.number(2), DataType.Float))
    draft.out(draft.pointwise("add", full, x))
    assert names(folded(draft)) == ["full", "add"]


def neutral(
    name: str, given: torch.Tensor, number: Number, dtype: DataType, *, first: bool = False
) -> list[str]:
    """What is left of exp(name(x, number)), or of exp(name(number, x))."""
    draft = Draft()
    x, constant = draft.tensor(given), draft.number(number, dtype)
    result = draft.pointwise(name, *((constant, x) if first else (x, constant)))
    draft.out(draft.pointwise("set", result), draft.pointwise("ne", result, result))
    return [left for left in names(folded(draft)) if left not in ("set", "ne")]


INTS = torch.tensor([-3, 0, 7])
BOOLS = torch.tensor([True, False])


@pytest.mark.parametrize(
    ("name", "given", "number", "dtype"),
    [
        ("mul", SPECIAL, 1.0, DataType.Double),
        ("mul", SPECIAL, 1, DataType.Int),
        ("mul", INTS, 1, DataType.Int),
        ("mul", BOOLS, True, DataType.Bool),
        ("truediv", SPECIAL, 1.0, DataType.Double),
        ("div", INTS, 1, DataType.Int),
        ("sub", SPECIAL, 0.0, DataType.Double),
        ("sub", INTS, 0, DataType.Int),
        ("add", SPECIAL, -0.0, DataType.Double),
        ("add", INTS, 0, DataType.Int),
        ("add", BOOLS, False, DataType.Bool),
        ("bitwise_or", INTS, 0, DataType.Int),
        ("bitwise_xor", BOOLS, False, DataType.Bool),
        ("bitwise_and", BOOLS, True, DataType.Bool),
        ("logical_and", BOOLS, True, DataType.Bool),
        ("logical_or", BOOLS, False, DataType.Bool),
        ("bitwise_left_shift", INTS, 0, DataType.Int),
    ],
)
def test_neutral_operands_go_away(name: str, given: torch.Tensor, number: Number, dtype: DataType):
    assert neutral(name, given, number, dtype) == []


@pytest.mark.parametrize(
    ("name", "given", "number", "dtype", "first"),
    [
        ("add", SPECIAL, 0.0, DataType.Double, False),  # -0.0 + 0.0 is 0.0
        ("add", SPECIAL, 0, DataType.Int, False),
        ("sub", SPECIAL, -0.0, DataType.Double, False),
        ("sub", SPECIAL, 0.0, DataType.Double, True),
        ("truediv", SPECIAL, 1.0, DataType.Double, True),
        ("mul", SPECIAL.half(), 1.0, DataType.Double, False),  # is float32
        ("add", COMPLEX, complex(-0.0, -0.0), DataType.ComplexFloat, False),  # torch multiplies it
        ("mul", COMPLEX, 1.0, DataType.Double, False),  # inf * 0 is NaN
        ("truediv", INTS, 1, DataType.Int, False),  # is float32
        ("mul", INTS, 1.0, DataType.Double, False),  # is float32
        ("logical_and", INTS, True, DataType.Bool, False),  # is Bool
    ],
)
def test_operands_that_change_a_bit_or_the_type_stay(
    name: str, given: torch.Tensor, number: Number, dtype: DataType, first: bool
):
    assert neutral(name, given, number, dtype, first=first) == [name]


@pytest.mark.parametrize(
    ("name", "given"), [("neg", SPECIAL), ("logical_not", BOOLS), ("bitwise_not", INTS)]
)
def test_what_is_undone_is_not_done(name: str, given: torch.Tensor):
    draft = Draft()
    twice = draft.pointwise(name, draft.pointwise(name, draft.tensor(given)))
    draft.out(draft.pointwise("isnan", twice))
    assert names(folded(draft)) == ["isnan"]


def test_logical_not_twice_is_not_an_integer_again():
    draft = Draft()
    twice = draft.pointwise("logical_not", draft.pointwise("logical_not", draft.tensor(INTS)))
    draft.out(twice)
    assert names(folded(draft)) == ["logical_not", "logical_not"]


@pytest.mark.parametrize("known", [True, False])
def test_where_a_condition_is_known_one_branch_is_left(known: bool):
    draft = Draft()
    x, y = draft.tensor(torch.randn(3)), draft.tensor(torch.randn(3))
    condition = draft.add(Full((3,), draft.number(known, DataType.Bool), DataType.Bool))
    left, right = draft.pointwise("exp", x), draft.pointwise("neg", y)
    draft.out(draft.pointwise("where", condition, left, right))
    assert names(folded(draft)) == (["exp"] if known else ["neg"])


def test_an_asked_for_boundary_stays():
    draft = Draft()
    full = draft.add(Full((3,), draft.number(2), DataType.Float))
    draft.out(draft.pointwise("segment_set", full))
    assert names(folded(draft)) == ["full", "segment_set"]


def random_draft(rng: random.Random) -> Draft:
    """Pointwise operations of constants, full tensors and an input, of any type."""
    draft = Draft()
    values: list[Value] = [draft.tensor(random_tensor(rng, (2, 3), rng.choice(NUMBERS)))]
    for _ in range(4):
        dtype = rng.choice([*NUMBERS, DataType.Bool, DataType.BFloat16])
        number = draft.number(
            rng.choice([True, 0, 1, -1, 2])
            if dtype.is_integral
            else rng.choice([0.0, -0.0, 1.0, -1.5, 1e30]),
            DataType.Double if dtype.is_floating else DataType.Int,
        )
        shape = rng.choice([(2, 3), (3,), (1, 1), ()])
        values.append(draft.add(Full(shape, number, dtype)) if rng.random() < 0.6 else number)
    for _ in range(8):
        row = rng.choice([row for row in TABLE.values() if "c" not in row.name])
        args = [rng.choice(values) for _ in range(row.arity)]
        try:
            values.append(draft.pointwise(row.name, *args))
        except RuntimeError:
            continue
    return draft.out(*[value for value in values if value.is_tensor][-3:])


@given(st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_folding_changes_no_number(seed: int):
    draft = random_draft(random.Random(seed))
    try:
        interpret(draft.fusion, draft.inputs)
    except RuntimeError:
        return  # an integer division by zero, or what torch has no kernel for
    rewritten(fold_constants, draft)
