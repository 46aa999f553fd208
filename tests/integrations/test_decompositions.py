"""What tracing replaces by other operations: the same numbers, and in partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere

from fuser.integrations import dynamo
from fuser.integrations.rewrites.known_places import Piece, pieces_of

aten: Any = torch.ops.aten


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([3], [Piece(3, 1, 1, 1)]),
        ([0, 1, 2, 3], [Piece(0, 1, 4, 1)]),
        ([7, 5, 3], [Piece(7, -2, 3, 1)]),
        ([0, 0, 1, 1, 2, 2], [Piece(0, 1, 3, 2)]),
        ([4, 4, 4], [Piece(4, 1, 1, 3)]),
        ([2, 1, 0, 1, 2, 3, 2], [Piece(2, -1, 2, 1), Piece(0, 1, 4, 1), Piece(2, 1, 1, 1)]),
        ([3, 0, 1, 2], [Piece(3, 1, 1, 1), Piece(0, 1, 3, 1)]),
        ([0, 0, 0, 1, 1, 2, 2, 3], [Piece(0, 1, 1, 3), Piece(1, 1, 2, 2), Piece(3, 1, 1, 1)]),
    ],
)
def test_places_are_pieces(places: list[int], expected: list[Piece]) -> None:
    found = pieces_of(places)
    assert found == expected
    assert [
        piece.first + number * piece.step
        for piece in found
        for number in range(piece.count)
        for _ in range(piece.repeats)
    ] == places


def test_no_places_and_too_many_pieces_stay_an_index() -> None:
    assert pieces_of([]) is None
    assert pieces_of([n * n % 23 for n in range(23)]) is None


def forward_and_backward(function: Callable[..., torch.Tensor], x: torch.Tensor) -> None:
    """Compares with eager, and asserts that partitions have all of it."""
    dynamo.clear_reports()
    results: list[list[torch.Tensor]] = []
    for run in (function, torch.compile(function, backend="fuser")):
        given = x.detach().clone().requires_grad_()
        y = run(given)
        weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
        (grad,) = torch.autograd.grad((y * weights).sum(), given)
        results.append([y.detach(), grad])
        assert run is function or y.stride() == results[0][0].stride()
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert [report.percent for report in dynamo.reports()] == [100.0, 100.0]


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pads_that_copy_elements_and_their_gradients(mode: str, rank: int) -> None:
    x = torch.randn(2, 3, *(5 + number for number in range(rank)))
    widths = [1, 2, 3, 0, 0, 2][: 2 * rank]
    forward_and_backward(lambda x: F.pad(x, widths, mode=mode) * 1.5, x)


@pytest.mark.parametrize(
    "options", [{"scale_factor": 2.0}, {"scale_factor": 3.0}, {"size": (7, 9)}]
)
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_resized_images(mode: str, options: dict[str, Any]) -> None:
    x = torch.randn(2, 3, 5, 6)
    forward_and_backward(lambda x: F.interpolate(x, mode=mode, **options) * 1.5, x)


def test_resized_images_read_no_index() -> None:
    texts: list[str] = []
    run = torch.compile(lambda x: F.interpolate(x, scale_factor=2.0) + 1, backend="fuser")
    run(torch.randn(2, 3, 8, 8))
    for report in dynamo.reports():
        texts += [str(part.definition) for part in report.partitions]
    assert texts
    assert not any("index" in text for text in texts)


def lists() -> list[list[torch.Tensor]]:
    """Three lists of two tensors, all positive."""
    torch.manual_seed(0)
    return [[torch.rand(3, 4) + 0.5, torch.rand(5) + 0.5] for _ in range(3)]


FOREACH: list[Callable[..., Sequence[torch.Tensor]]] = [
    lambda x, y, z: torch._foreach_add(x, 2),
    lambda x, y, z: torch._foreach_add(x, [2.0, 3.0]),
    lambda x, y, z: torch._foreach_add(x, y, alpha=0.5),
    lambda x, y, z: torch._foreach_add(x, y[0].sum(), alpha=0.5),
    lambda x, y, z: torch._foreach_sub(x, y, alpha=2),
    lambda x, y, z: torch._foreach_mul(x, y[0].sum()),
    lambda x, y, z: torch._foreach_div(x, y),
    lambda x, y, z: torch._foreach_lerp(x, y, 0.1),
    torch._foreach_lerp,
    lambda x, y, z: torch._foreach_addcmul(x, y, z, value=0.5),
    lambda x, y, z: torch._foreach_addcmul(x, y, z, [0.5, 0.25]),
    lambda x, y, z: torch._foreach_addcdiv(x, y, z, -0.5),
    lambda x, y, z: torch._foreach_pow(x, 2.0),
    lambda x, y, z: torch._foreach_pow(2.0, x),
    lambda x, y, z: torch._foreach_pow(x, y),
    lambda x, y, z: torch._foreach_maximum(x, 0.9),
    lambda x, y, z: torch._foreach_minimum(x, y),
    lambda x, y, z: torch._foreach_clamp_max(x, [0.9, 1.0]),
    lambda x, y, z: torch._foreach_norm(x),
    lambda x, y, z: torch._foreach_norm(x, 1, dtype=torch.float64),
    lambda x, y, z: torch._foreach_sqrt(torch._foreach_neg(torch._foreach_neg(x))),
]


def test_operations_on_lists_are_those_on_each_tensor() -> None:
    def results(*given: list[torch.Tensor]) -> list[tuple[torch.Tensor, ...]]:
        return [tuple(function(*given)) for function in FOREACH]

    found = torch.compile(results, backend="fuser")(*lists())
    torch.testing.assert_close(found, results(*lists()))
    assert [report.percent for report in dynamo.reports()] == [100.0]


def test_an_optimizer_on_lists_updates_its_parameters() -> None:
    def trained(step: Callable[[torch.optim.Optimizer], Callable[[], Any]]) -> list[torch.Tensor]:
        torch.manual_seed(1)
        parameters = [torch.nn.Parameter(torch.randn(size)) for size in ((4, 5), (6,))]
        optimizer = torch.optim.AdamW(parameters, lr=0.1, foreach=True)
        run = step(optimizer)
        for _ in range(3):
            for parameter in parameters:
                parameter.grad = parameter.detach().cos()
            run()
        return [parameter.detach() for parameter in parameters]

    theirs = trained(lambda optimizer: optimizer.step)
    ours = trained(lambda optimizer: torch.compile(optimizer.step, backend="fuser"))
    torch.testing.assert_close(ours, theirs)


POOLED = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "stride": 1, "padding": 1},
    {"kernel_size": (2, 3), "stride": (3, 1)},
    {"kernel_size": (3, 2), "stride": 2, "padding": (1, 0)},
    {"kernel_size": 2, "stride": 3},
]


CUT = [
    {"kernel_size": 2, "stride": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (4, 2), "stride": (5, 3), "padding": (2, 1)},
    {"kernel_size": (3, 5), "stride": (4, 7), "padding": (0, 2)},
    {"kernel_size": (2, 5), "stride": (2, 40), "padding": (1, 0)},
]
"""Of an image of 9 by 11, `ceil_mode` cuts the last window, but of the last width."""


@pytest.mark.parametrize("options", CUT)
def test_largest_elements_of_windows_that_are_cut(options: dict[str, Any]) -> None:
    options = {**options, "ceil_mode": True}
    forward_and_backward(lambda x: F.max_pool2d(x, **options), torch.randn(2, 9, 11))


@pytest.mark.parametrize("divisor", [None, 5])
@pytest.mark.parametrize("with_padding", [True, False])
@pytest.mark.parametrize("ceil_mode", [True, False])
@pytest.mark.parametrize("options", CUT)
def test_means_of_windows_that_may_be_cut(
    options: dict[str, Any], ceil_mode: bool, with_padding: bool, divisor: int | None
) -> None:
    options = {**options, "ceil_mode": ceil_mode, "count_include_pad": with_padding}
    forward_and_backward(
        lambda x: F.avg_pool2d(x, **options, divisor_override=divisor), torch.randn(2, 9, 11)
    )


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": (9, 11)},
        {"kernel_size": (9, 11), "stride": 1},
        {"kernel_size": (9, 40), "stride": 40, "ceil_mode": True},
        {"kernel_size": (10, 8), "stride": 50, "padding": (5, 3), "count_include_pad": False},
        {"kernel_size": (6, 5), "padding": 2, "ceil_mode": True},
        {"kernel_size": (30, 2), "stride": (30, 1), "ceil_mode": True},
        {"kernel_size": (2, 20), "stride": (1, 20), "ceil_mode": True},
    ],
)
def test_means_of_large_windows_side_by_side(options: dict[str, Any]) -> None:
    forward_and_backward(lambda x: F.avg_pool2d(x, **options) * 2, torch.randn(2, 9, 11))


@pytest.mark.parametrize("size", [(2, 3), (1, 12), (8, 1)])
def test_adaptive_means_of_windows_of_one_size(size: tuple[int, int]) -> None:
    forward_and_backward(lambda x: F.adaptive_avg_pool2d(x, size) * 2, torch.randn(2, 3, 8, 12))


@pytest.mark.parametrize("size", [(1, 1), (4, 4), (8, 12)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_adaptive_maxima_of_windows_of_one_size(size: tuple[int, int], dtype: torch.dtype) -> None:
    """The first of equal elements, the last that is no number, and where channels are last."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.adaptive_max_pool2d(x, size, return_indices=True)

    compiled = torch.compile(function, backend="fuser", dynamic=False)
    x = torch.randint(0, 3, (2, 3, 8, 12)).to(dtype)
    x[0, 0, ::3, ::4] = torch.nan
    x[1] = -torch.inf
    for image in (x, x.to(memory_format=torch.channels_last), x[0], torch.randn_like(x)):
        given = [image.detach().clone().requires_grad_() for _ in range(2)]
        results = [run(each) for run, each in zip((function, compiled), given, strict=True)]
        wanted, found = ([each.detach() for each in result] for result in results)
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
        assert [each.stride() for each in found] == [each.stride() for each in wanted]
        weights = torch.randn_like(wanted[0])
        gradients = [
            torch.autograd.grad(largest, each, weights)[0]
            for (largest, _), each in zip(results, given, strict=True)
        ]
        torch.testing.assert_close(gradients[1], gradients[0])
        assert gradients[1].stride() == gradients[0].stride()
    assert {report.percent for report in dynamo.reports()} == {100.0}


