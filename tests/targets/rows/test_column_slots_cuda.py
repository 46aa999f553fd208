"""Rows that are next to each other in memory, and folds over them with a place for each of their
elements: on CUDA, threads of a column keep the places in registers, and lanes of a warp join them.
"""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from tests.definitions import close
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)


def gradients(
    channels: int, pixels: int, dtype: torch.dtype, *, last: bool = False
) -> tuple[FusionDefinition, list[torch.Tensor]]:
    """Of a norm over channels that are first in memory; with `last`, gradients come with channels
    last. Beside those of weights and bias, the largest of each channel and a number of all."""
    x = torch.randn(2, channels, pixels)
    gradient = torch.randn(2, pixels, channels) if last else torch.randn(2, channels, pixels)
    weight, mean, scale = torch.randn(channels), torch.randn(2, pixels), torch.rand(2, pixels)
    inputs = [x.to(dtype), gradient.to(dtype), weight.to(dtype), mean, scale]
    with FusionDefinition() as fd:
        image, given, weights, means, scales = map(fd.from_pytorch, inputs)
        given = fd.ops.permute(given, [0, 2, 1]) if last else given

        def of_pixels(t: Handle) -> Handle:
            return fd.ops.broadcast(t, [False, True, False])

        normal = (image - of_pixels(means)) * of_pixels(scales)
        weighted = given * fd.ops.broadcast(weights, [True, False, True])
        level = fd.ops.mean(weighted, [1], keepdim=True)
        slope = fd.ops.mean(weighted * normal, [1], keepdim=True)
        made = (weighted - level - normal * slope) * of_pixels(scales)
        fd.add_output(fd.ops.cast(made, image.dtype()))
        fd.add_output(fd.ops.sum(given * normal, [0, 2]))
        fd.add_output(fd.ops.max(fd.ops.cast(given, DataType.Float), [0, 2]))
        fd.add_output(fd.ops.sum(fd.ops.abs(made), [0, 1, 2]))
    return fd, inputs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("channels", [3, 16, 40, 97, 128, 256, 400])
def test_results_are_the_oracles(channels: int, dtype: torch.dtype, last: bool) -> None:
    for pixels in (7, 33, 700):
        fd, inputs = gradients(channels, pixels, dtype, last=last)
        fd.validate(inputs, target="emulator")


@ORDERS
@pytest.mark.parametrize("last", [False, True])
def test_any_thread_order(order: ThreadOrder, last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmulatorBackend, "order", order)
    fd, inputs = gradients(40, 333, torch.float32, last=last)
    fd.validate(inputs, target="emulator")


def test_of_many_rows_lanes_go_across_where_as_many_tensors_lie_along() -> None:
    for pixels, across in ((2000, False), (2200, True)):
        fd, inputs = gradients(24, pixels, torch.float32, last=True)
        (kernel,) = fd.plan(inputs, target="cuda:sm_90").kernels
        assert ("join_column" in kernel.source) == across
    fd.validate(inputs, target="emulator")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize(
    ("channels", "last"), [(40, False), (40, True), (96, False), (96, True), (256, False)]
)
def test_one_kernel_has_all_places_in_registers(channels: int, last: bool, arch: str) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        fd, inputs = gradients(channels, 3136, dtype, last=last)
        (kernel,) = fd.plan(inputs, target=f"cuda:{arch}").kernels
        assert "join_column" in kernel.source
        assert kernel.compile().spill_bytes == 0


@pytest.mark.sanitizer
def test_sanitizers_find_nothing(sanitizer: Sanitizer) -> None:
    fd, inputs = gradients(20, 5, torch.float32)
    made = run_plan_sanitized(fd, inputs, sanitizer)
    close(made, fd.execute(inputs, target="cpu"), 200)
