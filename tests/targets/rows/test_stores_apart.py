"""Rows that one lane does on a processor store their elements apart: of such a group of stores, g++
would make vectors, and none along the rows. (Softmax of rows of 8 took five times as long.)"""

import re

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import one_kernel, only_kernel

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.complex128,
]
STORE = re.compile(r"^\s*(T\d+)_out\[.*\] = (.*);$", re.MULTILINE)


def _stored(text: str) -> dict[str, list[bool]]:
    """By tensor, in turn, whether each store is apart."""
    found: dict[str, list[bool]] = {}
    for tensor, source in STORE.findall(text):
        found.setdefault(tensor, []).append(source.startswith(("apart(", "stored_byte(apart(")))
    return found


@pytest.mark.parametrize("length", range(2, 9))
def test_every_second_store_of_a_row_is_apart(length: int):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        scaled = x / fd.ops.sum(x, [1], keepdim=True)
        return [scaled, fd.ops.gt(scaled, 0.5)]

    x = torch.rand(100, length) + 0.5
    fd = one_kernel("cpu", define, x)

    scaled, above = _stored(only_kernel(fd, [x]).code).values()
    assert scaled == [number % 2 == 1 for number in range(length)]
    assert above == [False] * length, "g++ 12 fails where truth values are kept apart"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("length", [2, 3, 5, 8])
def test_every_type_is_stored(dtype: torch.dtype, length: int):
    def define(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
        positive = fd.ops.gt(fd.ops.sum(x, [1], keepdim=True), 0.0)
        return fd.ops.where(fd.ops.broadcast_in_dim(positive, [100, length], [0, 1]), y, 0)

    x, y = torch.randn(100, length), torch.randint(0, 2, (100, length)).to(dtype)
    one_kernel("cpu", define, x, y)
