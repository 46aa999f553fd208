"""Which products are the normal distribution function, or gelu, and that they are right."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.body import rewrite_points, trace
from fuser.schedule.code.normal_cdfs import join_normal_cdfs
from fuser.schedule.code.row_body import rewrite_alike
from tests.definitions import Define, agrees, defined
from tests.schedule.row_bodies import body_of, calls, segment_of

HALF_ROOT = math.sqrt(0.5)


def of_points(define: Define, dtype: torch.dtype = torch.float32) -> list[str]:
    body = trace(segment_of(define, torch.empty(20, 30, dtype=dtype)))
    return calls(rewrite_points(body, join_normal_cdfs).lets)


def sum_with_one(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.erf(x * HALF_ROOT) + 1.0


def halved_first(fd: FusionDefinition, x: Handle) -> Handle:
    return x * 0.5 * sum_with_one(fd, x)


def halved_last(fd: FusionDefinition, x: Handle) -> Handle:
    return sum_with_one(fd, x) * x * 0.5


def weighted_last(fd: FusionDefinition, x: Handle) -> Handle:
    return 0.5 * (1.0 + fd.ops.erf(x / math.sqrt(2))) * x


def cdf(fd: FusionDefinition, x: Handle) -> Handle:
    return sum_with_one(fd, x) * 0.5


def slope(fd: FusionDefinition, x: Handle) -> Handle:
    return cdf(fd, x) + x * fd.ops.exp(x * x * -0.5) * 0.3989422804


def gated(fd: FusionDefinition, x: Handle) -> Handle:
    return halved_first(fd, x) * (x + 2.0)


def value_and_slope(fd: FusionDefinition, x: Handle) -> list[Handle]:
    total = sum_with_one(fd, x)
    half = total * 0.5
    return [x * 0.5 * total, half + x * fd.ops.exp(x * x * -0.5) * 0.3989422804, half]


def of_another(fd: FusionDefinition, x: Handle) -> Handle:
    return (x + 1.0) * 0.5 * sum_with_one(fd, x)


def softmax_of_gelu(fd: FusionDefinition, x: Handle) -> Handle:
    made = fd.ops.exp(halved_first(fd, x))
    return made / fd.ops.sum(made, [1], keepdim=True)


def in_float32(define: Define) -> Define:
    """`define` of inputs of any type, with results of that type."""

    def cast(fd: FusionDefinition, x: Handle) -> list[Handle]:
        made = define(fd, fd.ops.cast(x, DataType.Float))
        outs = [made] if isinstance(made, Handle) else made
        return [fd.ops.cast(out, x.value.dtype) for out in outs]

    return cast


@pytest.mark.parametrize("define", [halved_first, halved_last, weighted_last])
def test_gelu_is_one_function(define: Define):
    assert of_points(define) == ["gelu"]


def test_the_distribution_function_is_one():
    assert of_points(cdf) == ["normal_cdf"]
    assert of_points(slope).count("normal_cdf") == 1
    assert "erf" not in of_points(slope)


def test_what_a_gelu_is_multiplied_by_is_left():
    assert sorted(of_points(gated)) == ["add", "gelu", "mul"]


def test_several_products_of_one_sum_share_the_function():
    made = of_points(value_and_slope)
    assert made.count("normal_cdf") == 1
    assert {"gelu", "erf"}.isdisjoint(made)


def read_besides(fd: FusionDefinition, x: Handle) -> list[Handle]:
    total = sum_with_one(fd, x)
    return [x * 0.5 * total, total]


def erf_stored(fd: FusionDefinition, x: Handle) -> list[Handle]:
    value = fd.ops.erf(x * HALF_ROOT)
    return [x * 0.5 * (value + 1.0), value]


OTHERS: list[Callable[..., Handle | list[Handle]]] = [
    read_besides,
    erf_stored,
    of_another,
    lambda fd, x: x * 0.5 * (fd.ops.erf(x * 0.7) + 1.0),
    lambda fd, x: x * 0.25 * sum_with_one(fd, x),
    lambda fd, x: x * 0.5 * (fd.ops.erf(x * HALF_ROOT) + 2.0),
    lambda fd, x: x * x * 0.5 * sum_with_one(fd, x),
]


@pytest.mark.parametrize("define", OTHERS)
def test_other_products_stay(define: Define):
    made = of_points(define)
    assert {"gelu", "normal_cdf"}.isdisjoint(made)
    assert "erf" in made


def test_float64_stays():
    assert "erf" in of_points(halved_first, torch.float64)


def test_sweeps_of_rows_have_it_too():
    body = rewrite_alike(body_of(softmax_of_gelu, torch.empty(20, 30)), join_normal_cdfs)
    assert ["gelu" in calls(sweep.code) for sweep in body.stages] == [True, True]


def at_largest(fd: FusionDefinition, x: Handle, made: Handle) -> Handle:
    """`made` where the gelu of x is the largest of its row."""
    value = x * 0.5 * sum_with_one(fd, x)
    largest = fd.ops.max(value, [1], keepdim=True)
    return fd.ops.where(fd.ops.ge(value, largest), made, 0.0)


BESIDE: list[Callable[[FusionDefinition, Handle], Handle]] = [
    sum_with_one,
    lambda fd, x: sum_with_one(fd, x) * 0.5,
    lambda fd, x: sum_with_one(fd, x) * 0.5 + fd.ops.exp(x * x * -0.5),
    lambda fd, x: fd.ops.erf(x * HALF_ROOT),
    lambda fd, x: x + 2.0,
]


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("shape", [(64, 16), (40, 17), (40, 33), (40, 100), (5, 300), (3, 5000)])
def test_a_row_has_its_largest_gelu(
    beside: Callable[[FusionDefinition, Handle], Handle], shape: tuple[int, int]
):
    """Sweeps make it by one function, whatever else they make of the same error function."""

    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return at_largest(fd, x, beside(fd, x))

    x = torch.randn(shape) * 1.5
    fd = defined(define, x)
    agrees(fd, [x], "cpu")
    (made,) = fd.execute([x])
    assert (made != 0).any(1).all()


EXTREMES = [0.0, -0.0, 1e-40, 7.75, 8.0, 1e30, -7.74, -1e30, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "define", [halved_first, weighted_last, cdf, slope, gated, value_and_slope, softmax_of_gelu]
)
@pytest.mark.parametrize("length", [7, 65, 300])
def test_they_are_the_oracles_numbers(define: Define, dtype: torch.dtype, length: int):
    x = torch.linspace(-9, 9, 5 * length).reshape(5, length)
    x[0, :7], x[1, :4] = torch.tensor(EXTREMES[:7]), torch.tensor(EXTREMES[7:])
    agrees(defined(in_float32(define), x.to(dtype)), [x.to(dtype)], "cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_far_below_zero_there_are_digits(dtype: torch.dtype):
    x = torch.linspace(-5.4, -2, 4096).to(dtype)
    (made,) = defined(in_float32(halved_first), x).execute([x])
    exact = x.double() * torch.special.erfc(-x.double() * HALF_ROOT) / 2
    # torch's own float32, one and the error function, has 3e-7 / 1e-4 here
    assert (made.double() / exact - 1).abs().max() < (2e-4 if dtype is torch.float32 else 4e-3)
