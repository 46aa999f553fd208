"""Pools of images [..., depth, height, width], and what of pools is torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere

from fuser.integrations import dynamo
from fuser.ir.nodes import Fusion
from fuser.runtime.plans.plan import Plan
from fuser.runtime.plans.watching import PLANS
from tests.covering import more

Pool = Callable[..., Any]


def results(pool: Pool, x: torch.Tensor) -> list[torch.Tensor]:
    """What a pool gives, its places too where it has them, and the gradient."""
    given = x.detach().clone().requires_grad_()
    made = pool(given)
    made = list(made) if isinstance(made, tuple) else [made]
    weights = torch.linspace(-1, 1, made[0].numel()).view(made[0].shape).to(x.dtype)
    gradient = torch.autograd.grad(made[0], given, weights)
    return [each.detach() for each in (*made, *gradient)]


def assert_pooled(pool: Pool, x: torch.Tensor, wanted: list[torch.Tensor] | None = None) -> None:
    """The numbers of eager, lying as they do there, and all of them in partitions."""
    dynamo.clear_reports()
    wanted = results(pool, x) if wanted is None else wanted
    found = results(torch.compile(pool, backend="fuser", dynamic=False), x)
    half = x.dtype is torch.bfloat16
    rounding = {"rtol": 1e-2, "atol": 1e-2} if half else {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(found, wanted, **rounding, equal_nan=True)
    assert [each.stride() for each in found] == [each.stride() for each in wanted]
    assert {report.percent for report in dynamo.reports()} == {100.0}


def left(pool: Pool, x: torch.Tensor) -> list[tuple[str, str]]:
    """What of a pool and its gradient is torch's, and why; the numbers are eager's."""
    dynamo.clear_reports()
    found = results(torch.compile(pool, backend="fuser"), x)
    torch.testing.assert_close(found, results(pool, x))
    entries = [entry for report in dynamo.reports() for entry in report.uncovered]
    return [(entry.overload, entry.reason) for entry in entries]


def volume(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Few numbers, many of them equal, some that are none, and a channel of the least."""
    x = torch.randint(-2, 3, sizes).to(dtype)
    x[0, 0, ::2, ::3, ::4] = torch.nan
    x[-1, -1] = -torch.inf
    return x


def with_places(**options: Any) -> Pool:
    return lambda x: F.max_pool3d(x, **options, return_indices=True)


POOLED: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": (1, 2, 3)},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (3, 2, 1), "stride": (1, 3, 2), "padding": (1, 0, 0)},
    {"kernel_size": (2, 3, 2), "stride": (2, 2, 3), "padding": (1, 1, 0), "ceil_mode": True},
    {"kernel_size": (2, 4, 2), "stride": (3, 5, 3), "padding": (0, 2, 1), "ceil_mode": True},
    {"kernel_size": (2, 1, 5), "stride": (2, 1, 40), "padding": (1, 0, 0), "ceil_mode": True},
]
PLANES = {"kernel_size": (1, 3, 3), "stride": (1, 2, 2), "padding": (0, 1, 1)}


@pytest.mark.parametrize("batch", [[2], []], ids=str)
@pytest.mark.parametrize("options", [*POOLED, *more(PLANES)])
def test_largest_elements_of_volumes_and_their_places(
    options: dict[str, Any], batch: list[int]
) -> None:
    x = volume(*batch, 3, 6, 9, 11) if batch else torch.randn(3, 6, 9, 11)
    assert_pooled(with_places(**options), x)


OVERLAPPING = {"kernel_size": 3, "stride": 1, "padding": 1}
COUNTED: list[dict[str, Any]] = [
    {"count_include_pad": True},
    {"count_include_pad": False},
    {"divisor_override": 5},
]
"""What sums are divided by: the windows' sizes, their elements, or a number that is given."""


@pytest.mark.parametrize("counted", COUNTED)
@pytest.mark.parametrize("options", [*POOLED, *more(PLANES, OVERLAPPING)])
def test_means_of_volumes(options: dict[str, Any], counted: dict[str, Any]) -> None:
    x = torch.randn(2, 3, 6, 9, 11)
    assert_pooled(lambda x: F.avg_pool3d(x, **options, **counted), x)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": (6, 9, 11)},
        {"kernel_size": (2, 9, 11), "stride": 1},
        {"kernel_size": (3, 4, 5), "padding": (1, 2, 2), "count_include_pad": False},
        {"kernel_size": (3, 9, 2), "stride": (1, 9, 2), "ceil_mode": True},
    ],
)
def test_means_of_large_volumes_side_by_side(options: dict[str, Any]) -> None:
    assert_pooled(lambda x: F.avg_pool3d(x, **options) * 2, torch.randn(2, 6, 9, 11))