@pytest.mark.parametrize("options", POOLED)
@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d])
def test_pools_and_their_gradients(pool: Any, options: dict[str, Any]) -> None:
    forward_and_backward(lambda x: pool(x, **options), torch.randn(2, 3, 9, 11))


@pytest.mark.parametrize("order", [(0, 3, 1, 2), (3, 2, 1, 0)])
@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d])
def test_pools_of_images_that_lie_otherwise_lie_as_torchs(
    pool: Any, order: tuple[int, ...]
) -> None:
    shape = [(2, 4, 6, 8)[order.index(dim)] for dim in range(4)]
    forward_and_backward(lambda x: pool(x, 2), torch.randn(shape).permute(order))


@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d])
def test_pools_of_batches_of_any_size(pool: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return pool(x.square(), kernel_size=3, stride=2, padding=1)

    compiled = torch.compile(function, backend="fuser")
    for batch in (2, 3, 5):
        x = torch.randn(batch, 3, 9, 11, requires_grad=True)
        (wanted,) = torch.autograd.grad(function(x).square().sum(), x)
        (got,) = torch.autograd.grad(compiled(x).square().sum(), x)
        torch.testing.assert_close(got, wanted)
    reports = dynamo.reports()
    assert len(reports) == 4, reports
    assert not [entry for report in reports for entry in report.uncovered]


def test_averages_without_padding_and_with_another_divisor() -> None:
    x = torch.randn(3, 9, 8)
    options: dict[str, Any] = {"kernel_size": 3, "stride": 2, "padding": 1}
    forward_and_backward(lambda x: F.avg_pool2d(x, **options, count_include_pad=False), x)
    forward_and_backward(lambda x: F.avg_pool2d(x, **options, divisor_override=5), x)


@pytest.mark.parametrize("options", POOLED)
def test_the_places_of_the_largest_elements_are_torchs(options: dict[str, Any]) -> None:
    x = torch.randint(0, 3, (2, 3, 9, 11)).float()
    x[0, 0, ::3, ::4] = torch.nan
    x[1] = -torch.inf

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.max_pool2d(x, **options, return_indices=True)

    found = torch.compile(function, backend="fuser")(x)
    torch.testing.assert_close(found, function(x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, 40),
        lambda x: F.max_pool2d(x, 7, stride=4),
        lambda x: F.avg_pool2d(x, 7, stride=4),
        lambda x: F.avg_pool2d(x, 17, stride=2),
        lambda x: F.adaptive_avg_pool2d(x, 7),
        lambda x: F.adaptive_max_pool2d(x, 7),
        lambda x: F.adaptive_max_pool2d(x, 10),
    ],
)
def test_other_pools_are_torchs_and_say_why(pool: Callable[[torch.Tensor], torch.Tensor]) -> None:
    dynamo.clear_reports()
    x = torch.randn(1, 2, 40, 40)
    torch.testing.assert_close(torch.compile(pool, backend="fuser")(x), pool(x))
    (report,) = dynamo.reports()
    (left,) = report.uncovered
    assert left.reason.startswith("its windows")


