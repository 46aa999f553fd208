"""What the folds of a row say of its values, and that it is only used where it holds."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.body import Body, trace
from fuser.schedule.code.row_body import RowBody
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.facts import divide_by_inverses, use_facts
from fuser.schedule.tree.expressions import Call
from fuser.schedule.tree.statements import Let
from tests.definitions import Define, defined
from tests.row_functions import softmax
from tests.schedule.row_bodies import body_of, segment_of


def operations(define: Define, *inputs: torch.Tensor) -> list[str]:
    body = use_facts(arrange_rows(body_of(define, *inputs)))
    return calls(body)


def calls(body: RowBody) -> list[str]:
    code = [node for stage in body.stages for node in stage.code if isinstance(node, Let)]
    return [node.expression.op for node in code if isinstance(node.expression, Call)]


def test_a_softmax_divides_once_a_row():
    assert operations(softmax, torch.empty(20, 30)) == [
        *("sub", "exp_nonpositive"),
        *("reciprocal", "sub", "exp_nonpositive", "mul"),
    ]


def by_div(fd: FusionDefinition, x: Handle) -> list[Handle]:
    e = fd.ops.exp(x - fd.ops.max(x, [1], keepdim=True))
    return [fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True))]


def test_of_floats_div_is_a_quotient_too():
    assert operations(by_div, torch.empty(20, 30)) == operations(softmax, torch.empty(20, 30))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_what_only_became_wider_is_the_same_value(dtype: torch.dtype):
    found = operations(softmax, torch.empty(20, 30, dtype=dtype))
    assert found == operations(softmax, torch.empty(20, 30))


def test_a_softmax_in_float64_has_no_simpler_exponential():
    found = operations(softmax, torch.empty(20, 30, dtype=torch.float64))
    assert found == ["sub", "exp", "reciprocal", "sub", "exp", "mul"]


def shifted_by_the_least(fd: FusionDefinition, x: Handle) -> Handle:
    e = fd.ops.exp(x - fd.ops.min(x, [1], keepdim=True))
    return e / fd.ops.sum(e, [1], keepdim=True)


def shifted_by_another(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    e = fd.ops.exp(x - fd.ops.max(y, [1], keepdim=True))
    return e / fd.ops.sum(e, [1], keepdim=True)


def shifted_after_scaling(fd: FusionDefinition, x: Handle) -> Handle:
    e = fd.ops.exp(x * 2.0 - fd.ops.max(x, [1], keepdim=True))
    return e / fd.ops.sum(e, [1], keepdim=True)


def without_a_shift(fd: FusionDefinition, x: Handle) -> Handle:
    e = fd.ops.exp(x)
    return e / fd.ops.sum(e, [1], keepdim=True)


@pytest.mark.parametrize(
    ("define", "inputs"),
    [
        (shifted_by_the_least, 1),
        (shifted_by_another, 2),
        (shifted_after_scaling, 1),
        (without_a_shift, 1),
    ],
)
def test_nothing_is_taken_for_granted(define: Define, inputs: int):
    found = operations(define, *[torch.empty(20, 30)] * inputs)
    assert "truediv" in found
    assert not {"exp_nonpositive", "reciprocal"} & set(found)


def test_the_sum_of_other_powers_may_be_small():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        e = fd.ops.exp(x - fd.ops.max(x, [1], keepdim=True)) * 1e-40
        return e / fd.ops.sum(e, [1], keepdim=True)

    found = operations(define, torch.empty(20, 30))
    assert "exp_nonpositive" in found
    assert "truediv" in found


def test_largest_of_more_than_is_summed():
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        e = fd.ops.exp(x - fd.ops.max(x, [1, 2], keepdim=True))
        return [fd.ops.sum(e, [1, 2], keepdim=True), e / fd.ops.sum(e, [1, 2], keepdim=True)]

    assert "mul" in operations(define, torch.empty(20, 30, 40))


@pytest.mark.parametrize(
    "row",
    [
        [0.0, -87.3, -87.34, -104.0, -1e30, -torch.inf],
        [-torch.inf] * 6,
        [torch.inf, 1.0, 2.0, 3.0, -torch.inf, 0.0],
        [torch.nan, 1.0, 2.0, 3.0, -torch.inf, 0.0],
        [3e38, -3e38, 0.0, 1e-40, -1e-40, 1.0],
    ],
)
@pytest.mark.parametrize("columns", [6, 600])
@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_special_numbers_are_as_in_torch(row: list[float], columns: int, target: str):
    x = torch.tensor([row * (columns // 6), [1.0] * columns])
    fd = defined(softmax, x)
    got = fd.execute([x], target=target)[0]
    assert torch.allclose(got, torch.softmax(x, 1), rtol=1e-6, atol=2e-38, equal_nan=True)


def test_the_simpler_exponential_is_exact_where_it_counts():
    """Off by an ulp near 1, and by another for each factor of e^20."""
    x = -torch.linspace(0, 90, 1_000_003).reshape(1, -1)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.exp(t - fd.ops.max(t, [1], keepdim=True)))
        fd.add_output(fd.ops.cast(fd.ops.max(t, [1]), DataType.Double))
    exact = torch.exp(x.double())
    off = (fd.execute([x])[0].double() - exact).abs()
    ulp = 2.0 ** (torch.frexp(exact).exponent.double() - 24)
    normal = exact >= 2.0**-126
    assert (off / ulp + 0.05 * x)[normal].max() <= 1.0
    assert off[~normal].max() < 2.0**-126


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_differences_that_contraction_makes_positive_do_no_harm(target: str):
    # T1 = max(3 T0) is rounded; 3 T0 - T1 may be one fused operation, and then exceeds 0
    x = torch.full((4, 600), 1.1e9)
    x[:, 300:] = -1.0
    with FusionDefinition() as fd:
        scaled = fd.from_pytorch(x) * 3.3333
        e = fd.ops.exp(scaled - fd.ops.max(scaled, [1], keepdim=True))
        fd.add_output(e / fd.ops.sum(e, [1], keepdim=True))
    got = fd.execute([x], target=target)[0]
    assert torch.allclose(got, torch.softmax(x * 3.3333, 1), rtol=1e-5)


# -- divisors that are one for the row -----------------------------------------------------------


def by_the_largest(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    return x / fd.ops.max(y, [1], keepdim=True)


def test_a_quotient_by_a_number_of_the_row_is_a_corrected_product():
    body = arrange_rows(body_of(by_the_largest, torch.empty(20, 30), torch.empty(20, 30)))
    once = ["divisor_scale", "mul", "reciprocal"]
    assert calls(use_facts(body, by_inverse=True)) == [*once, "quotient_of_scaled"]
    assert calls(use_facts(body)) == ["truediv"]


def test_a_quotient_that_a_row_has_once_stays():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return x - fd.ops.sum(x, [1], keepdim=True) / fd.ops.max(x, [1], keepdim=True)

    body = arrange_rows(body_of(define, torch.empty(20, 30)))
    assert calls(use_facts(body, by_inverse=True)) == ["truediv", "sub"]


def test_quotients_of_float64_stay():
    wide = torch.empty(20, 30, dtype=torch.float64)
    body = arrange_rows(body_of(by_the_largest, wide, wide))
    assert calls(use_facts(body, by_inverse=True)) == ["truediv"]


def quotients(x: torch.Tensor, divisors: torch.Tensor) -> torch.Tensor:
    """Of each row by its divisor, as CUDA computes them."""
    y = divisors[:, None].expand_as(x).contiguous()
    with FusionDefinition() as fd:
        fd.add_output(by_the_largest(fd, fd.from_pytorch(x), fd.from_pytorch(y)))
    (kernel,) = fd.plan([x, y], target="emulator").kernels
    assert "quotient_of_scaled(" in kernel.source
    return fd.execute([x, y], target="emulator")[0]


def test_corrected_quotients_are_those_of_a_division():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2000, 512, generator=generator) * torch.logspace(-25, 25, 512)
    divisors = torch.randn(2000, generator=generator).abs() * torch.logspace(-10, 10, 2000)
    assert torch.equal(quotients(x, divisors), x / divisors[:, None])
    near = 1.0 + torch.arange(2000) * 2.0**-23  # products are furthest off between 1 and 2
    x = 2.0 - torch.rand(2000, 512, generator=generator) * 2.0**-12
    assert torch.equal(quotients(x, near), x / near[:, None])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_quotients_by_extreme_divisors(sign: float):
    sizes = (0.0, 1e-45, 1e-40, 2.0**-127, 2.0**-126, 2.0**-65, 2.0**65, 2.0**126, 3e38, torch.inf)
    divisors = sign * torch.tensor([*sizes, torch.nan])
    edges = torch.tensor([0.0, 1e-45, 1e-40, 1e-38, 1.0, 3e38, torch.inf, torch.nan])
    spread = torch.logspace(-44, 38, 500)
    x = torch.cat([edges, -edges, spread, -spread]).expand(len(divisors), -1).contiguous()
    got, expected = quotients(x, divisors), x / divisors[:, None]
    assert torch.equal(got.isnan(), expected.isnan())
    large = expected.abs() >= 2.0**-126
    exact = large & ((x.abs() >= 2.0**-100) | expected.isinf())
    assert torch.equal(got[exact], expected[exact])
    assert torch.allclose(got[large], expected[large], rtol=2.0**-22, atol=0.0)
    rest = ~large & ~expected.isnan()
    assert (got - expected)[rest].abs().max() <= 2.0**-149
    assert torch.equal(got[rest].signbit(), expected[rest].signbit())


# -- divisors that are one for all rows ----------------------------------------------------------


def by_the_number_of_rows(fd: FusionDefinition, x: Handle) -> Handle:
    rows = fd.ops.cast(x.shape()[0], DataType.Float)
    return fd.ops.exp(x - fd.ops.max(x, [1], keepdim=True)) / rows


def test_a_quotient_by_a_scalar_is_a_corrected_product():
    body = arrange_rows(body_of(by_the_number_of_rows, torch.empty(20, 30)))
    assert calls(use_facts(body, by_inverse=True))[-1] == "quotient_of_scaled"
    assert calls(use_facts(body))[-1] == "truediv"


def points(define: Define, *inputs: torch.Tensor) -> Body:
    return divide_by_inverses(trace(segment_of(define, *inputs)))


def in_points(define: Define, *inputs: torch.Tensor) -> list[str]:
    lets = points(define, *inputs).lets
    return [let.expression.op for let in lets if isinstance(let.expression, Call)]


def test_points_divide_by_a_scalar_once_a_thread():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return x / fd.ops.cast(x.shape()[0], DataType.Float)

    made = points(define, torch.empty(20, 30)).prologue
    assert [let.name.partition("_")[2] for let in made[-3:]] == ["scale", "scaled", "inverse"]
    assert in_points(define, torch.empty(20, 30)) == ["quotient_of_scaled"]


@pytest.mark.parametrize("number", [0.9, -3.0, 1e-30, 3e30])
def test_a_quotient_by_a_number_of_the_text_is_a_corrected_product(number: float):
    assert in_points(lambda _, x: x / number, torch.empty(20)) == ["quotient_of_scaled"]


@pytest.mark.parametrize("number", [8.0, -0.25, 0.0, float("inf"), float("nan")])
def test_a_quotient_by_a_power_of_two_or_no_number_stays(number: float):
    assert "quotient_of_scaled" not in in_points(lambda _, x: x / number, torch.empty(20))


@pytest.mark.parametrize("number", [0.9, -3.0, 11.313708, 1e-30, 3e30])
def test_quotients_by_numbers_of_the_text_have_the_bits_of_a_division(number: float):
    exponents = torch.randint(-60, 60, (4096,))
    x = torch.ldexp(torch.randn(4096), exponents)
    x = torch.cat([x, torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan])])
    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(x) / number)
    (got,) = fd.execute([x], target="emulator")
    torch.testing.assert_close(got, x / torch.tensor(number), rtol=0, atol=0, equal_nan=True)
