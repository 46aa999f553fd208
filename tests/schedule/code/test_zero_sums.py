"""Sums with a zero: left out where no negative zero could have become a zero."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.schedule.code.zero_sums import is_unsigned, without_zero
from fuser.schedule.tree.expressions import Call, Convert, Expression, Literal, Ref

F, N = DataType.Float, DataType.Int
ZERO, X, Y = Literal(0.0, F), Ref("x", F), Ref("y", F)


def add(one: Expression, other: Expression, dtype: DataType = F) -> Call:
    return Call("add", (one, other), dtype)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_sum_with_zero_is_the_other_operand_if_that_is_unsigned(swapped: bool) -> None:
    whole = add(ZERO, X) if swapped else add(X, ZERO)
    assert without_zero(whole, {"x"}) == X
    assert without_zero(whole, {"y"}) == whole


def test_a_negative_zero_is_added() -> None:
    whole = add(X, Literal(-0.0, F))
    assert without_zero(whole, {"x"}) == whole


def test_integers_have_one_zero() -> None:
    number = Ref("n", N)
    assert without_zero(add(number, Literal(0, N), N), set()) == number


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (X, True),
        (Y, False),
        (add(X, Y), True),
        (add(Y, Y), False),
        (add(Y, ZERO), True),
        (Literal(-0.0, F), False),
        (Literal(-1.0, F), True),
        (Convert(Ref("n", N), F), True),
        (Convert(Ref("d", DataType.Double), F), False),
        (Call("where", (Ref("c", DataType.Bool), X, ZERO), F), True),
        (Call("where", (Ref("c", DataType.Bool), X, Y), F), False),
        (Call("mul", (X, X), F), False),
    ],
)
def test_what_is_never_a_negative_zero(expression: Expression, expected: bool) -> None:
    assert is_unsigned(expression, {"x"}) is expected


def test_padded_negative_zeros_stay_what_torch_makes_of_them() -> None:
    x = torch.tensor([-0.0, 0.0, -1.0, 1.0] * 16)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        left, right = fd.ops.pad(t, [0, 64]), fd.ops.pad(t, [64, 0])
        fd.add_output(left + right)
        fd.add_output(fd.ops.neg(left) + fd.ops.neg(right))
        fd.add_output(left + right + left)
    for found, wanted in zip(fd.execute([x]), interpret(fd.fusion, [x]), strict=True):
        assert torch.equal(found, wanted)
        assert torch.equal(found.signbit(), wanted.signbit())
