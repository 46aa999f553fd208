"""Folds of rows that read one tensor across its lines of memory: tile by tile on the processor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CpuRowParameters, schedule_rows_cpu
from fuser.schedule.tree.loop_tree import every_node
from fuser.schedule.tree.row_statements import DrainRows, RowTile
from tests.schedule.row_bodies import segment_of

Define = Callable[[FusionDefinition, Handle, Handle], list[Handle]]


def scale_gradient(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
    """Of images with channels last, scaled and added to images with channels first."""
    turned = fd.ops.permute(y, [0, 2, 1])
    return [fd.ops.sum(x * turned, [0, 2]), x * 2.0]


def row_sums(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
    turned = fd.ops.permute(y, [0, 2, 1])
    return [fd.ops.sum(fd.ops.exp(x - turned), [2]), fd.ops.abs(x + turned)]


def finished_sums(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
    """What becomes of a row when it is done, and what it starts with."""
    turned = fd.ops.permute(y, [0, 2, 1])
    first = fd.ops.slice(x, [0, 0, 0], [99, 9999, 1])
    mean = fd.ops.mean((x - first) * turned, [2], keepdim=True)
    return [fd.ops.sqrt(fd.ops.abs(mean)) + first, x * turned]


def extremes(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
    turned = fd.ops.permute(y, [0, 2, 1])
    larger = fd.ops.maximum(x, turned)
    return [fd.ops.max(larger, [0, 2]), fd.ops.min(larger, [0, 2]), fd.ops.any(larger > 3.0, [2])]


def turned_results(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
    """Images with channels last made of those with channels first, and their sums: what attention
    gives back to its keys, and to their bias."""
    scaled = fd.ops.permute(x * 0.5, [0, 2, 1])
    last = fd.ops.stride_order(fd.ops.set(scaled), [2, 1, 0])
    return [last, fd.ops.sum(scaled, [0, 1]), x > 0.0]


CASES: dict[str, Define] = {
    "turned results": turned_results,
    "gradient of a scale": scale_gradient,
    "sums of rows": row_sums,
    "finished sums": finished_sums,
    "extremes": extremes,
}
SIZES = [
    (3, 96, 784),
    (6, 32, 64),
    (2, 7, 1024),
    (4, 20, 1009),
    (1, 64, 2500),
    (40, 8, 256),
    (5, 4, 512),
]


def defined(name: str, given: list[torch.Tensor]) -> FusionDefinition:
    with FusionDefinition() as fd:
        handles = [fd.from_pytorch(tensor) for tensor in given]
        if given[0].dtype is torch.bfloat16:
            handles = [fd.ops.cast(handle, DataType.Float) for handle in handles]
        for out in CASES[name](fd, *handles):
            fd.add_output(out)
    return fd


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_results_are_float64_s(name: str, size: tuple[int, int, int], dtype: torch.dtype) -> None:
    batch, channels, pixels = size
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(batch, channels, pixels, generator=generator).to(dtype)
    y = torch.randn(batch, pixels, channels, generator=generator).to(dtype)
    made = defined(name, [x, y]).execute([x, y])
    exact = [x.double(), y.double()]
    wide = defined(name, exact).execute(exact)
    for got, right in zip(made, wide, strict=True):
        scale = right.abs().max().item() if right.is_floating_point() else 0
        torch.testing.assert_close(got.to(right.dtype), right, rtol=1e-5, atol=2e-6 * scale)
    if name == "gradient of a scale":
        torch.testing.assert_close(wide[0], torch.einsum("bcp,bpc->c", *exact))


def test_nan_is_an_extreme_and_an_empty_sum_is_zero() -> None:
    x, y = torch.randn(2, 32, 512), torch.randn(2, 512, 32)
    x[1, 5, 300] = float("nan")
    largest, smallest, _ = defined("extremes", [x, y]).execute([x, y])
    for got, exact in ((largest, x.amax), (smallest, x.amin)):
        assert got.isnan().tolist() == exact((0, 2)).isnan().tolist()
    none = [x[:0], y[:0]]
    total, _ = defined("gradient of a scale", none).execute(none)
    assert total.tolist() == [0.0] * 32


@pytest.mark.parametrize(
    ("shape", "tiled"),
    [((8, 96, 3136), True), ((8, 97, 3137), False), ((8, 96, 64), True), ((8, 97, 64), False)],
)
def test_tiles_are_whole(shape: tuple[int, int, int], tiled: bool) -> None:
    batch, channels, pixels = shape
    x = torch.empty(shape, device="meta")
    y = torch.empty(batch, pixels, channels, device="meta")
    nest = schedule_rows_cpu(segment_of(CASES["gradient of a scale"], x, y), CpuRowParameters())
    assert ("of tiles" in nest.mapping) is tiled


def test_what_is_stored_across_lines_is_turned_too() -> None:
    x = torch.empty(2, 96, 128, device="meta")
    nest = schedule_rows_cpu(segment_of(CASES["turned results"], x, x), CpuRowParameters())
    tiles = [node for node in every_node(nest.body) if isinstance(node, RowTile)]
    drained = [node.tile for node in every_node(nest.body) if isinstance(node, DrainRows)]
    assert tiles == drained
    assert [(tile.rows.extent, tile.axis.extent) for tile in tiles] == [(16, 128)]


@pytest.mark.parametrize(
    ("channels", "pixels", "rows"),
    [(96, 784, 16), (24, 256, 8), (64, 197, 16), (20, 512, 4), (21, 1024, 0), (64, 2498, 0)],
)
def test_what_lies_across_lines_is_turned_in_blocks(channels: int, pixels: int, rows: int) -> None:
    x = torch.empty(2, channels, pixels, device="meta")
    y = torch.empty(2, pixels, channels, device="meta")
    nest = schedule_rows_cpu(segment_of(CASES["gradient of a scale"], x, y), CpuRowParameters())
    tiles = [node for node in every_node(nest.body) if isinstance(node, RowTile)]
    assert [tile.rows.extent for tile in tiles] == [rows] * (rows > 0)
    assert all(tile.axis.extent >= rows for tile in tiles)
