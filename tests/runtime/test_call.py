"""What of a call decides its plan, and where it runs."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from fuser import DataType, FusionDefinition, errors
from fuser.runtime.call import are_apart, device_of, key_of, overlapping


def scaled(dtype: DataType) -> FusionDefinition:
    with FusionDefinition() as fd:
        x, factor = fd.define_tensor(shape=[-1], contiguity=True), fd.define_scalar(dtype=dtype)
        fd.add_output(x * factor)
    return fd


def test_integers_of_numpy_are_refused_as_those_of_python_are():
    fd, x = scaled(DataType.Int8), torch.ones(4)
    assert fd.execute([x, np.int64(3)])[0].tolist() == [3.0] * 4
    for number in (300, np.int64(300), np.int64(-129), np.uint8(200)):
        with pytest.raises(errors.ScalarInputError):
            fd.execute([x, number])


@pytest.mark.parametrize("number", [np.int8(-3), np.uint64(1 << 63), np.int32(5)])
def test_a_key_tells_how_large_an_integer_is(number: np.generic):
    assert list(key_of(number))[1:] == list(key_of(number.item()))[1:]


def test_any_gpu_is_the_current_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert device_of([], "cuda") == torch.device("cuda", 3)
    assert device_of([2.0], torch.device("cuda")) == torch.device("cuda", 3)
    assert device_of([2.0], "cuda:1") == device_of([2.0], 1) == torch.device("cuda", 1)
    assert device_of([torch.ones(3)], None) == device_of([], None) == torch.device("cpu")


def test_a_device_that_cannot_be_hashed_is_named():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.iota(3))
    with pytest.raises(errors.ArgumentError, match="torch knows no such device"):
        fd.execute([], device=["cpu"])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("seed", range(40))
def test_inputs_overlap_where_two_of_them_reach_into_the_same_bytes(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    buffers = [torch.zeros(84), torch.zeros(84)]
    drawn = iter(torch.randint(0, 1000, (100,), generator=generator).tolist())
    inputs: list[torch.Tensor | float] = [3.0, torch.zeros(0)]
    for _ in range(7):
        size, stride, offset = next(drawn) % 4, next(drawn) % 3 + 1, next(drawn) % 70
        inputs.append(buffers[next(drawn) % 2].as_strided((size, 2), (2 * stride, 1), offset))
    spans = [bytes_of(given) for given in inputs]
    meeting = tuple(
        at
        for at, span in enumerate(spans)
        if any(span & other for number, other in enumerate(spans) if number != at)
    )
    assert overlapping(inputs, range(len(inputs))) == meeting
    assert overlapping(inputs, [2]) == ((2,) if 2 in meeting else ())
    tensors = [given for given in inputs if isinstance(given, torch.Tensor)]
    assert are_apart(tensors, [1])(addresses_of(tensors)) == (2 not in meeting)


def bytes_of(given: torch.Tensor | float) -> set[int]:
    """The addresses that a tensor spans."""
    if not isinstance(given, torch.Tensor) or given.numel() == 0:
        return set()
    last = sum((n - 1) * s for n, s in zip(given.shape, given.stride(), strict=True))
    return set(range(given.data_ptr(), given.data_ptr() + (last + 1) * given.element_size()))


def test_parts_of_one_buffer_are_apart() -> None:
    first, second, *others = torch.zeros(4, 32).unbind()
    apart = are_apart([first, second, *others], [0, 1])
    assert apart(addresses_of([first, second, *others]))
    assert apart(addresses_of([first, second, others[0], others[0]]))
    assert not apart(addresses_of([first, second, others[0], second]))


@pytest.mark.parametrize("seed", range(20))
def test_tensors_that_are_elsewhere_in_the_next_call_are_looked_at_again(seed: int) -> None:
    draw = random.Random(seed)
    memory = torch.zeros(400, dtype=torch.uint8)
    sizes = [draw.choice([0, 1, 4, 16]) for _ in range(8)]
    updated = sorted(draw.sample(range(8), draw.randint(1, 4)))

    def placed(begins: Sequence[int]) -> list[torch.Tensor]:
        return [memory[b : b + size] for b, size in zip(begins, sizes, strict=True)]

    begins = [40 * n for n in range(8)]
    apart, found = are_apart(placed(begins), updated), set[bool]()
    for _ in range(60):
        mostly = [n for n in range(8) if n not in updated] if draw.random() < 0.8 else range(8)
        for at in mostly:
            begins[at] = draw.randint(0, 380)
        tensors = placed(begins)
        expected = overlapping(tensors, updated) == ()
        found.add(expected)
        assert apart(addresses_of(tensors)) == expected
        if not expected:
            begins = [40 * n for n in range(8)]
    assert True in found


def addresses_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]
