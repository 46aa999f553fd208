"""Calls that are like the last one are recognized, others never are, also without torch's help."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from fuser import FusionDefinition, errors, stats
from fuser.pipeline import Executor
from fuser.runtime.calls import torch_shortcuts
from fuser.runtime.calls.overlaps import are_apart
from fuser.runtime.calls.torch_shortcuts import empty_strided, recognizer

CPU = torch.device("cpu")


def like(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes)


def unaligned(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes[0] * sizes[1] + 1)[1:].view(sizes)


def freed(*sizes: int) -> torch.Tensor:
    x = torch.randn(sizes)
    x.untyped_storage().resize_(0)
    return x


OTHERS: dict[str, Callable[[], list[torch.Tensor | float]]] = {
    "other sizes": lambda: [like(4, 9), like(8)],
    "other rank": lambda: [like(4, 8, 1), like(8)],
    "other strides": lambda: [like(8, 4).T, like(8)],
    "other dtype": lambda: [like(4, 8).double(), like(8)],
    "other address": lambda: [unaligned(4, 8), like(8)],
    "other device": lambda: [torch.empty(4, 8, device="meta"), like(8)],
    "no memory": lambda: [freed(4, 8), like(8)],
    "lazily negated": lambda: [torch.randn(4, 8, dtype=torch.complex64).conj().imag, like(8)],
    "sparse": lambda: [like(4, 8).to_sparse(), like(8)],
    "nested": lambda: [torch.nested.as_nested_tensor([like(8)] * 4), like(8)],
    "a number": lambda: [like(4, 8), 2.0],
    "too few": lambda: [like(4, 8)],
    "too many": lambda: [like(4, 8), like(8), like(8)],
}


def test_what_has_no_elements_needs_no_memory():
    recognizes = recognizer([like(0, 3), like(8)])
    assert recognizes([like(0, 3), like(8)])
    assert not recognizes([like(0, 3), freed(8)])
    assert not recognizes([like(3, 0), like(8)])
    assert not recognizes([like(1, 3), like(8)])


def test_what_is_alike_is_recognized():
    recognizes = recognizer([like(4, 8), like(8)])
    assert recognizes([like(4, 8), like(8)])
    with torch.no_grad():
        assert recognizes((like(4, 8), like(8)))


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_is_not(name: str):
    assert not recognizer([like(4, 8), like(8)])(OTHERS[name]())


def test_numbers_are_alike_if_they_are_the_same():
    recognizes = recognizer([like(4, 8), 3, like(8), 1])
    assert recognizes([like(4, 8), 3, like(8), 1])
    others: list[list[torch.Tensor | float]] = [
        [like(4, 8), 4, like(8), 1],
        [like(4, 8), 3, like(8), True],
        [like(4, 8), 3.0, like(8), 1],
        [like(4, 9), 3, like(8), 1],
        [like(4, 8), like(8), 3, 1],
        [like(4, 8), 3, like(8)],
    ]
    assert not any(map(recognizes, others))
    assert recognizer([3])([3])
    assert not recognizer([3])([4])
    assert not recognizer([2.0, like(8)])([2.0, like(8)])


@pytest.mark.parametrize(
    "first", [lambda: [unaligned(4, 8)], lambda: [like(4), 2.0], lambda: [freed(4)]]
)
def test_what_cannot_be_told_so_never_is(first: Callable[[], list[torch.Tensor | float]]):
    given = first()
    assert not recognizer(given)(given)


def test_how_tensors_lie_is_asked_once_for_the_same_addresses():
    asked: list[bool] = []

    x, y, room = like(4, 8), like(4, 8), like(6, 8)
    lie_apart = are_apart([x, y], [0])

    def apart(addresses: Sequence[int]) -> bool:
        asked.append(lie_apart(addresses))
        return asked[-1]

    recognizes = recognizer([x, y], apart)
    assert recognizes([x, y])
    assert recognizes([x, y])
    assert not recognizes([room[:4], room[2:]])
    assert not recognizes([room[:4], room[2:]])
    assert recognizes([y, x])
    assert asked == [True, False, False, True]


def test_no_tensor_is_kept_alive():
    x = like(4, 8)
    recognizes, alive = recognizer([x]), weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None
    assert recognizes([like(4, 8)])


def summed() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[False, False])
        fd.add_output(x * 2.0 + fd.define_tensor(shape=[-1], contiguity=True))
    return fd


@pytest.mark.parametrize("guards", [True, False])
def test_calls_in_turn_get_their_own_plans(guards: bool, monkeypatch: pytest.MonkeyPatch):
    if not guards:
        monkeypatch.setattr(torch_shortcuts, "_guards", None)
    fd = summed()
    calls = [
        [like(4, 8), like(8)],
        [like(8, 4).T, like(8)],
        [unaligned(4, 8), like(8)],
        [like(4, 8).requires_grad_(), like(8)],
        [like(5, 8), like(8)],
    ]
    for inputs in [call for call in calls for _ in range(3)] + calls:
        (got,) = fd.execute(inputs)
        assert not got.requires_grad
        torch.testing.assert_close(got, (inputs[0] * 2.0 + inputs[1]).detach())
    before = stats()["plans_built"]
    for inputs in calls:
        fd.execute(inputs)
    assert stats()["plans_built"] == before
    with pytest.raises(errors.InputDtypeError):
        fd.execute([like(4, 8).double(), like(8)])
    with pytest.raises(errors.InputKindError):
        fd.execute([freed(4, 8), like(8)])


def test_a_target_and_a_device_are_not_forgotten():
    fd = summed()
    inputs = [like(4, 8), like(8)]
    fd.execute(inputs)
    fd.execute(inputs, target="emulator")
    code = fd.last_cuda_code()
    fd.execute(inputs)
    assert "__global__" in code
    assert "__global__" not in fd.last_cuda_code()


def test_updates_ask_each_time_what_overlaps():
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor(shape=[-1], contiguity=True) for _ in range(2))
        fd.add_output(x + y, alias_input=x)
    executor = Executor(fd.fusion)
    memory = torch.arange(12.0)
    for start in (8, 4, 8, 0):
        inputs = [memory[:4].clone() if start == 8 else memory[:4], memory[start : start + 4]]
        expected = inputs[0] + inputs[1]
        executor.execute(inputs)
        torch.testing.assert_close(inputs[0], expected)


def test_storages_may_share_memory_too():
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor(shape=[-1], contiguity=True) for _ in range(2))
        fd.add_output(x + fd.ops.flip(y, [0]), alias_input=x)
    executor = Executor(fd.fusion)
    for start in (4096, 4):
        array = np.arange(8192, dtype=np.float32)
        inputs = [torch.from_numpy(array[at : at + 4096]) for at in (0, start)]
        expected = inputs[0] + inputs[1].flip(0)
        executor.execute(inputs)
        torch.testing.assert_close(inputs[0], expected)


@pytest.mark.parametrize("guards", [True, False])
def test_what_is_allocated_is_as_asked(guards: bool, monkeypatch: pytest.MonkeyPatch):
    if not guards:
        monkeypatch.setattr(torch_shortcuts, "_guards", None)
    made = empty_strided(CPU)((3, 4), (1, 4), torch.float64)
    assert (made.shape, made.stride(), made.dtype) == ((3, 4), (1, 4), torch.float64)
    assert made.device == CPU
