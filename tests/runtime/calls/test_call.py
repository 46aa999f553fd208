"""What of a call decides its plan, and where it runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fuser import DataType, FusionDefinition, errors
from fuser.runtime.calls.call import device_of, key_of


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


@pytest.mark.parametrize("device", [256, 300, "cuda:300"])
def test_numbers_that_torch_cuts_to_8_bits_are_no_devices(device: int | str):
    with pytest.raises(errors.ArgumentError, match=f"device = .*{device}.*: .* from 0 to 127"):
        device_of([], device)
