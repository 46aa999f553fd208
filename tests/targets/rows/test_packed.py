"""Codes of blocks that are packed into bytes: every second, or fourth, of all of them in a line."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import one_kernel


def packed(fd: FusionDefinition, x: Handle, elements: int, in_byte: int) -> tuple[Handle, Handle]:
    """Bytes of so many neighbouring codes each, and what each row was divided by."""
    bits = 8 // in_byte
    largest = fd.ops.max(fd.ops.abs(x), [1], keepdim=True)
    codes = fd.ops.round(fd.ops.abs(x / largest) * float(2**bits - 1))
    line = fd.ops.reshape(fd.ops.cast(codes, DataType.Int32), [elements])
    bytes_ = fd.ops.slice(line, [0], [elements], [in_byte])
    for number in range(1, in_byte):
        part = fd.ops.slice(line, [number], [elements], [in_byte])
        bytes_ = fd.ops.bitwise_or(bytes_, fd.ops.bitwise_left_shift(part, bits * number))
    return fd.ops.cast(bytes_, DataType.UInt8), largest


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("in_byte", [2, 4, 8])
@pytest.mark.parametrize(("blocks", "size"), [(12, 16), (1, 64), (40, 8), (9, 200), (3, 4096)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_packing_shares_the_kernel_of_what_is_packed(
    dtype: torch.dtype, blocks: int, size: int, in_byte: int, target: str
) -> None:
    x = torch.randn(blocks, size, generator=torch.Generator().manual_seed(size)).to(dtype)
    one_kernel(target, lambda fd, x: packed(fd, x, blocks * size, in_byte), x)
