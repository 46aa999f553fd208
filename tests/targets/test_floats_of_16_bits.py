"""Floats of 16 bits on a processor: converted a vector at a time, and right at any length."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import agrees, defined, only_kernel

FLOATS = [torch.float32, torch.bfloat16, torch.float16]
NARROW = [torch.bfloat16, torch.float16]
FUSER = {
    torch.float32: DataType.Float,
    torch.bfloat16: DataType.BFloat16,
    torch.float16: DataType.Half,
}


def weighted(fd: FusionDefinition, *inputs: Handle) -> Handle:
    """x y + bias, in float32."""
    x, y, bias = (fd.ops.cast(each, DataType.Float) for each in inputs)
    return x * y + fd.ops.broadcast(bias, [True, False])


def given(rows: int, columns: int, dtype: torch.dtype) -> list[torch.Tensor]:
    x = torch.randn(rows, columns) * 100
    x.view(-1)[::37] = 1e-6  # subnormal as float16
    x.view(-1)[::41] = 3e38
    x.view(-1)[::43] = torch.nan
    return [x.to(dtype), torch.randn(rows, columns).to(dtype), torch.randn(columns).to(dtype)]


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 31), (5, 64), (7, 65), (2, 1000), (300, 97)], ids=str
)
def test_points_are_right(of: torch.dtype, to: torch.dtype, shape: tuple[int, int]) -> None:
    inputs = given(*shape, of)
    fd = defined(lambda fd, *xs: fd.ops.cast(weighted(fd, *xs), FUSER[to]), *inputs)
    agrees(fd, inputs, "cpu")


@pytest.mark.parametrize("dtype", NARROW)
def test_points_that_stay_in_the_cache_come_in_chunks(dtype: torch.dtype) -> None:
    inputs = given(40, 256, dtype)
    fd = defined(lambda fd, *xs: fd.ops.cast(weighted(fd, *xs), FUSER[dtype]), *inputs)
    source = only_kernel(fd, inputs).code
    assert f"read_{FUSER[dtype].spelling}(T0" in source
    assert "stream_rounded(" in source


def normalized(fd: FusionDefinition, x: Handle) -> Handle:
    wide = fd.ops.cast(x, DataType.Float)
    powers = fd.ops.exp(wide - fd.ops.max(wide, [1], keepdim=True))
    return fd.ops.cast(powers / fd.ops.sum(powers, [1], keepdim=True), x.value.dtype)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("length", [17, 31, 32, 33, 63, 100, 128, 255, 256, 300])
def test_short_rows_are_rounded_in_vectors(dtype: torch.dtype, length: int) -> None:
    x = torch.randn(100, length).to(dtype)
    fd = defined(normalized, x)
    assert ("stream_rounded" in only_kernel(fd, [x]).code) == (length >= 32)
    agrees(fd, [x], "cpu")


@pytest.mark.parametrize("dtype", NARROW)
def test_gaps_between_rows_stay_as_they_are(dtype: torch.dtype) -> None:
    room = torch.full((50, 80), 7.0, dtype=dtype)
    x = torch.randn(50, 70).to(dtype)
    with FusionDefinition() as fd:
        out = fd.from_pytorch(room[:, :70])
        fd.add_output(normalized(fd, fd.from_pytorch(x)), alias_input=out)
    fd.execute([room[:, :70], x])
    assert torch.equal(room[:, 70:], torch.full((50, 10), 7.0, dtype=dtype))
    torch.testing.assert_close(room[:, :70], torch.softmax(x.float(), 1).to(dtype))
