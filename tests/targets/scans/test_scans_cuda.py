"""Scans on a GPU: how memory is moved for them, and how much of it at once."""

from __future__ import annotations

import re

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen import KernelSource
from fuser.ir.interpret import interpret
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.cuda.sass import disassemble
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from fuser.schedule.cuda_parameters import CudaRowParameters
from tests.bytes_in_flight import bytes_in_flight
from tests.definitions import agrees, only_kernel
from tests.machine_code import memory_accesses
from tests.mapped_by import map_by
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
ARCHS = pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])


def scan(x: torch.Tensor, dim: int, *, from_the_end: bool) -> FusionDefinition:
    """A running sum of what is computed of each element, in float32."""
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        t = fd.ops.cast(given, DataType.Float) * 0.5
        t = fd.ops.flip(t, [dim]) if from_the_end else t
        t = fd.ops.cumsum(t, dim)
        t = fd.ops.flip(t, [dim]) if from_the_end else t
        fd.add_output(fd.ops.cast(t, given.dtype()))
    return fd


def source_of(
    shape: tuple[int, ...], dim: int, dtype: torch.dtype, arch: str, *, from_the_end: bool = False
) -> KernelSource:
    x = torch.empty(shape, dtype=dtype, device="meta")
    return only_kernel(scan(x, dim, from_the_end=from_the_end), [x], f"cuda:{arch}")


@ORDERS
@DTYPES
@pytest.mark.parametrize("shape", [(9, 304), (40, 2048), (3, 3080), (2, 60_000), (1, 70_000)])
def test_vectors_from_the_end(
    shape: tuple[int, int], dtype: torch.dtype, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    x = torch.randn(shape).to(dtype)
    fd = scan(x, 1, from_the_end=True)
    assert "turn_lanes(" in only_kernel(fd, [x], "cuda:sm_90").code
    agrees(fd, [x], "emulator")


@ORDERS
@DTYPES
@pytest.mark.parametrize("length", [301, 302])
def test_parts_of_vectors_from_the_end_go_by_elements(
    length: int, dtype: torch.dtype, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    x = torch.randn(9, length).to(dtype)
    fd = scan(x, 1, from_the_end=True)
    assert "turn_lanes(" not in only_kernel(fd, [x], "cuda:sm_90").code
    agrees(fd, [x], "emulator")


@ARCHS
@DTYPES
def test_memory_is_moved_in_vectors_in_both_directions(dtype: torch.dtype, arch: str):
    for from_the_end in (False, True):
        source = source_of((8192, 3072), 1, dtype, arch, from_the_end=from_the_end)
        found = memory_accesses(compile_cuda(source, arch))
        moved = {key for key in found if key[0] in ("LDG", "STG")}
        assert moved == {("LDG", 128), ("STG", 128)}


@ORDERS
@DTYPES
@pytest.mark.parametrize("shape", [(300, 64), (70, 48), (1000, 16), (513, 40)], ids=str)
@pytest.mark.parametrize("from_the_end", [False, True])
def test_few_columns(
    shape: tuple[int, int],
    dtype: torch.dtype,
    order: ThreadOrder,
    monkeypatch: pytest.MonkeyPatch,
    *,
    from_the_end: bool,
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    map_by(monkeypatch, CudaRowParameters(multiprocessors=2))
    x = torch.randn(shape).to(dtype)
    agrees(scan(x, 0, from_the_end=from_the_end), [x], "emulator")


@ORDERS
def test_what_columns_that_are_scanned_come_to(order: ThreadOrder, monkeypatch: pytest.MonkeyPatch):
    """A sum beside the scan: the threads of a narrow column join theirs."""
    monkeypatch.setattr(EmulatorBackend, "order", order)
    x = torch.randn(300, 48)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.cumsum(t, 0) + fd.ops.sum(t, [0], keepdim=True))
    assert only_kernel(fd, [x], "cuda:sm_90").launch.block[0] < 32
    agrees(fd, [x], "emulator")


@pytest.mark.sanitizer
@pytest.mark.parametrize(("shape", "dim"), [((3, 1040), 1), ((70, 48), 0)], ids=str)
def test_sanitizers_find_nothing(shape: tuple[int, int], dim: int, sanitizer: Sanitizer):
    x = torch.randn(shape)
    fd = scan(x, dim, from_the_end=True)
    (got,) = run_plan_sanitized(fd, [x], sanitizer, ThreadOrder.RUN_AHEAD)
    (want,) = interpret(fd.fusion, [x])
    torch.testing.assert_close(got, want)


@ORDERS
@pytest.mark.parametrize("shape", [(20_001, 4), (9000, 3), (40_000, 1)], ids=str)
@pytest.mark.parametrize("from_the_end", [False, True])
def test_a_few_long_columns_are_scanned_in_parts(
    shape: tuple[int, int],
    order: ThreadOrder,
    monkeypatch: pytest.MonkeyPatch,
    *,
    from_the_end: bool,
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    x = torch.randn(shape)
    agrees(scan(x, 0, from_the_end=from_the_end), [x], "emulator")


def test_columns_are_scanned_in_parts_where_few_blocks_have_any():
    grids = {(1 << 23, 4): (4, 66, 1), (1 << 19, 64): (64, 4, 1), (8192, 3072): (384, 1, 1)}
    for shape, grid in grids.items():
        assert source_of(shape, 0, torch.float32, "sm_90").launch.grid == grid


def test_few_columns_have_more_threads_in_blocks_of_fewer_of_them():
    """As long as those of a block are whole sectors of 32 bytes."""
    shapes = {
        (3072, torch.float32): (384, (8, 32, 1)),
        (3072, torch.bfloat16): (192, (16, 32, 1)),
        (3076, torch.float32): (97, (32, 32, 1)),
        (100_000, torch.float32): (3125, (32, 16, 1)),
    }
    for (columns, dtype), (blocks, block) in shapes.items():
        launch = source_of((8192, columns), 0, dtype, "sm_90").launch
        assert (launch.grid[0], launch.block) == (blocks, block)


@ARCHS
@DTYPES
@pytest.mark.parametrize("length", [8192, 8190])
def test_elements_of_columns_are_on_their_way_together(length: int, dtype: torch.dtype, arch: str):
    """Also where a thread's last ones may be missing, and where they are narrow: a conversion would
    be waited for before the next load."""
    source = source_of((length, 3072), 0, dtype, arch)
    (lanes,) = re.findall(r"\bT\d+\[(\d+)\];", source.kernel)[:1]
    cubin = compile_cuda(source, arch)
    assert cubin.resources.spill_bytes == 0
    text = disassemble(cubin)
    if text.startswith("nvdisasm is missing"):
        pytest.skip(text)
    assert bytes_in_flight(text) >= int(lanes) * dtype.itemsize


@ORDERS
@pytest.mark.parametrize("elements", [2, 3, 8])
def test_short_columns_beside_a_fold_over_all_of_them(
    elements: int, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmulatorBackend, "order", order)
    x = torch.randn(elements, 4096, dtype=torch.float64)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        fd.add_output(fd.ops.cummax(given, dim=0))
        fd.add_output(fd.ops.sum(given, [0, 1]))
    agrees(fd, [x], "emulator")
