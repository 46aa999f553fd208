"""How many blocks run at once, by what the CUDA programming guide says of multiprocessors."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.codegen import Size, Workspace
from fuser.runtime.calls.buffers import room_maker
from fuser.runtime.cuda.occupancy import Capacity, filling_grid, resident_blocks
from fuser.runtime.emulator import build
from fuser.runtime.kernels.kernel import as_c, c_types
from fuser.runtime.kernels.resources import Resources
from fuser.schedule.tree.loop_nest import Launch

H100 = Capacity(132, 2048, 228 << 10)
A100 = Capacity(108, 2048, 164 << 10)


def launch(x: int, threads: int, *, cluster: int = 1, shared: int = 0) -> Launch:
    grid, block = (x, cluster, 1), (threads, 1, 1)
    return Launch(grid, block, threads, cluster=cluster, shared_bytes=shared, elastic=0)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "each"),
    [
        (512, 32, 0, 4),
        (512, 33, 0, 3),  # 40 of them are given out
        (512, 64, 0, 2),
        (256, 80, 0, 3),
        (1024, 64, 0, 1),
        (32, 16, 0, 32),
        (128, 32, 100 << 10, 2),
        (128, 32, 227 << 10, 1),
    ],
)
def test_blocks_of_a_multiprocessor(threads: int, registers: int, shared: int, each: int) -> None:
    taken = Resources(registers=registers, shared_bytes=0)
    assert resident_blocks(launch(1, threads, shared=shared), taken, H100) == 132 * each


@pytest.mark.parametrize(
    ("cluster", "registers", "clusters"), [(2, 64, 132), (4, 64, 64), (8, 64, 32), (8, 80, 16)]
)
def test_clusters_lie_in_a_group_of_multiprocessors(
    cluster: int, registers: int, clusters: int
) -> None:
    taken = Resources(registers=registers, shared_bytes=0)
    blocks = resident_blocks(launch(1, 512, cluster=cluster), taken, H100)
    assert blocks == clusters * cluster


def test_a_grid_is_no_larger_than_what_runs_at_once() -> None:
    taken = Resources(registers=80, shared_bytes=33 << 10)
    assert filling_grid(launch(528, 256), taken, H100) == (396, 1, 1)
    assert filling_grid(launch(33, 512, cluster=8), taken, H100) == (16, 8, 1)
    assert filling_grid(launch(200, 256), taken, H100) == (200, 1, 1)
    assert filling_grid(launch(264, 512), taken, H100) == (264, 1, 1)  # in two whole turns
    assert filling_grid(launch(264, 512), taken, A100) == (108, 1, 1)
    assert filling_grid(launch(8 * 132 - 20, 512), taken, H100) == (8 * 132 - 20, 1, 1)


def test_parts_of_a_row_may_be_fewer_as_well() -> None:
    given, taken = Launch((96, 5, 1), (32, 16, 1), 512, elastic=1), Resources(registers=40)
    assert filling_grid(given, taken, H100) == (96, 4, 1)


def sums_of_columns(fd: FusionDefinition) -> None:
    x = fd.define_tensor(shape=[-1, -1], contiguity=True)
    centered = x - fd.ops.mean(x, [1], keepdim=True)
    fd.add_output(centered)
    fd.add_output(fd.ops.sum(centered * x, [0]))


def sum_of_everything(fd: FusionDefinition) -> None:
    fd.add_output(fd.ops.sum(fd.define_tensor(shape=[-1, -1], contiguity=True)))


@pytest.mark.parametrize("define", [sums_of_columns, sum_of_everything])
def test_fewer_blocks_do_the_same(define: Callable[[FusionDefinition], None]) -> None:
    with FusionDefinition() as fd:
        define(fd)
    x = torch.randn(600, 500)
    (kernel,) = fd.plan([x], target="emulator").kernels
    source = kernel.kernel_source
    assert source is not None
    along = source.launch.elastic
    assert along is not None
    whole = math.prod(source.launch.grid)
    assert whole > 40
    wanted = fd.execute([x], target="emulator")
    for blocks in (1, 2, 33):
        grid = list(source.launch.grid)
        grid[along] = blocks
        made = [torch.full_like(tensor, torch.nan) for tensor in wanted]
        addresses = [tensor.data_ptr() for tensor in (x, *made)]
        used = [a for a in source.arguments if isinstance(a, Workspace)]
        rooms = [room_maker(workspace, x.device)() for workspace in used]
        sizes = [a.number for a in source.arguments if isinstance(a, Size)]
        numbers = [*addresses, *(held.data_ptr() for held in rooms), *sizes]
        build(source.code, source.name).launch(
            tuple(grid), source.launch.block, as_c(c_types(source), numbers)
        )
        for got, right in zip(made, wanted, strict=True):
            torch.testing.assert_close(got, right, rtol=1e-4, atol=1e-3)
