"""Large CPU outputs are stored past the cache, in chunks: every element, whatever the sizes."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.schedule import CpuParameters


@pytest.fixture(autouse=True)
def _stream_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every output as larger than the cache."""
    monkeypatch.setattr(
        "fuser.runtime.backend.CpuParameters", lambda: CpuParameters(stream_bytes=0)
    )


@pytest.mark.parametrize("elements", [64, 65, 127, 128, 1000, 4096, 100_003])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.float64])
def test_every_element_of_a_row_is_stored(elements: int, dtype: torch.dtype) -> None:
    x = torch.arange(elements).remainder(100).to(dtype)
    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(x) + 1)
    (kernel,) = fd.plan([x]).kernels
    assert "stream_chunk(" in kernel.source
    assert torch.equal(fd.execute([x])[0].float(), x.float() + 1)


@pytest.mark.parametrize("row", [64, 100, 513])
def test_rows_that_are_not_aligned_are_stored_too(row: int) -> None:
    x, bias = torch.randn(7, row), torch.randn(row)
    with FusionDefinition() as fd:
        total = fd.from_pytorch(x) + fd.from_pytorch(bias)
        fd.add_output(total)
        fd.add_output(fd.ops.cast(total, dtype=DataType.Half))
    wide, half = fd.execute([x, bias])
    assert torch.equal(wide, x + bias)
    assert torch.equal(half, (x + bias).half())


@pytest.mark.parametrize(
    ("dtype", "row"), [(torch.float32, 64), (torch.float32, 200), (torch.int8, 300)]
)
def test_a_permuted_copy_moves_rows(dtype: torch.dtype, row: int) -> None:
    x = torch.arange(3 * 5 * row).reshape(3, 5, row).to(dtype)
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1, -1, -1], contiguity=True, dtype=_named(dtype))
        swapped = fd.ops.set(fd.ops.permute(t, dims=[1, 0, 2]))
        fd.add_output(fd.ops.reshape(swapped, new_shape=[15, row]))
    (kernel,) = fd.plan([x]).kernels
    assert "stream_row(" in kernel.source
    assert torch.equal(fd.execute([x])[0], x.permute(1, 0, 2).reshape(15, row))


def test_short_rows_are_not_streamed() -> None:
    x = torch.randn(10, 63)
    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(x[:, :62]) * 2.0)
    (kernel,) = fd.plan([x[:, :62]]).kernels
    assert "stream" not in kernel.source


def _named(dtype: torch.dtype) -> DataType:
    return DataType.Float if dtype is torch.float32 else DataType.Int8
