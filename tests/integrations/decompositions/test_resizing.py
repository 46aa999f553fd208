"""Resized images: torch's numbers, by one-dimensional interpolations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from torch.fx import symbolic_trace

from fuser.integrations import dynamo
from fuser.integrations.decompositions.interpolation import resized
from fuser.integrations.decompositions.line_readers import MOST_READERS
from fuser.integrations.decompositions.resizing import separate_resizes
from tests.covering import more

MORE = pytest.mark.more

CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7), {"mode": "linear", "scale_factor": 2}),
    ((2, 3, 6, 8), {"mode": "bilinear", "scale_factor": 2, "align_corners": False}),
    ((2, 3, 6, 8), {"mode": "bilinear", "scale_factor": (3, 0.5)}),
    ((2, 3, 6, 8), {"mode": "bilinear", "size": (6, 17), "align_corners": True}),
    ((2, 3, 6, 8), {"mode": "bilinear", "size": (1, 8), "align_corners": True}),
    ((2, 3, 6, 8), {"mode": "bilinear", "scale_factor": 1.7}),
    ((2, 3, 8), {"mode": "linear", "scale_factor": 1.7, "recompute_scale_factor": True}),
    ((2, 3, 6, 8), {"mode": "bicubic", "scale_factor": 2}),
    ((2, 3, 6, 8), {"mode": "bicubic", "size": (5, 19), "align_corners": True}),
    ((1, 2, 3, 4, 5), {"mode": "trilinear", "scale_factor": 2}),
    ((2, 3, 6), {"mode": "linear", "scale_factor": 8}),
    ((1, 2, 3), {"mode": "linear", "scale_factor": 9}),
    ((2, 3, 40, 31), {"mode": "bilinear", "size": (23, 30)}),
    ((2, 3, 40, 31), {"mode": "bilinear", "size": (41, 64), "align_corners": True}),
    ((2, 3, 1, 2), {"mode": "bilinear", "size": (4, 9)}),
    ((2, 3, 50), {"mode": "linear", "scale_factor": 3.007}),
    ((2, 3, 50), {"mode": "nearest", "scale_factor": 3.007}),
    ((2, 3, 5, 6), {"mode": "nearest", "scale_factor": 2}),
    ((2, 3, 40, 31), {"mode": "nearest", "size": (57, 23)}),
    ((2, 3, 40, 31), {"mode": "nearest-exact", "size": (23, 93)}),
    ((2, 3, 7, 9), {"mode": "nearest", "scale_factor": 1.7}),
    ((1, 2, 3, 4, 5), {"mode": "nearest-exact", "scale_factor": 1.5}),
]

LINEAR, BILINEAR, BICUBIC, TRILINEAR = (CASES[number] for number in (0, 1, 7, 9))


@pytest.mark.parametrize(
    ("dtype", "shape", "options"),
    [
        *((torch.float32, *case) for case in CASES),
        *((torch.float64, *case) for case in (LINEAR, BICUBIC)),
        *((torch.bfloat16, *case) for case in (LINEAR, BILINEAR)),
        *(pytest.param(torch.float64, *case, marks=MORE) for case in (BILINEAR, TRILINEAR)),
        *(pytest.param(torch.bfloat16, *case, marks=MORE) for case in (BICUBIC, TRILINEAR)),
    ],
    ids=str,
)
def test_numbers_layouts_and_gradients_are_torchs(
    dtype: torch.dtype, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    x = torch.randn(shape).to(dtype)
    results: list[tuple[torch.Tensor, torch.Tensor]] = []
    for run in (torch.compile(F.interpolate, backend="fuser"), F.interpolate):
        given = x.clone().requires_grad_()
        y = run(given, **options)
        weights = torch.linspace(-1, 1, y.numel()).view(y.shape).to(dtype)
        results.append((y.detach(), *torch.autograd.grad(y, given, weights)))
        assert y.dtype is dtype
        assert y.is_contiguous()
    close = {torch.bfloat16: 0.05, torch.float32: 1e-4, torch.float64: 1e-9}[dtype]
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=close, atol=close)
    assert all(report.percent == 100.0 for report in dynamo.reports())


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "trilinear"])
@pytest.mark.parametrize("scale", [2, 1.5, 0.6])
def test_gradients_with_channels_last_are_sums(mode: str, scale: float) -> None:
    """Layouts are torch's, and nothing is added in memory."""
    dims, last = (
        ((6,), torch.channels_last_3d) if mode == "trilinear" else ((), torch.channels_last)
    )
    x = torch.randn(2, 16, *dims, 5, 8).to(memory_format=last).requires_grad_()
    options: dict[str, Any] = {"scale_factor": scale, "mode": mode}
    y, expected = (
        torch.compile(F.interpolate, backend="fuser")(x, **options),
        F.interpolate(x, **options),
    )
    torch.testing.assert_close(y, expected)
    assert y.stride() == expected.stride()
    weights = torch.randn_like(y)
    (found,) = torch.autograd.grad(y, x, weights)
    torch.testing.assert_close(found, *torch.autograd.grad(expected, x, weights))
    assert found.stride() == x.stride()
    for call in dynamo.reports()[-1].partitions:
        assert call.definition is not None
        assert "index_add" not in str(call.definition)
        assert "index_put" not in str(call.definition)