SHARED = [
    lambda x: F.adaptive_avg_pool3d(x, (2, 4, 3)),
    lambda x: F.adaptive_avg_pool3d(x, (4, 8, 12)),
    lambda x: F.adaptive_avg_pool3d(x, (1, 2, 1)),
    lambda x: F.adaptive_max_pool3d(x, (2, 4, 6), return_indices=True),
    lambda x: F.adaptive_max_pool3d(x, (4, 8, 12), return_indices=True),
    lambda x: F.adaptive_max_pool3d(x, 1, return_indices=True),
]
"""Pools that are given how many windows there are; of images of 4 by 8 by 12, of one size."""


LARGE: list[dict[str, Any]] = [
    {"kernel_size": (1, 7), "stride": 1, "padding": (0, 3)},
    {"kernel_size": 7, "stride": 2, "padding": 3},
    {"kernel_size": (9, 4), "stride": (2, 1), "padding": (4, 2), "ceil_mode": True},
]
LARGER = {"kernel_size": 13, "stride": 1, "padding": 6}
DILATED: list[dict[str, Any]] = [
    {"kernel_size": 2, "dilation": 2},
    {"kernel_size": 3, "stride": 1, "padding": 1, "dilation": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 3},
    {"kernel_size": (3, 2), "stride": (2, 3), "padding": (1, 0), "dilation": (5, 1)},
    {"kernel_size": (2, 3), "stride": 5, "padding": 1, "dilation": (9, 6), "ceil_mode": True},
]
MORE_DILATED = {**DILATED[-1], "kernel_size": (4, 3), "stride": 2, "dilation": (1, 4)}


def image(*sizes: int) -> torch.Tensor:
    return volume(*sizes[:2], 1, *sizes[2:]).squeeze(2)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("options", [*LARGE, *DILATED, *more(LARGER, MORE_DILATED)])
def test_largest_elements_of_large_and_of_dilated_windows_and_their_places(
    options: dict[str, Any], channels_last: bool
) -> None:
    order = torch.channels_last if channels_last else torch.contiguous_format
    x = image(2, 3, 15, 17).contiguous(memory_format=order)
    assert_places_are_torchs(x, options, dynamic=False)


@pytest.mark.parametrize("options", [LARGE[0], DILATED[1], *more(LARGE[1], DILATED[3])])
def test_large_and_dilated_windows_of_images_of_any_size(options: dict[str, Any]) -> None:
    assert_places_are_torchs(image(2, 3, 15, 17), options, dynamic=True)


