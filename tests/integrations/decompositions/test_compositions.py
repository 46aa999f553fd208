"""What torch computes by loops of its own, as compositions: eager's numbers, in partitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere

from fuser.integrations import dynamo
from tests.integrations.fused import assert_fused

MASK = torch.arange(35).view(5, 7) % 3 == 0


def scattered(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return (x * 2).masked_scatter(mask, source.sin()) * 3


@pytest.mark.parametrize("mask", [MASK, ~MASK, MASK & False, MASK[:, :1].expand(5, 7), MASK[0]])
def test_masks_take_the_next_element_of_their_source(mask: torch.Tensor) -> None:
    x = torch.linspace(-1, 1, 35).view(5, 7)
    assert_fused(lambda x, source: scattered(x, mask, source), x, torch.linspace(0, 3, 42))
    # A source of as many elements as are taken.
    count = max(int(mask.expand(5, 7).sum()), 1)
    assert_fused(lambda x, source: scattered(x, mask, source), x, torch.linspace(0, 3, count))


def test_masks_of_whole_rows_take_rows() -> None:
    """One number for each row of the mask is scanned, not one for each of its elements."""
    x, mask = torch.zeros(5, 512), MASK[:, :1].expand(5, 512)
    assert_fused(lambda x, source: scattered(x, mask, source), x, torch.linspace(0, 3, 2048))
    forward, _ = dynamo.reports()
    (part,) = forward.partitions
    scan = next(kernel for kernel in part.plan().kernels if "cumsum" in kernel.operations)
    assert scan.bytes_read < 512


def test_what_masks_are_written_to_lies_row_after_row_as_torchs() -> None:
    def viewed(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return scattered(x.t(), mask, source).view(-1)

    x = torch.linspace(-1, 1, 35).view(7, 5)
    assert_fused(lambda x, source: viewed(x, MASK, source), x, torch.linspace(0, 3, 42))


def test_a_mask_that_is_expanded_to_no_elements() -> None:
    assert_fused(scattered, torch.zeros(5, 0), MASK[:, :1], torch.linspace(0, 3, 42))


def test_a_source_with_too_few_elements_is_refused() -> None:
    with pytest.raises(IndexError, match="out of range"):
        torch.compile(scattered, backend="fuser")(torch.zeros(5, 7), MASK, torch.zeros(3))


@pytest.mark.parametrize("dim", [0, 2])
def test_gradients_of_weight_norms(dim: int) -> None:
    v = torch.linspace(-1, 2, 30).view(5, 3, 2)
    g = torch.linspace(1, 2, v.shape[dim]).view([-1 if at == dim else 1 for at in range(3)])
    assert_fused(lambda v, g: torch._weight_norm(v, g, dim) * 2, v, g)


def test_weight_norms_of_one_dimension() -> None:
    """A norm for each place, not one of all."""
    v, g = torch.linspace(-1, 2, 5), torch.linspace(1, 2, 5)
    assert_fused(lambda v, g: torch._weight_norm(v, g, 0) * 2, v, g)


def test_draws_of_two_outcomes_follow_their_probability_and_the_seed() -> None:
    compiled = torch.compile(lambda x: F.dropout2d(x, 0.3), backend="fuser")
    dynamo.clear_reports()
    drawn: list[torch.Tensor] = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(compiled(torch.ones(64, 64, 2, 1)))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert set(drawn[0].unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    assert torch.equal(drawn[0][:, :, 0], drawn[0][:, :, 1])
    assert abs((drawn[0] != 0).float().mean() - 0.7) < 0.03
    assert [report.percent for report in dynamo.reports()] == [100.0]


@pytest.mark.parametrize("sizes", [(5,), (4, 7), (300,), (300, 2)])
def test_unit_matrices(sizes: tuple[int, ...]) -> None:
    """Of 256 to 65535 rows, torch's ranges would be of 16 bits, which it has none of."""
    assert_fused(lambda x: x * torch.eye(*sizes), torch.ones(sizes[0], sizes[-1]))
    assert_fused(lambda x: torch.eye(*sizes, dtype=torch.int32) + x, torch.tensor(2))