@pytest.mark.parametrize(("mode", "scale"), [("linear", 8), ("bilinear", 1.5), ("nearest", 1.5)])
def test_gradients_in_kernels_for_a_gpu(mode: str, scale: float) -> None:
    x = torch.randn((2, 5, 6) if mode == "linear" else (1, 2, 5, 6), requires_grad=True)
    run = torch.compile(F.interpolate, backend="fuser", options={"target": "emulator"})
    y, expected = (each(x, scale_factor=scale, mode=mode) for each in (run, F.interpolate))
    weights = torch.randn_like(expected)
    found, wanted = (torch.autograd.grad(each, x, weights) for each in (y, expected))
    torch.testing.assert_close(found, wanted)
    assert all(call.failure is None for r in dynamo.reports() for call in r.partitions)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("scale", [2, *more(3), 1.7, 0.6])
def test_gradients_without_a_number_reach_what_was_read_alone(mode: str, scale: float) -> None:
    x = torch.randn(1, 1, 9, 11, requires_grad=True)
    y = torch.compile(F.interpolate, backend="fuser")(x, scale_factor=scale, mode=mode)
    gradient = torch.ones_like(y)
    gradient[0, 0, 3, 2] = torch.inf
    (found,) = torch.autograd.grad(y, x, gradient)
    expected = torch.zeros_like(gradient)
    expected[0, 0, 3, 2] = 1.0
    made = F.interpolate(x, scale_factor=scale, mode=mode)
    (readers,) = torch.autograd.grad(made, x, expected)
    assert found.isfinite().logical_not().equal(readers > 1e-6)


@pytest.mark.parametrize("size", [(1, 9), (7, 1), (33, 100), (100, 33), (17, 16), (64, 512)])
@pytest.mark.parametrize(
    ("mode", "align"),
    [("linear", False), ("linear", True), ("nearest", None), ("nearest-exact", None)],
)
def test_readers_are_those_that_read(size: tuple[int, int], mode: str, align: bool | None) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x[None, None], size[1], mode=mode, align_corners=align)[0, 0]

    x = torch.zeros(size[0], dtype=torch.float64)
    module = symbolic_trace(lambda x: F.interpolate(x, size[1], mode=mode, align_corners=align))
    annotate(module, x[None, None])
    separate_resizes(module)
    (call,) = (node for node in module.graph.nodes if node.target is resized)
    (line,) = call.args[1]
    readers = line.readers()
    if readers is None:
        assert line.step == int(line.step) or 2 / line.step > MOST_READERS
        return
    first = readers.first(torch.arange(size[0]))
    reads = torch.autograd.functional.jacobian(run, x)
    for element, begin in enumerate(first.tolist()):
        found = reads[:, element].abs().gt(1e-6).nonzero().flatten().tolist()
        assert set(found) <= set(range(begin, begin + readers.count))
        assert len(found) == readers.count or mode == "linear" or not readers.are_all
        assert 0 <= begin <= size[1] - readers.count