def assert_places_are_torchs(x: torch.Tensor, options: dict[str, Any], *, dynamic: bool) -> None:
    def pool(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.max_pool2d(x, **options, return_indices=True)

    dynamo.clear_reports()
    compiled = torch.compile(pool, backend="fuser", dynamic=dynamic)
    found = compiled(x)
    torch.testing.assert_close(found, pool(x), rtol=0, atol=0, equal_nan=True)
    assert [each.stride() for each in found] == [each.stride() for each in pool(x)]
    assert [report.percent for report in dynamo.reports()] == [100.0]
    torch.testing.assert_close(results(compiled, x), results(pool, x), equal_nan=True)


@pytest.mark.parametrize("with_padding", [True, False])
@pytest.mark.parametrize("options", [*LARGE, *more(LARGER)])
def test_means_of_large_windows(options: dict[str, Any], with_padding: bool) -> None:
    options = {**options, "count_include_pad": with_padding}
    assert_pooled(lambda x: F.avg_pool2d(x, **options) * 2, torch.randn(2, 3, 15, 17))


@pytest.mark.parametrize("dilation", [1, 2, *more((1, 2, 3))])
def test_largest_elements_of_large_volumes(dilation: Any) -> None:
    options = {"kernel_size": (3, 5, 4), "stride": 1, "padding": (1, 2, 2), "dilation": dilation}
    x = volume(2, 3, 6, 9, 11)
    found = torch.compile(with_places(**options), backend="fuser")(x)
    wanted = with_places(**options)(x)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("options", [{"dilation": 3}, {"stride": 1, "padding": 4}])
def test_largest_elements_along_one_dimension(options: dict[str, Any]) -> None:
    def pool(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.max_pool1d(x, 9, **options, return_indices=True)

    x = image(2, 3, 1, 101).squeeze(2)
    found = torch.compile(pool, backend="fuser")(x)
    torch.testing.assert_close(found, pool(x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_where_windows_begin_is_told_where_places_are_compared(dtype: torch.dtype) -> None:
    """No kernel makes a table of it."""
    plans: list[Plan] = []

    def add(_: Fusion, plan: Plan) -> None:
        plans.append(plan)

    with PLANS.watching(add):
        results(
            torch.compile(lambda x: F.max_pool2d(x, 3, 2, 1), backend="fuser"),
            torch.randn(16, 64, 56, 56, dtype=dtype),
        )
    assert [len(plan.kernels) for plan in plans][-1:] == [1]


@pytest.mark.alone
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("pool", SHARED)
def test_so_many_volumes(pool: Pool, dtype: torch.dtype, channels_last: bool) -> None:
    order = torch.channels_last_3d if channels_last else torch.contiguous_format
    assert_pooled(pool, volume(2, 3, 4, 8, 12, dtype=dtype).contiguous(memory_format=order))


@pytest.mark.parametrize("pool", [F.avg_pool3d, with_places])
@pytest.mark.parametrize("order", [(0, 4, 1, 2, 3), (3, 4, 0, 1, 2), (4, 3, 2, 1, 0)])
@pytest.mark.parametrize("kernel", [2, (1, 3, 2)])
def test_volumes_that_lie_otherwise_lie_as_torchs(
    pool: Any, order: tuple[int, ...], kernel: Any
) -> None:
    shape = [(2, 4, 6, 7, 5)[order.index(dim)] for dim in range(5)]
    x = torch.randn(shape).permute(order)
    assert_pooled(with_places(kernel_size=kernel) if pool is with_places else pool_of(kernel), x)


def pool_of(kernel: Any) -> Pool:
    return lambda x: F.avg_pool3d(x, kernel)


@pytest.mark.parametrize("options", [*POOLED[:4], *more(PLANES)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_largest_elements_of_16_bits(options: dict[str, Any], channels_last: bool) -> None:
    order = torch.channels_last_3d if channels_last else torch.contiguous_format
    x = volume(2, 3, 6, 9, 11, dtype=torch.bfloat16).contiguous(memory_format=order)
    if channels_last:
        x[-1, -1] = 0  # of windows of -inf only, eager has places in the first layer, wherever
    if options["kernel_size"] == 3:
        reasons = left(with_places(**options), x.nan_to_num(0, 0, 0))
        assert [reason.startswith("its windows") for _, reason in reasons] == [True, True]
    else:
        assert_pooled(with_places(**options), x)


def test_means_of_16_bits_which_eager_has_on_no_processor() -> None:
    def pool(x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool3d(x, **PLANES)

    x = torch.randn(2, 3, 6, 9, 11).bfloat16()
    wanted = [each.bfloat16() for each in results(pool, x.float())]
    assert_pooled(pool, x, wanted)


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.avg_pool3d(x, 2),
        with_places(kernel_size=2),
        lambda x: F.adaptive_avg_pool3d(x, 2),
    ],
)
def test_no_volumes(pool: Pool) -> None:
    x = torch.randn(0, 3, 4, 6, 8)
    found = torch.compile(pool, backend="fuser", dynamic=False)(x)
    torch.testing.assert_close(found, pool(x))


@pytest.mark.parametrize(
    ("pool", "rank"),
    [
        (F.adaptive_max_pool1d, 1),
        (F.adaptive_max_pool2d, 2),
        (F.adaptive_max_pool3d, 3),
    ],
)
def test_the_largest_of_images_of_any_size(pool: Pool, rank: int) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return pool(x.sin(), 1, return_indices=True)

    dynamo.clear_reports()
    compiled = torch.compile(function, backend="fuser", dynamic=True)
    for sizes in ((2, 3, 7, 8, 9), (4, 3, 6, 9, 5)):
        x = torch.randn(sizes[: 2 + rank])
        torch.testing.assert_close(results(compiled, x), results(function, x))
    assert [report.percent for report in dynamo.reports()] == [100.0, 100.0]


@pytest.mark.parametrize("dynamic", [None, *more(True)])
def test_volumes_of_any_size(dynamic: bool | None) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        padded = {"stride": 2, "padding": (0, 1, 1)}
        means = F.avg_pool3d(x, (1, 2, 2), **padded, ceil_mode=True, count_include_pad=False)
        largest = F.max_pool3d(x.square(), (1, 3, 2), **padded)
        return means.sum() * 2, largest

    dynamo.clear_reports()
    compiled = torch.compile(function, backend="fuser", dynamic=dynamic)
    for sizes in ((2, 3, 6, 9, 11), (3, 4, 8, 7, 5), (5, 3, 4, 11, 7)):
        x = torch.randn(sizes, requires_grad=True)
        (wanted, found) = (run(x) for run in (function, compiled))
        torch.testing.assert_close(found, wanted)
        gradients = [
            torch.autograd.grad(each[0] + each[1].square().sum(), x) for each in (wanted, found)
        ]
        torch.testing.assert_close(gradients[1], gradients[0])
    assert not [entry for report in dynamo.reports() for entry in report.uncovered]


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool3d(x, 4, 3),
        lambda x: F.avg_pool3d(x, 4, 3),
        lambda x: F.max_pool3d(x, (8, 8, 17), (3, 1, 1), (4, 4, 8)),
        lambda x: F.adaptive_avg_pool3d(x, 3),
        lambda x: F.adaptive_max_pool3d(x, 3),
        lambda x: F.adaptive_max_pool3d(x, 2),
    ],
)
def test_other_volumes_are_torchs_and_say_why(pool: Pool) -> None:
    forward, backward = left(pool, torch.randn(2, 3, 8, 8, 10))
    assert forward[1].startswith("its windows")
    assert backward[1].startswith("its windows")


@pytest.mark.parametrize(
    ("pool", "sizes"),
    [
        (lambda x: F.max_pool1d(x, 5, 1, 2, return_indices=True), (3, 40)),
        (lambda x: F.max_pool2d(x, 3, 1, 1), (3, 9, 11)),
        (lambda x: F.max_pool2d(x, 3, 1, 1, dilation=2), (2, 3, 9, 11)),
        (lambda x: F.max_pool2d(x, 5, 2, 2, ceil_mode=True, return_indices=True), (2, 3, 9, 11)),
        (lambda x: F.max_pool3d(x, 3, 1, 1, return_indices=True), (2, 3, 6, 9, 11)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_many_windows_are_added_at_their_places(
    pool: Pool, sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = torch.randint(-2, 3, sizes).to(dtype)
    x[0, ::2] = torch.nan
    wanted = results(pool, x.float())  # torch rounds each sum to 16 bits
    *made, gradient = wanted
    integers = [each if each.dtype is torch.int64 else each.to(dtype) for each in made]
    assert_pooled(pool, x, [*integers, gradient.to(dtype)])


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, 2, dilation=2),
        lambda x: F.max_pool2d(x, 5, (3, 2), 2),
        lambda x: F.max_pool2d(x.to(memory_format=torch.channels_last), 3, 1, 1),
    ],
    ids=["with gaps", "far apart", "channels innermost"],
)
def test_gradients_of_windows_that_torch_adds_sooner_are_its_own(pool: Pool) -> None:
    ((overload, reason),) = left(pool, torch.randn(2, 3, 9, 11))
    assert "_backward" in overload
    assert reason.endswith("strides above 2, its elements are in more than 4 of them")


def test_gradients_of_windows_that_are_no_code_may_be() -> None:
    ((overload, _),) = left(lambda x: F.max_pool2d(x, 17, 1, 8), torch.randn(2, 3, 20, 20))
    assert "_backward" not in overload


def test_definitions_of_pools_pad_by_something_and_end_at_sizes() -> None:
    dynamo.clear_reports()
    x = torch.randn(2, 3, 9, 9)
    results(torch.compile(lambda x: F.max_pool2d(x, 3) * 2, backend="fuser", dynamic=False), x)
    text = "".join(str(call.definition) for each in dynamo.reports() for call in each.partitions)
    assert "pad_widths=[0, 0, 0, 0, 0, 0, 0, 0]" not in text
    assert "end_indices=[2, 3, 9, 7]" in text
    assert str(2**63 - 1) not in text
