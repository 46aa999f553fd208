"""Which sums with one are computed as one function, and that they are the oracle's numbers."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.body import rewrite_points, trace
from fuser.schedule.code.row_body import rewrite_alike
from fuser.schedule.code.sums_with_one import join_sums_with_one
from tests.definitions import Define, agrees, defined
from tests.schedule.row_bodies import body_of, calls, segment_of


def of_points(define: Define, dtype: torch.dtype = torch.float32) -> list[str]:
    body = trace(segment_of(define, torch.empty(20, 30, dtype=dtype)))
    return calls(rewrite_points(body, join_sums_with_one).lets)


def gelu(fd: FusionDefinition, x: Handle) -> Handle:
    return x * 0.5 * (1.0 + fd.ops.erf(x * 2**-0.5))


def gelu_by_tanh(fd: FusionDefinition, x: Handle) -> Handle:
    return x * 0.5 * (fd.ops.tanh((x + x * x * x * 0.044715) * 0.7978845608) + 1.0)


def both(fd: FusionDefinition, x: Handle) -> list[Handle]:
    value = fd.ops.erf(x)
    return [value + 1.0, value * 2.0]


def stored(fd: FusionDefinition, x: Handle) -> list[Handle]:
    value = fd.ops.erf(x)
    return [value, value + 1.0]


def test_gelu_has_a_function_of_the_sum():
    assert of_points(gelu) == ["mul", "mul", "erf_plus_one", "mul"]
    assert "tanh_plus_one" in of_points(gelu_by_tanh)
    assert "tanh" not in of_points(gelu_by_tanh)


def test_several_sums_of_one_erf():
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        value = fd.ops.erf(x)
        return [value + 1.0, (value + 1.0) * x]

    assert set(of_points(define)) == {"erf_plus_one", "mul"}


@pytest.mark.parametrize("define", [both, stored])
def test_an_erf_that_something_else_reads_stays(define: Define):
    assert "erf" in of_points(define)
    assert "erf_plus_one" not in of_points(define)


@pytest.mark.parametrize("number", [2.0, -1.0])
def test_sums_with_other_numbers_stay(number: float):
    assert of_points(lambda fd, x: fd.ops.erf(x) + number) == ["erf", "add"]


def test_float64_stays():
    assert "erf" in of_points(gelu, torch.float64)


def test_sweeps_of_rows_have_it_too():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return gelu(fd, x) / fd.ops.sum(gelu(fd, x), [1], keepdim=True)

    body = rewrite_alike(body_of(define, torch.empty(20, 30)), join_sums_with_one)
    assert ["erf_plus_one" in calls(sweep.code) for sweep in body.stages] == [True, True]


@pytest.mark.parametrize("define", [gelu, gelu_by_tanh])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_numbers_are_the_oracles(dtype: torch.dtype, define: Define):
    x = torch.cat([torch.linspace(-15, 15, 4001), torch.tensor([torch.inf, torch.nan])]).to(dtype)
    fd = defined(define, x)
    agrees(fd, [x], "emulator")
