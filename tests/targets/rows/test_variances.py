"""Norms of 16-bit floats, whose means and variances are summed about a row's first element."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import agrees

DTYPES = {torch.bfloat16: DataType.BFloat16, torch.float16: DataType.Half}


def rows(columns: int, dtype: torch.dtype) -> torch.Tensor:
    """Rows far from zero, all equal, with one element far from all others, or no number at all."""
    x = torch.randn(24, columns)
    x[1] += 100
    x[2] = 3.3
    x[3] = 0
    for row, place in ((4, 0), (5, -1)):
        x[row, place] = 3000
    for row, value in ((6, math.inf), (8, -math.inf), (10, math.nan)):
        x[row, 0] = x[row + 1, -1] = value
    x[12] = math.inf
    x[13, 0] = 3e37  # of the elements taken off it, there would be no finite sum
    x[14] = 2e4
    x[15] = torch.arange(columns) % 2
    x[16, 1:] = 0
    return x.to(dtype)


def defined(inputs: Sequence[torch.Tensor], *, mean: bool = False) -> FusionDefinition:
    """The norm of the sum of the inputs, or their means and variances."""
    result = DTYPES[inputs[0].dtype]
    with FusionDefinition() as fd:
        wide: list[Handle] = [fd.ops.cast(fd.from_pytorch(x), DataType.Float) for x in inputs]
        total = wide[0] + wide[1] if len(wide) > 1 else wide[0]
        variance, center = fd.ops.var_mean(total, [1], correction=0, keepdim=True)
        outputs = [(total - center) * fd.ops.rsqrt(variance + 1e-5)]
        for output in [variance, center, fd.ops.sum(total, [1])] if mean else outputs:
            fd.add_output(fd.ops.cast(output, result))
    return fd


@pytest.mark.parametrize("columns", [1, 7, 64, 200, 300, 768, 2048])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_every_kind(dtype: torch.dtype, columns: int):
    x = rows(columns, dtype)
    agrees(defined([x]), [x], "cpu")
    agrees(defined([x], mean=True), [x], "cpu")


def test_the_norm_of_a_sum():
    x, y = rows(500, torch.bfloat16), torch.randn(24, 500).bfloat16()
    agrees(defined([x, y]), [x, y], "cpu")


@pytest.mark.parametrize("columns", [8192, 16384, 20000])
def test_long_rows(columns: int):
    x = rows(columns, torch.bfloat16)
    agrees(defined([x]), [x], "cpu")


def test_the_norm_of_a_norm():
    """Both take the first element of the same input."""
    x = torch.randn(40, 200).bfloat16()
    with FusionDefinition() as fd:
        made = fd.ops.cast(fd.from_pytorch(x), DataType.Float)
        for _ in range(2):
            variance, center = fd.ops.var_mean(made, [1], correction=0, keepdim=True)
            made = (made - center) * fd.ops.rsqrt(variance + 1e-5)
        fd.add_output(fd.ops.cast(made, DataType.BFloat16))
    agrees(fd, [x], "cpu")


def test_results_that_are_rounded_less_than_elements():
    x = torch.randn(16, 16384).bfloat16()
    x[:, 0] = 3e4
    with FusionDefinition() as fd:
        wide = fd.ops.cast(fd.from_pytorch(x), DataType.Float)
        variance = fd.ops.var(wide, [1], correction=0)
        fd.add_output(fd.ops.cast(variance, DataType.Half))
    agrees(fd, [x], "cpu")


def test_elements_with_no_finite_distance_between_them():
    x = torch.randn(16, 10)
    x[:, 0], x[:, 1] = -3e37, 3.38e38
    x = x.bfloat16()
    agrees(defined([x], mean=True), [x], "cpu")


def test_an_input_that_is_updated():
    """Its first element is read before anything is stored."""
    x = rows(768, torch.bfloat16)
    expected = defined([x]).execute([x], target="cpu")
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        wide = fd.ops.cast(given, DataType.Float)
        variance, center = fd.ops.var_mean(wide, [1], correction=0, keepdim=True)
        result = (wide - center) * fd.ops.rsqrt(variance + 1e-5)
        fd.add_output(fd.ops.cast(result, DataType.BFloat16), given)
    fd.execute([x], target="cpu")
    torch.testing.assert_close(x, expected[0], rtol=0, atol=0, equal_nan=True)
