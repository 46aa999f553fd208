"""Rows that are next to each other in one tensor, and apart in another: threads of a column take
neighbouring elements on CUDA, and move those of the other tensor as vectors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.emulator import ThreadOrder
from tests.machine_code import memory_accesses

Define = Callable[[FusionDefinition, Handle, Handle], Handle]
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)


def normalized(fd: FusionDefinition, x: Handle) -> Handle:
    apart = x - fd.ops.mean(x, [2], keepdim=True)
    return apart * fd.ops.rsqrt(fd.ops.mean(apart * apart, [2], keepdim=True) + 1e-5)


def norm(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    """Over channels, which are first in memory, stored with channels last."""
    return fd.ops.stride_order(normalized(fd, fd.ops.permute(x, [0, 2, 1])), [2, 1, 0])


def softmax(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    turned = fd.ops.permute(x, [0, 2, 1])
    powers = fd.ops.exp(turned - fd.ops.max(turned, [2], keepdim=True))
    return fd.ops.stride_order(powers / fd.ops.sum(powers, [2], keepdim=True), [2, 1, 0])


def residual(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    """A sum of tensors that lie both ways, normalized."""
    return fd.ops.permute(normalized(fd, fd.ops.permute(x, [0, 2, 1]) + y), [0, 2, 1])


def weighted(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    """Numbers that all rows share lie along them, too."""
    weight = fd.ops.slice(y, [0, 0, 0], [1, 1, 99999])
    return fd.ops.stride_order(normalized(fd, fd.ops.permute(x, [0, 2, 1])) * weight, [2, 1, 0])


CASES: dict[str, Define] = {
    "norm": norm,
    "softmax": softmax,
    "residual": residual,
    "weighted": weighted,
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)


def defined(
    case: str, channels: int, pixels: int, dtype: torch.dtype
) -> tuple[FusionDefinition, list[torch.Tensor]]:
    x, y = torch.randn(2, channels, pixels), torch.randn(2, pixels, channels)
    inputs = [x.to(dtype), y.to(dtype)]
    with FusionDefinition() as fd:
        given, other = map(fd.from_pytorch, inputs)
        fd.add_output(fd.ops.cast(CASES[case](fd, given, other), given.dtype()))
    return fd, inputs


@TYPES
@pytest.mark.parametrize("channels", [8, 24, 40, 97, 136, 512, 1504])
@EVERY_CASE
def test_results_are_the_oracles(case: str, channels: int, dtype: torch.dtype) -> None:
    for pixels in (31, 100):  # rows of the last warp are not all there
        fd, inputs = defined(case, channels, pixels, dtype)
        fd.validate(inputs, target="emulator")


@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
@EVERY_CASE
def test_any_thread_order(case: str, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmulatorBackend, "order", order)
    fd, inputs = defined(case, 136, 33, torch.float32)
    fd.validate(inputs, target="emulator")


@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
@pytest.mark.parametrize("channels", [24, 136])
def test_threads_without_a_row_store_nothing_over_another(
    channels: int, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmulatorBackend, "order", order)
    x, y = torch.randn(2, channels, 33), torch.randn(2, 33, channels)
    with FusionDefinition() as fd:
        given, other = fd.from_pytorch(x), fd.from_pytorch(y)
        made = normalized(fd, fd.ops.permute(given, [0, 2, 1]) + other)
        fd.add_output(made, alias_input=other)
    added = (x.permute(0, 2, 1) + y).double()
    want = torch.nn.functional.layer_norm(added, [channels])
    fd.execute([x, y], target="emulator")
    torch.testing.assert_close(y.double(), want, rtol=1e-5, atol=1e-5)


@TYPES
@EVERY_CASE
def test_the_other_tensor_is_moved_by_sixteen_bytes(case: str, dtype: torch.dtype) -> None:
    for channels in (24, 136, 512):
        fd, inputs = defined(case, channels, 33, dtype)
        (kernel,) = fd.plan(inputs, target="cuda:sm_90").kernels
        assert kernel.kernel_source is not None
        made = compile_cuda(kernel.kernel_source, "sm_90")
        accesses = memory_accesses(made)
        if case == "residual":  # is read, perhaps to shared memory, past the registers
            assert accesses["LDG", 128] or "copy_ahead<" in kernel.source
        else:
            assert accesses["STG", 128]
        assert made.resources.spill_bytes == 0


def test_rows_that_lie_one_way_are_taken_one_by_one() -> None:
    x = torch.empty(2, 136, 33, device="meta")
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        turned = normalized(fd, fd.ops.permute(given, [0, 2, 1]))
        fd.add_output(fd.ops.permute(turned, [0, 2, 1]))
    (kernel,) = fd.plan([x], target="cuda:sm_90").kernels
    assert "_vector" not in kernel.source