def test_windows_whose_size_is_not_known_are_torchs() -> None:
    dynamo.clear_reports()
    x = torch.randn(1, 2, 12, 14)
    compiled = torch.compile(lambda x: F.adaptive_avg_pool2d(x, 2), backend="fuser", dynamic=True)
    torch.testing.assert_close(compiled(x), F.adaptive_avg_pool2d(x, 2))
    (report,) = dynamo.reports()
    (left,) = report.uncovered
    assert left.reason.startswith("its image's size is not known before the call")


def test_infinite_complex_numbers_are_replaced_by_torch_and_real_ones_in_partitions() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nan_to_num(x * 2, 1.5) + 1

    parts = torch.tensor([[1.0, float("nan")], [float("inf"), -2.0], [float("nan"), -float("inf")]])
    for x in (parts, torch.view_as_complex(parts)):
        torch._dynamo.reset()
        dynamo.clear_reports()
        torch.testing.assert_close(torch.compile(function, backend="fuser")(x), function(x))
        (report,) = dynamo.reports()
        assert any("nan_to_num" in e.overload for e in report.uncovered) == x.is_complex(), report


PLACE = torch.tensor(1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.index_select(x * 2, 1, PLACE) + 1,
        lambda x: torch.index_add(x * 2, 1, PLACE, x[:, :1] * 3),
        lambda x: torch.index_add(x * 2, -1, PLACE, x[:, :, :1], alpha=3),
        lambda x: torch.take(x * 2, PLACE),
        lambda x: torch.take(x * 2, torch.tensor([[3, -1], [0, 3]])),
        lambda x: torch.put(x * 2, torch.tensor([[3], [-1]]), x[:2, :1, 0]),
        lambda x: torch.put(x * 2, PLACE, x[0, 0, :1].view(()), accumulate=True),
    ],
)
def test_an_index_of_any_rank(function: Callable[..., torch.Tensor]) -> None:
    forward_and_backward(function, torch.randn(4, 3, 2))


