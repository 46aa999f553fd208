"""Large CPU outputs are stored past the cache, in chunks: every element, whatever the sizes."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.schedule import CpuRowParameters
from tests.mapped_by import PAST_CACHE, map_by

pytestmark = pytest.mark.usefixtures("past_cache")


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


@pytest.mark.parametrize("columns", [512, 513, 575, 1000, 1024, 3001])
@pytest.mark.parametrize("dtype", [DataType.Float, DataType.BFloat16, DataType.Double])
def test_rows_that_are_normalized_are_stored_past_the_cache_too(
    columns: int, dtype: DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    map_by(monkeypatch, CpuRowParameters(PAST_CACHE))
    x = torch.randn(9, columns, generator=torch.Generator().manual_seed(0)).to(dtype.torch)
    with FusionDefinition() as fd:
        wide = fd.ops.cast(fd.from_pytorch(x), DataType.Double)
        e = fd.ops.exp(wide - fd.ops.max(wide, [1], keepdim=True))
        probabilities = e / fd.ops.sum(e, [1], keepdim=True)
        fd.add_output(fd.ops.cast(probabilities, dtype))
        fd.add_output(fd.ops.cast(probabilities, DataType.Float))
    (kernel,) = fd.plan([x]).kernels
    assert "stream_chunk(" in kernel.source
    for got in fd.execute([x]):
        assert torch.allclose(got.double(), torch.softmax(x.double(), 1), rtol=8e-3, atol=1e-7)


@pytest.mark.parametrize("elements", [64, 1000, 4096])
def test_chunks_are_rounded_as_single_elements_are(elements: int) -> None:
    special = [torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1e-40, -3e-39, 3.4e38, 1.00390625]
    x = torch.randn(elements, generator=torch.Generator().manual_seed(0)) * 1e-3
    for spread in (x.clone(), torch.cat([torch.tensor(special), x])[:elements]):
        with FusionDefinition() as fd:
            doubled = fd.from_pytorch(spread) * 1.0000001
            fd.add_output(fd.ops.cast(doubled, DataType.BFloat16))
        (kernel,) = fd.plan([spread]).kernels
        assert "stream_rounded(" in kernel.source
        got, expected = fd.execute([spread])[0], (spread * 1.0000001).bfloat16()
        assert torch.equal(got.isnan(), expected.isnan())
        number = ~got.isnan()
        assert torch.equal(got[number].view(torch.int16), expected[number].view(torch.int16))
