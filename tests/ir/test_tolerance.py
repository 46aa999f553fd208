import pytest
import torch

from fuser.ir.dtypes import DataType
from fuser.ir.tolerance import tolerance


@pytest.mark.parametrize("dtype", [d for d in DataType if d.is_integral], ids=lambda d: d.name)
def test_integers_and_bool_are_exact(dtype: DataType):
    assert tolerance(dtype, 1000) == (0.0, 0.0)


@pytest.mark.parametrize(
    "dtype", [d for d in DataType if not d.is_integral], ids=lambda dtype: dtype.name
)
def test_floats_have_a_few_roundings(dtype: DataType):
    relative, absolute = tolerance(dtype)
    epsilon = torch.finfo(dtype.torch).eps
    assert epsilon <= relative <= 10 * epsilon
    assert relative == absolute


def test_complex_numbers_are_as_exact_as_their_parts():
    assert tolerance(DataType.ComplexFloat) == tolerance(DataType.Float)
    assert tolerance(DataType.ComplexDouble) == tolerance(DataType.Double)


def test_longer_sums_differ_more_and_sixteen_bit_results_are_rounded_once():
    short, long = tolerance(DataType.Float, 16)[0], tolerance(DataType.Float, 1024)[0]
    assert long == 8 * short
    half, float_ = tolerance(DataType.Half, 16)[0], tolerance(DataType.Float, 16)[0]
    assert half == pytest.approx(float_ + 2**-10)


def test_sums_in_another_order_are_within_it():
    torch.manual_seed(0)
    for length in (10, 1000, 100_000):
        x = torch.randn(20, length)
        relative, absolute = tolerance(DataType.Float, length)
        shuffled = x[:, torch.randperm(length)].cumsum(1)[:, -1]
        torch.testing.assert_close(x.sum(1), shuffled, rtol=relative, atol=absolute)