@pytest.mark.parametrize("columns", [5, 70_000])
@pytest.mark.parametrize(
    ("shifts", "dims"),
    [(2, 0), (-1, 1), (9, 1), (0, 0), ((1, -2), (0, 1)), ((1, 1), (1, 1)), (3, ()), (-4, ())],
)
def test_rolled_elements_are_read_where_they_are(columns: int, shifts: Any, dims: Any) -> None:
    """At no index, however many there are; and they lie as torch's."""

    def rolled(x: torch.Tensor) -> torch.Tensor:
        return torch.roll(x, shifts, dims)

    x = torch.arange(3.0 * columns).view(3, columns)
    for given in (x, x.view(columns, 3).t()):
        assert rolled(given).stride() == torch.compile(rolled, backend="fuser")(given).stride()
        assert_fused(lambda x: rolled(x * 2) + 1, given)
    assert_fused(lambda x: rolled(x * 2) + 1, x[:, :0])
    parts = [part for report in dynamo.reports() for part in report.partitions]
    operations = {
        name for part in parts for kernel in part.plan().kernels for name in kernel.operations
    }
    assert "index_select" not in operations


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        (shape, dtype)
        for shape in ((3, 29), (29,), (2, 29, 3))
        for dtype in (torch.float32, torch.bfloat16)
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("size", "step"), [(8, 4), (5, 2), (7, 7), (3, 5), (6, 1), (28, 1), (29, 1)]
)
def test_windows_give_back_their_strides(
    shape: tuple[int, ...], size: int, step: int, dtype: torch.dtype
) -> None:
    """An element is in several windows, or, between them, in none."""
    dim = shape.index(29) - len(shape)

    def framed(x: torch.Tensor) -> torch.Tensor:
        return x.unfold(dim, size, step).float().square() * 2

    x = torch.linspace(-1, 1, math.prod(shape)).view(shape).to(dtype)
    gradients: list[torch.Tensor] = []
    dynamo.clear_reports()
    for run in (framed, torch.compile(framed, backend="fuser")):
        given = x.detach().clone().requires_grad_()
        y = run(given)
        weights = torch.linspace(-1, 1, y.numel()).view(y.shape)
        gradients += torch.autograd.grad((y * weights).sum(), given)
    expected, found = gradients
    assert found.stride() == expected.stride()
    rounding = 1e-5 if dtype is torch.float32 else 3e-2
    torch.testing.assert_close(found, expected, rtol=rounding, atol=rounding)
    _, backward = dynamo.reports()
    assert (backward.percent == 100.0) == (size != 28), "of 28 to an element, torch's operation"
    kernels = [kernel for part in backward.partitions for kernel in part.plan().kernels]
    assert not any("index_add" in kernel.operations for kernel in kernels)


@pytest.mark.parametrize("shifts", [(1, -2), (1, 0), (0, 1), (4, 5)])
def test_rolled_images_with_channels_last_lie_so_where_torchs_do(shifts: tuple[int, int]) -> None:
    def rolled(x: torch.Tensor) -> torch.Tensor:
        return torch.roll(x, shifts, (2, 3))

    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    found = torch.compile(rolled, backend="fuser")(x)
    torch.testing.assert_close(found, rolled(x), rtol=0, atol=0)
    assert found.stride() == rolled(x).stride()