@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap"])
def test_transforms_in_a_graph(transform: str) -> None:
    def resized_sum(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=2, mode="linear").sin().sum()

    def run(x: torch.Tensor) -> torch.Tensor:
        if transform == "grad":
            return torch.func.grad(resized_sum)(x)
        if transform == "jvp":
            return torch.func.jvp(resized_sum, (x,), (x.cos(),))[1]
        return torch.func.vmap(resized_sum)(x[None])

    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(torch.compile(run, backend="fuser")(x), run(x))


def test_channels_last_stay_last() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = torch.compile(F.interpolate, backend="fuser")(x, scale_factor=2, mode="bilinear")
    assert y.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(y, F.interpolate(x, scale_factor=2, mode="bilinear"))


def test_a_module_that_resizes_twice_in_one_graph() -> None:
    model = torch.nn.Sequential(
        torch.nn.Upsample(scale_factor=2, mode="bilinear"),
        torch.nn.Upsample(size=(9, 7), mode="bilinear"),
    )
    x = torch.randn(1, 2, 4, 5)
    torch.testing.assert_close(torch.compile(model, backend="fuser")(x), model(x))


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "area", "size": (3, 4)},
        {"mode": "bilinear", "scale_factor": 0.5, "antialias": True},
    ],
)
def test_other_modes_are_torchs(options: dict[str, Any]) -> None:
    x = torch.randn(1, 2, 6, 8)
    module = symbolic_trace(lambda x: F.interpolate(x, **options))
    annotate(module, x)
    separate_resizes(module)
    assert [n.target for n in module.graph.nodes if n.op == "call_function"] == [F.interpolate]
    y = torch.compile(F.interpolate, backend="fuser")(x, **options)
    torch.testing.assert_close(y, F.interpolate(x, **options))


def test_whole_numbers_are_torchs() -> None:
    x = torch.randint(0, 255, (1, 3, 4, 4), dtype=torch.uint8)
    module = symbolic_trace(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"))
    annotate(module, x)
    separate_resizes(module)
    assert all(node.target is not resized for node in module.graph.nodes)


def test_dimensions_that_stay_are_not_read_twice() -> None:
    x = torch.randn(1, 2, 4, 5)
    module = symbolic_trace(lambda x: F.interpolate(x, size=(4, 10), mode="bilinear"))
    annotate(module, x)
    separate_resizes(module)
    (call,) = (node for node in module.graph.nodes if node.target is resized)
    assert [(line.dim, line.changes) for line in call.args[1]] == [(3, True), (2, False)]


def test_open_sizes_are_torchs_and_right() -> None:
    run = torch.compile(F.interpolate, backend="fuser", dynamic=True)
    for height in (4, 7):
        x = torch.randn(2, 3, height, 5)
        y = run(x, scale_factor=2, mode="bilinear")
        torch.testing.assert_close(y, F.interpolate(x, scale_factor=2, mode="bilinear"))


def annotate(module: torch.fx.GraphModule, x: torch.Tensor) -> None:
    """The example values that Dynamo leaves at nodes."""
    image, *calls = (node for node in module.graph.nodes if node.op != "output")
    image.meta["example_value"] = x
    for call in calls:
        call.meta["example_value"] = F.interpolate(x, **call.kwargs)


def test_sizes_that_a_later_line_makes_known() -> None:
    """They are symbols where the image is resized, and one number when the graph is compiled."""

    def changed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.interpolate(x, size=7, mode="linear"), x.reshape(-1, 4) + 1

    x = torch.randn(6, 2, 4)
    found = torch.compile(changed, backend="fuser", dynamic=True)(x)
    torch.testing.assert_close(found, changed(x))
