"""Blocks over the points of a GPU: a dimension of the grid for an axis, or numbers of blocks."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.codegen import KernelSource
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from fuser.schedule.code import cuda_blocks
from tests.definitions import Define, agrees, defined, only_kernel
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

Case = tuple[Define, torch.Tensor]

ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
MOST = pytest.mark.parametrize("most", [65535, 4], ids=["as CUDA has", "as few as make numbers"])
"""Blocks along the second and the third dimension of a grid."""


def doubled(fd: FusionDefinition, x: Handle) -> Handle:
    return x + x


def turned(fd: FusionDefinition, x: Handle) -> Handle:
    """The last two dimensions are exchanged, in memory too."""
    rank = len(x.shape())
    dims = [*range(rank - 2), rank - 1, rank - 2]
    return fd.ops.stride_order(fd.ops.permute(x, dims), [*range(rank)][::-1])


def apart(*shape: int) -> torch.Tensor:
    """A tensor no two dimensions of which can be walked as one."""
    return torch.randn([size + 1 for size in shape])[tuple(slice(size) for size in shape)]


TO_THREE_AXES: list[Case] = [
    (doubled, apart(37, 20)),
    (doubled, apart(9, 37, 20)),
    (turned, torch.randn(300, 130)),
    (turned, torch.randn(5, 70, 130)),
]
MORE_AXES: list[Case] = [
    (doubled, apart(3, 5, 17, 6)),
    (doubled, apart(2, 3, 5, 37, 3)),
    (turned, apart(2, 3, 70, 66)),
]
UP_TO_THREE = pytest.mark.parametrize(("define", "x"), TO_THREE_AXES)
MORE = pytest.mark.parametrize(("define", "x"), MORE_AXES)
DEFINED = pytest.mark.parametrize(("define", "x"), TO_THREE_AXES + MORE_AXES)


def kernel_source(define: Define, x: torch.Tensor) -> KernelSource:
    return only_kernel(defined(define, x), [x], "cuda:sm_90")


@UP_TO_THREE
def test_no_size_is_divided_by_for_up_to_three_axes(define: Define, x: torch.Tensor):
    text = kernel_source(define, x).kernel
    assert "tile %" not in text
    assert "tile /=" not in text
    assert "blockIdx.y" in text


@MORE
def test_axes_beyond_the_third_share_its_dimension(define: Define, x: torch.Tensor):
    text = kernel_source(define, x).kernel
    assert "unsigned int tile = blockIdx.z;" in text
    assert text.count("tile /=") == len(x.shape) - 3


@DEFINED
def test_few_blocks_and_many_have_one_text(define: Define, x: torch.Tensor):
    sizes = [3 * size for size in x.shape]
    many = torch.empty(sizes, device="meta") if x.is_contiguous() else apart(*sizes)
    assert kernel_source(define, x).code == kernel_source(define, many).code


@pytest.mark.parametrize(("rows", "numbered"), [(65535, False), (65536, True)])
def test_blocks_are_numbered_where_the_grid_has_no_room(rows: int, numbered: bool):
    x = torch.empty_strided((rows, 3, 70), (1000, 100, 1), device="meta")
    source = kernel_source(doubled, x)
    assert source.launch.numbered == numbered
    assert ("tile = blockIdx.x;" in source.kernel) == numbered
    assert source.launch.grid[2] == (1 if numbered else rows)


@DEFINED
@MOST
@ORDERS
def test_blocks_cover_all_points(
    define: Define,
    x: torch.Tensor,
    most: int,
    order: ThreadOrder,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(cuda_blocks, "MOST_BLOCKS", most)
    monkeypatch.setattr(EmulatorBackend, "order", order)
    agrees(defined(define, x), [x], "emulator")


def of_few_tiles(x: torch.Tensor) -> torch.Tensor:
    """2 x 2 tiles of 2 planes at most: the thread sanitizer takes most of a millisecond for every
    thread."""
    if not x.is_contiguous():
        return x
    *planes, rows, columns = x.shape
    few = [*(min(size, 2) for size in planes), 64 + rows % 64, 64 + columns % 64]
    return x[tuple(map(slice, few))].contiguous()


@pytest.mark.sanitizer
@DEFINED
def test_sanitizers_find_nothing_of_points_in_a_grid(
    define: Define, x: torch.Tensor, sanitizer: Sanitizer
):
    few = of_few_tiles(x)
    assert kernel_source(define, few).code == kernel_source(define, x).code
    fd = defined(define, few)
    results = run_plan_sanitized(fd, [few], sanitizer)
    torch.testing.assert_close(results, interpret(fd.fusion, [few]))
