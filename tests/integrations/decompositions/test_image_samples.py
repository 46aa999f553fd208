"""Images sampled at places of a grid: eager's numbers, in one partition with what is around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere

from fuser.integrations import dynamo

PADDING = ("zeros", "border", "reflection")
NUMBERS = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e20, -1e20, 1.0, -1.0, 3.5])


def of_any_mode(test: Callable[..., None]) -> Callable[..., None]:
    """A test of `options`."""
    test = pytest.mark.parametrize("mode", ["bilinear", "nearest"])(test)
    test = pytest.mark.parametrize("padding", PADDING)(test)
    return pytest.mark.parametrize("align_corners", [False, True])(test)


def grid(*shape: int) -> torch.Tensor:
    """Places in the image and outside of it."""
    return torch.rand(*shape, 2) * 5 - 2.5


@pytest.fixture
def options(mode: str, padding: str, align_corners: bool) -> dict[str, Any]:
    return {"mode": mode, "padding_mode": padding, "align_corners": align_corners}


def resized(batch: int, size: int, align_corners: bool) -> torch.Tensor:
    """Places that lie on elements, or in the middle between two."""
    return F.affine_grid(torch.eye(2, 3).expand(batch, 2, 3), [batch, 1, size, size], align_corners)


def sampled(options: dict[str, Any], **how: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def function(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x * 2, places, **options).abs() + 1

    return function, torch.compile(function, backend="fuser", **how)


def with_holes(x: torch.Tensor) -> torch.Tensor:
    holes = x.clone()
    holes.view(-1)[::5] = torch.inf
    holes.view(-1)[1::7] = torch.nan
    return holes


Given = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
GIVEN: dict[str, Given] = {
    "no numbers as places": lambda x, places: (x, NUMBERS.repeat(15).view_as(places)),
    "no numbers as elements": lambda x, places: (with_holes(x), places),
    "doubles": lambda x, places: (x.double(), places.double()),
    "turned": lambda x, at: (x.to(memory_format=torch.channels_last), at.transpose(1, 2)),
    "no images": lambda x, places: (x[:0], places[:0]),
    "no places": lambda x, places: (x, places[:, :0]),
    "no channels": lambda x, places: (x[:, :0], places),
    "one column": lambda x, places: (x[..., :1], places),
}


@of_any_mode
@pytest.mark.parametrize("given", GIVEN)
def test_samples_are_torchs(options: dict[str, Any], given: str) -> None:
    eager, compiled = sampled(options, dynamic=False)
    x, places = GIVEN[given](torch.randn(2, 3, 7, 9), grid(2, 5, 6))
    wanted, found = eager(x, places), compiled(x, places)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert found.stride() == wanted.stride()
    assert {report.percent for report in dynamo.reports()} == {100.0}


@of_any_mode
def test_samples_at_elements_and_between_two_are_torchs(options: dict[str, Any]) -> None:
    """Of few channels and many: where these are, weights are a kernel by themselves."""
    eager, compiled = sampled(options, dynamic=False)
    for channels, size in ((3, 64), (64, 32)):
        x, places = torch.randn(1, channels, 64, 64), resized(1, size, options["align_corners"])
        torch.testing.assert_close(compiled(x, places), eager(x, places), rtol=1e-5, atol=1e-6)


@pytest.mark.alone
@of_any_mode
def test_samples_of_any_size(options: dict[str, Any]) -> None:
    eager, compiled = sampled(options, dynamic=True)
    for sizes in ((3, 4, 7, 9, 5, 6), (5, 3, 8, 11, 9, 7), (4, 6, 20, 13, 3, 8)):
        x, at = torch.randn(sizes[:4]), grid(sizes[0], *sizes[4:])
        torch.testing.assert_close(compiled(x, at), eager(x, at), rtol=1e-4, atol=1e-5)
    (report,) = dynamo.reports()
    assert report.percent == 100.0


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("padding", PADDING)
def test_gradients_of_samples_are_torchs(padding: str, wanted: tuple[bool, bool]) -> None:
    options = {"mode": "bilinear", "padding_mode": padding, "align_corners": padding == "border"}
    tensors, results = (torch.randn(2, 3, 7, 9), grid(2, 5, 6)), list[list[torch.Tensor]]()
    for run in sampled(options, dynamic=False):
        inputs = [x.clone().requires_grad_(w) for x, w in zip(tensors, wanted, strict=True)]
        y = run(*inputs)
        weights = torch.linspace(-1, 1, y.numel()).view(y.shape)
        trained = [x for x in inputs if x.requires_grad]
        results.append([y.detach(), *torch.autograd.grad((y * weights).sum(), trained)])
    eager, compiled = results
    torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5)
    assert [x.stride() for x in compiled] == [x.stride() for x in eager]
    forward, backward = dynamo.reports()
    assert forward.percent == 100.0
    assert [entry.overload for entry in backward.uncovered] == [
        "aten.grid_sampler_2d_backward.default"
    ]


def test_cubic_samples_and_those_of_16_bits_are_torchs_own() -> None:
    x, places = torch.randn(2, 3, 7, 9), grid(2, 5, 6)
    options = {"mode": "bicubic", "align_corners": False}
    eager, compiled = sampled(options)
    torch.testing.assert_close(compiled(x, places), eager(x, places))
    narrow, at = x.bfloat16(), places.bfloat16()
    eager, compiled = sampled({"mode": "bilinear", "align_corners": False})
    torch.testing.assert_close(compiled(narrow, at), eager(narrow, at))
    for report in dynamo.reports():
        assert [entry.overload for entry in report.uncovered] == ["aten.grid_sampler_2d.default"]
