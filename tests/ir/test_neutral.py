from __future__ import annotations

import pytest
import torch

from fuser.ir.dtypes import DataType
from fuser.ir.neutral import neutral_number, zero_to_add

FLOATS = torch.tensor([0.0, -0.0, 1.5, -2.0, float("inf"), float("-inf"), float("nan")])
NUMBERS = {
    DataType.Bool: torch.tensor([False, True]),
    DataType.Int32: torch.tensor([0, -1, 7], dtype=torch.int32),
    DataType.Int: torch.tensor([0, -1, 7]),
    DataType.BFloat16: FLOATS.bfloat16(),
    DataType.Float: FLOATS,
    DataType.Double: FLOATS.double(),
}


def bits(numbers: torch.Tensor) -> list[int]:
    """Of NaN, only that it is one."""
    is_nan = numbers.isnan()
    return numbers.masked_fill(is_nan, 0).view(torch.uint8).tolist() + is_nan.tolist()


@pytest.mark.parametrize("dtype", NUMBERS)
def test_adding_the_zero_changes_no_bit(dtype: DataType):
    zero = torch.tensor(zero_to_add(dtype), dtype=dtype.torch)
    assert bits(NUMBERS[dtype] + zero) == bits(zero + NUMBERS[dtype]) == bits(NUMBERS[dtype])


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div", "bitwise_and", "logical_or"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_what_is_neutral_changes_no_bit(dtype: DataType, operation: str, position: int):
    number = neutral_number(operation, dtype, position)
    if number is None:
        return
    other = torch.tensor(number, dtype=dtype.torch)
    operands = (NUMBERS[dtype], other) if position else (other, NUMBERS[dtype])
    try:
        result = getattr(torch, operation)(*operands)
    except RuntimeError:
        assert (operation, dtype) == ("sub", DataType.Bool)  # torch has none
        return
    assert bits(result.to(dtype.torch)) == bits(NUMBERS[dtype])


def test_no_complex_number_is_neutral():
    for operation in ("add", "sub", "mul", "div"):
        assert neutral_number(operation, DataType.ComplexFloat) is None