def test_products_that_are_added_lie_row_after_row_as_torchs() -> None:
    first, second = torch.randn(2, 3, 5), torch.randn(2, 5, 4)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.baddbmm(x.permute(2, 1, 0).sin(), first, second).view(-1) * 2

    x = torch.randn(4, 3, 2)
    found = torch.compile(function, backend="fuser")(x)
    torch.testing.assert_close(found, function(x))


def test_what_has_no_dimensions_is_read_at_an_index() -> None:
    forward_and_backward(lambda x: torch.index_select(x * 2, 0, PLACE - 1), torch.randn(()))
    forward_and_backward(lambda x: torch.index_select(x, 0, torch.arange(1)) * 2, torch.randn(()))


def test_images_are_unpooled_as_they_lie() -> None:
    def unpooled(x: torch.Tensor) -> torch.Tensor:
        return F.max_unpool2d(x * 2, places, 2) + 1

    image = torch.randn(2, 3, 8, 6).contiguous(memory_format=torch.channels_last)
    smaller, places = F.max_pool2d(image, 2, return_indices=True)
    forward_and_backward(unpooled, smaller)
    forward_and_backward(unpooled, smaller.contiguous())


MATRICES = torch.randn(2, 3, 4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.complex(x, x.cos()).angle(),
        lambda x: torch.diag_embed(x, -2, 0, 1),
        lambda x: torch.diag_embed(x, 0, -1, 1),
        lambda x: torch.baddbmm(x, MATRICES, MATRICES.mT),
        lambda x: torch.masked_scatter(x, MATRICES[..., :3] > 0, MATRICES),
        lambda x: F.channel_shuffle(x[..., None], 3),
        lambda x: F.interpolate(x, 5),
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: F.batch_norm(x, MATRICES[0, :, 0], MATRICES[1, :, 0].exp()),
        F.logsigmoid,
        lambda x: torch.logaddexp(x[:, None], MATRICES[..., :3].mT),
        lambda x: torch.xlogy(MATRICES[..., :3], x.exp()),
        lambda x: F.avg_pool2d(x[..., None], 1),
        lambda x: F.avg_pool1d(x, 2, 1),
        lambda x: F.max_pool2d(x[..., None].expand(-1, -1, -1, 4), 2),
        lambda x: F.adaptive_avg_pool2d(x, (3, 1)),
    ],
)
def test_results_of_turned_tensors_lie_as_torchs(
    function: Callable[..., torch.Tensor],
) -> None:
    x = torch.randn(3, 3, 2).permute(2, 0, 1)
    for given in (x, x.contiguous(), x.mT.contiguous().mT):
        forward_and_backward(lambda x: function(x * 2) + 1, given)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
        lambda x: F.avg_pool2d(x, 3, 2),
        lambda x: F.adaptive_avg_pool2d(x, (4, 3)),
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: F.pad(x, (1, 2, 1, 0), mode="reflect"),
        lambda x: F.pad(x, (1, 2, 1, 0), mode="replicate"),
    ],
)
def test_gradients_lie_as_images_where_their_own_do_not(
    function: Callable[..., torch.Tensor],
) -> None:
    image = torch.randn(2, 3, 8, 6).contiguous(memory_format=torch.channels_last)
    strides: list[tuple[int, ...]] = []
    for run in (function, torch.compile(function, backend="fuser")):
        given = image.clone().requires_grad_()
        y = run(given)
        (grad,) = torch.autograd.grad(y, given, torch.ones(y.shape))
        strides.append(grad.stride())
    assert strides[0] == strides[1] == image.stride()