def test_rolls_of_open_sizes() -> None:
    compiled = torch.compile(lambda x: x.roll((3, -1), (0, 1)) * 2, backend="fuser", dynamic=True)
    for sizes in ((4, 6), (7, 9), (3, 5), (2, 8)):
        x = torch.randn(sizes)
        torch.testing.assert_close(compiled(x), x.roll((3, -1), (0, 1)) * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_draws_of_intervals_follow_their_rate_and_the_seed(dtype: torch.dtype) -> None:
    def drawn(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x).exponential_(4.0) * 2

    for x in (torch.ones(300, 200, dtype=dtype), torch.ones(200, 300, dtype=dtype).t()):
        found = assert_drawn(drawn, x)
        assert (found > 0).all()
        assert abs(found.double().mean() - 0.5) < 0.02
        assert abs(found.double().std() - 0.5) < 0.02


def test_gumbel_noise_is_finite() -> None:
    x = torch.zeros(1000, 500)
    found = assert_drawn(lambda x: F.gumbel_softmax(x, tau=0.5), x)
    torch.testing.assert_close(found.sum(-1), torch.ones(1000))


@pytest.mark.parametrize("kind", ["mean", "deviation", "both"])
def test_normal_draws_follow_mean_deviation_and_the_seed(kind: str) -> None:
    def drawn(x: torch.Tensor) -> torch.Tensor:
        mean, deviation = x * 3, x * 2
        if kind == "both":
            return torch.normal(mean[:1], deviation) + 1
        return (
            torch.normal(3.0, deviation) if kind == "deviation" else torch.normal(mean, 2.0)
        ) + 1

    for x in (torch.ones(300, 200), torch.ones(200, 300).t(), torch.ones(300, 200).double()):
        found = assert_drawn(drawn, x)
        assert abs(found.mean() - 4) < 0.05
        assert abs(found.std() - 2) < 0.05


def test_a_negative_deviation_is_torchs_error() -> None:
    with pytest.raises(RuntimeError, match="std >= 0"):
        torch.compile(lambda x: torch.normal(x, -1.0), backend="fuser")(torch.ones(3))


def assert_drawn(function: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """What is drawn in partitions: the same by the same seed, typed and laid out as torch's."""
    dynamo.clear_reports()
    compiled = torch.compile(function, backend="fuser", dynamic=False)
    found: list[torch.Tensor] = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        found.append(compiled(x))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    wanted = function(x)
    assert (found[0].dtype, found[0].stride()) == (wanted.dtype, wanted.stride())
    assert [report.percent for report in dynamo.reports()] == [100.0]
    return found[0]


_EDGES = torch.tensor(
    [0.0, -0.0, 1.0, -2.5, 1e-40, 3e38, torch.inf, -torch.inf, torch.nan, 1234.5678]
)


@pytest.mark.parametrize(
    "function",
    [
        torch.copysign,
        torch.hypot,
        lambda x, y: torch.copysign(x.isnan(), y),
        lambda x, y: torch.copysign(x, -0.0),
        lambda x, y: torch.ldexp(x, torch.arange(-4, 6)),
        lambda x, y: torch.round(x + y, decimals=2),
        lambda x, y: torch.round(x + y, decimals=-2),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_of_elements_at_their_edges(
    function: Callable[..., torch.Tensor], dtype: torch.dtype
) -> None:
    """Signs of zeros too, and how operands that lie differently make results lie."""
    x, y = _EDGES.to(dtype).repeat(10, 1), _EDGES.to(dtype).repeat(10, 1).t()
    dynamo.clear_reports()
    expected, found = function(x, y), torch.compile(function, backend="fuser")(x, y)
    torch.testing.assert_close(
        found, expected, equal_nan=True, atol=0, rtol=4 * torch.finfo(dtype).eps
    )
    assert torch.equal(found.signbit() & (found == 0), expected.signbit() & (expected == 0))
    assert found.stride() == expected.stride()
    assert {report.percent for report in dynamo.reports()} == {100.0}


@pytest.mark.parametrize(
    "copied",
    [
        lambda x: torch.permute_copy(x, (1, 0)),
        lambda x: torch.view_copy(x, (7, 5)),
        lambda x: torch.narrow_copy(x, 0, 1, 2),
        lambda x: torch.unbind_copy(x)[1],
    ],
)
def test_copies_of_views(copied: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.linspace(-1, 1, 35).view(5, 7)
    assert_fused(lambda x: copied(x * 2) + 1, x)
    made = torch.compile(copied, backend="fuser")(x)
    assert made.stride() == copied(x).stride()
    assert made.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
