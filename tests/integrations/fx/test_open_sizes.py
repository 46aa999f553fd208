"""Places that are known in tensors of which other sizes are not: results, and where sizes come of.

The first call of a function knows all sizes. At the second one the sizes that differ are left open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import conv2d, interpolate, pad

from fuser.integrations import dynamo
from fuser.integrations.fx.nodes import meta_of, tensor_of
from fuser.integrations.fx.open_sizes import sizes_of

aten: Any = torch.ops.aten
Function = Callable[[torch.Tensor], torch.Tensor]
KERNEL = torch.randn(3, 3, 3, 3)


def resized(**options: Any) -> Function:
    return lambda x: interpolate(x * 3, **options)


def after_convolution(x: torch.Tensor) -> torch.Tensor:
    """Sizes that are no input's, but follow from one."""
    return conv2d(x, KERNEL, stride=2).relu()[..., torch.arange(4) // 2].exp()


READS: dict[str, tuple[Function, tuple[int, ...]]] = {
    "nearest, 1-d": (resized(scale_factor=2, mode="nearest"), (3, 4)),
    "nearest, 2-d": (resized(scale_factor=2, mode="nearest"), (3, 4, 4)),
    "nearest, of a size": (resized(size=(8, 12), mode="nearest"), (3, 4, 4)),
    "upsample": (nn.Upsample(scale_factor=3), (3, 4, 4)),
    "bilinear": (resized(scale_factor=2, mode="bilinear"), (3, 4, 4)),
    "bicubic": (resized(scale_factor=2, mode="bicubic"), (3, 6, 8)),
    "replicated, 1-d": (lambda x: pad(x * 3, (2, 2), mode="replicate"), (3, 4)),
    "replicated, 2-d": (lambda x: pad(x * 3, (2, 2, 1, 1), mode="replicate"), (3, 4, 5)),
    "each twice": (lambda x: x[:, torch.arange(8) // 2] * 2, (4,)),
    "every other": (lambda x: x[:, torch.arange(0, 8, 2) * 1] * 2, (8,)),
    "of twice as many": (lambda x: torch.cat([x, x.cos()])[:, torch.arange(8) // 2] * 2, (4,)),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", READS)
def test_batches_of_other_lengths_are_read_at_known_places(name: str, grad: bool) -> None:
    function, sizes = READS[name]
    images = [torch.randn(batch, *sizes, requires_grad=grad) for batch in (2, 3, 5)]
    assert_same(function, images, dynamic=None)


@pytest.mark.parametrize("grad", [False, True])
def test_sizes_that_follow_from_others_are_read_off_what_has_them_first(grad: bool) -> None:
    sizes = [(2, 3, 6, 6), (3, 3, 7, 6), (3, 3, 9, 6)]
    images = [torch.randn(*each, requires_grad=grad) for each in sizes]
    assert_same(after_convolution, images, dynamic=True)
    forward = next(report for report in dynamo.reports() if "backward" not in report.graph)
    assert len(forward.partitions) == 1


POOLED: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (2, 3), "stride": (3, 1)},
    {"kernel_size": (3, 2), "stride": (2, 4), "padding": (1, 0), "ceil_mode": True},
    {"kernel_size": 4, "stride": 4, "padding": 2, "ceil_mode": True},
]
IMAGES = [(2, 3, 16, 20), (4, 3, 9, 11), (3, 3, 7, 5)]


def images(function: Function) -> None:
    """Images of several sizes by one graph, all of which partitions have."""
    given = [torch.randn(*each, requires_grad=True) for each in IMAGES]
    assert_same(lambda x: function(x.square()) * 2, given, dynamic=True)
    assert not [entry for report in dynamo.reports() for entry in report.uncovered]


@pytest.mark.parametrize("options", POOLED)
@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d])
def test_pools_of_images_of_any_size(pool: Any, options: dict[str, Any]) -> None:
    images(lambda x: pool(x, **options))


@pytest.mark.parametrize(
    "options",
    [
        {"count_include_pad": False},
        {"count_include_pad": False, "ceil_mode": True},
        {"divisor_override": 5, "ceil_mode": True},
    ],
)
def test_means_of_windows_of_images_of_any_size(options: dict[str, Any]) -> None:
    images(lambda x: F.avg_pool2d(x, 3, 2, 1, **options))


@pytest.mark.parametrize("stride", [6, (6, 1)])
def test_large_windows_side_by_side_of_images_of_any_size(stride: Any) -> None:
    images(lambda x: F.avg_pool2d(x, (6, 6) if stride == 6 else (6, 2), stride, 1))


def test_places_in_images_of_any_size() -> None:
    """The first of equal elements, and those that are no number."""

    def pooled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.max_pool2d(x, 3, 2, 1, return_indices=True)

    compiled = torch.compile(pooled, backend="fuser", dynamic=True)
    for sizes in IMAGES:
        x = torch.randint(0, 3, sizes).float()
        x[0, 0, ::3, ::4] = torch.nan
        x[1] = -torch.inf
        torch.testing.assert_close(compiled(x), pooled(x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dim", [2, -1])
def test_windows_apart_of_images_of_any_size(dim: int) -> None:
    images(lambda x: x.unfold(dim, 4, 4))


def test_windows_that_may_overlap_or_have_gaps_are_torchs() -> None:
    for step in (2, 5):
        dynamo.clear_reports()
        given = [torch.randn(*each, requires_grad=True) for each in IMAGES]

        def framed(x: torch.Tensor, step: int = step) -> torch.Tensor:
            return x.sin().unfold(2, 4, step) * 2

        assert_same(framed, given, dynamic=True)
        left = [entry for report in dynamo.reports() for entry in report.uncovered]
        reasons = {(entry.overload, entry.reason) for entry in left}
        assert reasons == {
            ("aten.unfold.default", "how many windows it has is not known before the call")
        }


@pytest.mark.parametrize("dim", [0, -1])
def test_parts_of_images_of_any_size(dim: int) -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        one, other = x.chunk(2, dim)
        rest = x.narrow(dim, 0, other.shape[dim])
        return torch.cat([other.exp(), one.cos(), rest], dim)

    images(halves)


def test_parts_of_sizes_that_the_caller_gives() -> None:
    def parts(x: torch.Tensor, first: int) -> torch.Tensor:
        one, two, three = (x.sin() * 2).split([first, 2, x.shape[1] - first - 2], 1)
        return torch.cat([three.exp(), one, two.cos()], 1)

    compiled = torch.compile(parts, backend="fuser", dynamic=True)
    for columns, first in ((7, 3), (9, 2), (12, 10)):
        x = torch.randn(4, columns)
        torch.testing.assert_close(compiled(x, first), parts(x, first))
    assert not [entry for report in dynamo.reports() for entry in report.uncovered]


def assert_same(
    function: Function, images: Sequence[torch.Tensor], *, dynamic: bool | None
) -> None:
    """Compiled and not: the same results, and the same gradients where these are wanted."""
    run = torch.compile(function, backend="fuser", dynamic=dynamic)
    for image in images:
        ours, theirs = run(image), function(image)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        if image.requires_grad:
            gradient = torch.randn_like(theirs)
            mine, other = (torch.autograd.grad(y, image, gradient) for y in (ours, theirs))
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_open_sizes_are_nodes_of_inputs_and_of_the_first_tensors_that_have_them() -> None:
    def function(count: int, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:count], y]).exp().sin()

    traced = make_fx(function, tracing_mode="symbolic")(3, torch.randn(5, 4), torch.randn(7, 4))
    nodes = {str(node.target): node for node in traced.graph.nodes}
    sine = nodes["aten.sin.default"]
    with traced.graph.inserting_before(sine):
        rows, columns = sizes_of(sine)
        sliced, _ = sizes_of(nodes["aten.slice.Tensor"])
    assert [rows.target, rows.args] == [aten.sym_size.int, (nodes["aten.cat.default"], 0)]
    assert sliced is nodes["count_1"]
    assert meta_of(rows) == tensor_of(sine).shape[0]
    assert columns.args == (nodes["x_1"], 1)


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_a_size_that_depends_on_data_fits_the_sums_of_it_and_others() -> None:
    def joined(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[mask], x * 2])

    x, mask = torch.randn(9, requires_grad=True), torch.arange(9) % 2 == 0
    torch.compile(joined, backend="fuser")(x, mask).sum().backward()
    torch.testing.assert_close(x.grad, 2 + mask.float())
