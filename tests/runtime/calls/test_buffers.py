"""Memory of kernels while they run: made for a call, or zeros that those of a stream share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen import Workspace
from fuser.frontend.handles import Handle
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.calls import buffers, executor
from fuser.runtime.emulator import ThreadOrder
from tests.definitions import defined

CUDA = torch.device("cuda", 1)
COUNTERS = Workspace("finished", DataType.Int32, 7, zeroed=True, restored=True)


def total(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.sum(x)


def normed(fd: FusionDefinition, x: Handle) -> Handle:
    """A gradient of a bias beside what is done row by row."""
    fd.add_output(x - fd.ops.mean(x, dims=[1], keepdim=True))
    return fd.ops.sum(x, dims=[0])


def mean_of_rows(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.mean(fd.ops.log(fd.ops.sum(fd.ops.exp(x), dims=[1])))


def gradient(fd: FusionDefinition, x: Handle) -> Handle:
    """Of an embedding, with a word that is three hundred times there."""
    words = fd.ops.iota(700, 0, 1, DataType.Int)
    zeros = fd.ops.full([700, 96], 0.0, DataType.Float)
    return fd.ops.index_put_accumulate(zeros, fd.ops.where(words < 300, 7, words), x)


def running(fd: FusionDefinition, x: Handle) -> Handle:
    """Of rows of which blocks have a part each."""
    return fd.ops.cumsum(fd.ops.reshape(x, [3, -1]), 1)


@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
@pytest.mark.parametrize("build", [total, normed, mean_of_rows, gradient, running])
def test_counters_are_zero_again(
    build: Callable[[FusionDefinition, Handle], Handle],
    order: ThreadOrder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(EmulatorBackend, "order", order)
    x = torch.randn(700, 96)
    fd = defined(build, x)
    made: list[torch.Tensor] = []

    given: list[torch.Tensor] = []  # in place of new ones

    def maker(workspace: Workspace, device: torch.device) -> Callable[[], torch.Tensor]:
        make = buffers.room_maker(workspace, device)
        if not workspace.restored:
            return make

        def room() -> torch.Tensor:
            made.append(given[0] if given else make())
            return made[-1]

        return room

    monkeypatch.setattr(executor, "room_maker", maker)
    first = fd.execute([x], target="emulator")
    assert made
    assert not any(tensor.any() for tensor in made)
    given.append(made[0])
    for before, again in zip(first, fd.execute([x], target="emulator"), strict=True):
        assert torch.equal(before, again)


def test_results_of_torch_that_lie_right_are_not_copied() -> None:
    whole = torch.randn(4, 6)
    for result in (whole, whole[1:, 2:], whole.mT, whole[2, 1], whole[1:1, 1:]):
        assert buffers.laid_out(result, result.stride()) is result
    assert buffers.laid_out(whole[:1], (99, 1)).data_ptr() == whole.data_ptr()


def test_results_of_torch_that_lie_otherwise_are_copied() -> None:
    whole = torch.randn(4, 8)
    made = buffers.laid_out(whole, (1, 4))
    assert made.stride() == (1, 4)
    assert torch.equal(made, whole)


@pytest.mark.parametrize("start", [1, 2, 3])
def test_results_of_torch_that_begin_between_vectors_are_copied(start: int) -> None:
    result = torch.randn(4, 8).view(-1)[start : start + 20].view(5, 4).mT
    made = buffers.laid_out(result, result.stride())
    assert made.data_ptr() % 16 == 0
    assert made.stride() == result.stride()
    assert torch.equal(made, result)


class FakeCuda:
    """Tensors on the processor, and a current stream."""

    stream = 0x70
    capturing = False

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        zeros = torch.zeros
        monkeypatch.setattr(torch, "zeros", lambda n, dtype, device: zeros(n, dtype=dtype))  # pyright: ignore
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: self.capturing)
        monkeypatch.setattr(buffers, "current_stream", lambda device: self.stream)
        monkeypatch.setattr(buffers, "_OF_STREAM", {})


def test_kernels_of_a_stream_share_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    shared = buffers.room_maker(COUNTERS, CUDA)()
    assert buffers.room_maker(COUNTERS, CUDA)() is shared
    assert not shared.any()
    assert shared.numel() >= COUNTERS.elements
    fake.stream = 0x71
    assert buffers.room_maker(COUNTERS, CUDA)() is not shared
    fake.stream = 0x70
    assert buffers.room_maker(COUNTERS, CUDA)() is shared


def test_a_graph_has_zeros_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    shared = buffers.room_maker(COUNTERS, CUDA)()
    fake.capturing = True
    assert buffers.room_maker(COUNTERS, CUDA)() is not shared
    assert buffers.room_maker(COUNTERS, CUDA)().numel() == COUNTERS.elements


def test_what_is_not_left_zero_is_made_for_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCuda(monkeypatch)
    taken = Workspace("taken", DataType.Int32, 7, zeroed=True)
    assert buffers.room_maker(taken, CUDA)() is not buffers.room_maker(taken, CUDA)()
    many = Workspace("finished", DataType.Int32, 1 << 20, zeroed=True, restored=True)
    assert buffers.room_maker(many, CUDA)() is not buffers.room_maker(many, CUDA)()
