from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.dtypes import DataType
from fuser.ir.tolerance import tolerance, tolerance_of


@pytest.mark.parametrize("dtype", [d for d in DataType if d.is_integral], ids=lambda d: d.name)
def test_integers_and_bool_are_exact(dtype: DataType):
    assert tolerance(dtype, 1000) == (0.0, 0.0)


@pytest.mark.parametrize(
    "dtype", [d for d in DataType if not d.is_integral], ids=lambda dtype: dtype.name
)
def test_floats_have_a_few_roundings(dtype: DataType):
    relative, absolute = tolerance(dtype)
    epsilon = dtype.epsilon
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


# -- outputs of fusions --------------------------------------------------------------------------


def allowed(
    build: Callable[[FusionDefinition, Handle], Handle], dtype: torch.dtype
) -> tuple[float, float]:
    """The tolerance of what is built from a [4, 256] input."""
    with FusionDefinition() as fd:
        out = build(fd, fd.from_pytorch(torch.empty(4, 256, dtype=dtype), static_sizes=True))
        fd.add_output(out)
    return tolerance_of(fd.fusion, out.value)


def layernorm(fd: FusionDefinition, x: Handle) -> Handle:
    var, mean = fd.ops.var_mean(x, [1], keepdim=True)
    return (x - mean) * fd.ops.rsqrt(var + 1e-5)


def test_the_coarsest_type_on_the_way_decides():
    as_double = allowed(lambda fd, x: fd.ops.cast(layernorm(fd, x), DataType.Double), torch.float32)
    assert as_double == allowed(layernorm, torch.float32)
    assert as_double[0] > 1e6 * allowed(layernorm, torch.float64)[0]


def test_bits_that_no_operation_had_are_not_missed():
    in_half = allowed(lambda fd, x: fd.ops.exp(x), torch.float16)
    assert in_half == allowed(lambda fd, x: fd.ops.exp(x), torch.float32)
    wide = allowed(lambda fd, x: fd.ops.exp(fd.ops.cast(x, DataType.Double)), torch.float32)
    assert wide == tolerance(DataType.Double)


def test_sixteen_bits_on_the_way_are_roundings_of_their_own():
    def twice(fd: FusionDefinition, x: Handle) -> Handle:
        once = fd.ops.cast(fd.ops.exp(x), DataType.BFloat16)
        return fd.ops.cast(fd.ops.exp(once), DataType.BFloat16)

    assert allowed(twice, torch.float32)[0] == pytest.approx(2 * 2.0**-7, rel=1e-3)


def test_more_operations_and_longer_sums_differ_more():
    assert allowed(lambda fd, x: fd.ops.exp(x), torch.float32) == tolerance(DataType.Float)
    summed = allowed(lambda fd, x: fd.ops.sum(x * 0.5, [1]), torch.float32)
    assert summed == tolerance(DataType.Float, 257)


@pytest.mark.parametrize(
    "build",
    [
        lambda fd, x: fd.ops.neg(fd.ops.permute(x, [1, 0])),
        lambda fd, x: fd.ops.max(x, [1]),
        lambda fd, x: fd.ops.pad(fd.ops.cast(x, DataType.Double), [1, 1]),
        lambda fd, x: fd.ops.gt(fd.ops.exp(x), 0.5),
        lambda fd, x: fd.ops.cast(fd.ops.cast(fd.ops.exp(x), DataType.Int), DataType.Double),
    ],
)
def test_what_rounds_nothing_must_be_equal(build: Callable[[FusionDefinition, Handle], Handle]):
    assert allowed(build, torch.float32) == (0.0, 0.0)