TO_CONVOLUTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "pad": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2.0),
    "group_norm": lambda x: F.group_norm(x, 2),
    "roll": lambda x: x.roll(1, 2),
}


@pytest.mark.parametrize("name", TO_CONVOLUTIONS)
def test_one_image_keeps_its_channels_last_on_the_way_to_a_convolution(name: str) -> None:
    if name == "pad" and torch.__version__ < (2, 13):
        pytest.skip("torch 2.11 decomposes it into what lies otherwise, whatever the backend")
    function = TO_CONVOLUTIONS[name]
    image = torch.randn(1, 4, 8, 6).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(3, function(image).shape[1], 3, 3)

    def convolved(x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(function(x), weight)

    found, expected = torch.compile(convolved, backend="fuser")(image), convolved(image)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert found.stride() == expected.stride()


@pytest.mark.parametrize("name", ["_batch_norm_with_update", "_batch_norm_no_update"])
def test_statistics_are_saved_in_the_type_of_their_weights(name: str) -> None:
    def normalized(x: torch.Tensor) -> Any:
        rows = [torch.full((3,), value, dtype=x.dtype) for value in (2.0, 1.0, 0.5, 1.5)]
        return getattr(torch.ops.aten, name)(x, *rows, 0.1, 1e-5)

    def first(x: torch.Tensor) -> torch.Tensor:
        return normalized(x)[0]

    x = torch.randn(4, 3, 5)
    forward_and_backward(first, x)
    compiled = torch.compile(normalized, backend="fuser")
    torch.testing.assert_close(
        compiled(x.bfloat16()), normalized(x.bfloat16()), rtol=2e-2, atol=2e-2
    )
