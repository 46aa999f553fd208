"""Short rows that become bytes: floats are done in vectors of floats, and converted as a whole."""

from __future__ import annotations

import re

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen.kernel_source import KernelSource
from fuser.frontend.handles import Handle
from tests.definitions import agrees, only_kernel

ROWS = 132
"""Four more than whole batches."""

BYTES = {
    DataType.Int8: 127.0,
    DataType.UInt8: 255.0,
    DataType.Float8_e4m3fn: 448.0,
    DataType.Float8_e5m2: 57344.0,
    DataType.Float8_e8m0fnu: 2.0**100,
}
"""With the largest number that is made of them here."""


def quantized(
    length: int, dtype: DataType, given: DataType, *, back: bool = False
) -> FusionDefinition:
    """Rows by their largest element, in bytes; `back`: as floats again."""
    with FusionDefinition() as fd:
        x = fd.ops.cast(fd.define_tensor(shape=[-1, length], dtype=given), DataType.Float)
        largest = fd.ops.max(fd.ops.abs(x), [1], keepdim=True)
        scaled = fd.ops.div(x, largest) * BYTES[dtype]
        if dtype in (DataType.UInt8, DataType.Float8_e8m0fnu):
            scaled = fd.ops.abs(scaled)
        codes = fd.ops.cast(scaled if dtype.is_floating else fd.ops.round(scaled), dtype)
        fd.add_output(fd.ops.cast(codes, DataType.Float) * largest if back else codes)
        fd.add_output(largest)
    return fd


def packed(length: int) -> FusionDefinition:
    """Pairs of codes of 4 bits."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, length], dtype=DataType.Float)
        largest = fd.ops.max(fd.ops.abs(x), [1], keepdim=True)
        codes = fd.ops.cast(fd.ops.round(fd.ops.div(x, largest) * 7.0 + 8.0), DataType.UInt8)
        low, high = (every_second(fd, codes, length, start) for start in (0, 1))
        fd.add_output(fd.ops.bitwise_or(low, fd.ops.bitwise_left_shift(high, 4)))
    return fd


def every_second(fd: FusionDefinition, x: Handle, length: int, start: int) -> Handle:
    return fd.ops.slice(x, [0, start], [ROWS, length], [1, 2])


def rows(length: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(ROWS, length).to(dtype)


def sizes_of_loops(kernel: KernelSource) -> list[set[str]]:
    """The types of what is made in each loop that asks for vectors."""
    body = kernel.text[kernel.text.index('extern "C" void ') :]
    loops = re.findall(r"#pragma omp simd\n( *)for [^\n]*\{\n(.*?)\n\1\}", body, re.DOTALL)
    return [set(re.findall(r"^ *const (\w+) T", text, re.MULTILINE)) for _, text in loops]


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("given", [DataType.Float, DataType.BFloat16, DataType.Half])
def test_bytes_are_the_oracles(dtype: DataType, given: DataType) -> None:
    for length in (16, 24, 32, 48, 64, 100, 256):
        agrees(quantized(length, dtype, given), [rows(length, given.torch)], "cpu")


@pytest.mark.parametrize("dtype", [DataType.Int8, DataType.Float8_e4m3fn])
def test_floats_of_bytes_are_the_oracles(dtype: DataType) -> None:
    for length in (16, 40, 128):
        fd = quantized(length, dtype, DataType.Float, back=True)
        agrees(fd, [rows(length)], "cpu")


@pytest.mark.parametrize("length", [16, 32, 48, 64, 128])
def test_codes_in_one_byte_are_the_oracles(length: int) -> None:
    agrees(packed(length), [rows(length)], "cpu")


@pytest.mark.parametrize("dtype", [dtype for dtype in BYTES if dtype.is_floating])
def test_numbers_that_are_none_or_beyond_the_largest_become_what_the_oracle_says(
    dtype: DataType,
) -> None:
    """Of integers, C++ says nothing."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, 32], dtype=DataType.Float)
        folded = fd.ops.sum(fd.ops.cast(fd.ops.isnan(x), DataType.Float), [1], keepdim=True)
        fd.add_output(fd.ops.cast(x * (folded + 1.0), dtype))
    x = rows(32) * torch.tensor([1e-40, 1e-8, 1.0, 1e3, 1e5, torch.inf, -torch.inf, torch.nan] * 4)
    agrees(fd, [x], "cpu")


@pytest.mark.parametrize("dtype", BYTES)
def test_loops_have_numbers_of_one_size(dtype: DataType) -> None:
    for length in (16, 32):
        kernel = only_kernel(quantized(length, dtype, DataType.Float), [rows(length)])
        byte = dtype.spelling
        assert "convert_lanes(" in kernel.text
        assert {byte} in sizes_of_loops(kernel)
        assert not [types for types in sizes_of_loops(kernel) if byte in types and types != {byte}]


def test_many_lanes_fill_vectors_of_bytes() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, 1024], dtype=DataType.Float)
        fd.add_output(fd.ops.cast(x - fd.ops.sum(x, [1], keepdim=True), DataType.Int8))
    assert "convert_lanes(" not in only_kernel(fd, [rows(1024)]).text
