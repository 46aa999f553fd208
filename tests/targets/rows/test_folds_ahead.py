"""Folds of rows that a CUDA thread reads in several rounds: the loads of some come before the first
is used."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen import KernelSource
from fuser.frontend.handles import Handle
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.cuda.sass import disassemble
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from fuser.schedule import CudaRowParameters
from tests.bytes_in_flight import bytes_in_flight
from tests.definitions import agrees, only_kernel
from tests.mapped_by import map_by
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

Define = Callable[[FusionDefinition, Handle], list[Handle]]

ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
ARCHS = pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])


def all_of_it(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """One row, which blocks share."""
    return [fd.ops.sum(x * x, [0, 1])]


def both_ways(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """Rows whose threads have the sums of columns in registers."""
    return [fd.ops.sum(x, [1]), fd.ops.sum(x, [0]), fd.ops.max(x, [0, 1])]


DEFINITIONS = pytest.mark.parametrize("define", [all_of_it, both_ways])


def defined(define: Define, x: torch.Tensor) -> FusionDefinition:
    with FusionDefinition() as fd:
        for out in define(fd, fd.ops.cast(fd.from_pytorch(x), DataType.Float)):
            fd.add_output(out)
    return fd


def source_of(define: Define, x: torch.Tensor, arch: str = "sm_90") -> KernelSource:
    return only_kernel(defined(define, x), [x], f"cuda:{arch}")


@ORDERS
@DTYPES
@DEFINITIONS
@pytest.mark.parametrize("shape", [(20, 3072), (9, 2056), (64, 2080)], ids=str)
def test_numbers(
    define: Define,
    shape: tuple[int, int],
    dtype: torch.dtype,
    order: ThreadOrder,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    map_by(monkeypatch, CudaRowParameters(multiprocessors=1))
    x = torch.randn(shape).to(dtype)
    assert "_ahead[" in source_of(define, x).code
    agrees(defined(define, x), [x], "emulator")


@pytest.mark.sanitizer
@DEFINITIONS
def test_sanitizers_find_nothing(
    define: Define, sanitizer: Sanitizer, monkeypatch: pytest.MonkeyPatch
):
    map_by(monkeypatch, CudaRowParameters(multiprocessors=1))
    x = torch.randn(9, 2056)
    assert "_ahead[" in source_of(define, x).code
    run_plan_sanitized(defined(define, x), [x], sanitizer, ThreadOrder.RUN_AHEAD)


@ARCHS
@DTYPES
@DEFINITIONS
def test_loads_of_rounds_are_on_their_way_together(define: Define, dtype: torch.dtype, arch: str):
    """Of a row that is split, four; else all of a row."""
    x = torch.empty(8192, 3072, dtype=dtype, device="meta")
    cubin = compile_cuda(source_of(define, x, arch), arch)
    assert cubin.resources.spill_bytes == 0
    text = disassemble(cubin)
    if text.startswith("nvdisasm is missing"):
        pytest.skip(text)
    rows, _, _ = text.partition("BAR.SYNC")
    wanted = 64 if define is all_of_it or dtype is torch.float32 else 32
    assert bytes_in_flight(rows) >= wanted


def losses(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """Short rows, of which every block leaves a number."""
    return [fd.ops.mean(fd.ops.log(fd.ops.sum(fd.ops.exp(x), [1])), [0])]


@ORDERS
@pytest.mark.parametrize("rows", [20_000, 130])
def test_numbers_of_many_blocks(rows: int, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    x = torch.randn(rows, 8)
    agrees(defined(losses, x), [x], "emulator")


@ARCHS
def test_the_last_block_asks_for_some_numbers_at_once(arch: str):
    source = source_of(losses, torch.empty(1 << 20, 8, device="meta"), arch)
    assert source.launch.grid[0] > 8 * math.prod(source.launch.block)
    text = disassemble(compile_cuda(source, arch))
    if text.startswith("nvdisasm is missing"):
        pytest.skip(text)
    assert "ATOMG" in text
    assert bytes_in_flight(text.rpartition("ATOMG")[2]) >= 8 * 4


@ORDERS
def test_rows_that_are_read_twice_between_those_that_blocks_share(
    order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    """Both times, the same names are there for the loop."""
    monkeypatch.setattr(EmulatorBackend, "order", order)
    chosen, given = torch.rand(100, 100) > 0.1, torch.randn(31).bfloat16()
    with FusionDefinition() as fd:
        among = fd.from_pytorch(chosen)
        spread = fd.ops.broadcast(fd.ops.var(fd.from_pytorch(given), [0]), [True])
        picked = fd.ops.where(among, spread, 1)
        fd.add_output(fd.ops.minimum(picked, fd.ops.min(picked, [0, 1], keepdim=True)))
    agrees(fd, [chosen, given], "emulator")
