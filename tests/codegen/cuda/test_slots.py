"""Folds over the rows in registers: what the text says, and what blocks leave to join."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.codegen import KernelSource, Workspace
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from fuser.schedule import CudaRowParameters
from tests.benchmark_kernels import BENCHMARKS, Benchmark
from tests.covering import more
from tests.definitions import agrees, defined, only_kernel
from tests.machine_code import memory_accesses
from tests.mapped_by import map_by
from tests.row_cases import CASES
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

GRADIENTS = [b for b in BENCHMARKS if "norm" in b.name and "backward" in b.name]
FLOATS = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
FEW = CudaRowParameters(multiprocessors=2, max_cluster=1)
"""Of a GPU on which every block has several of a few rows."""


def source_of(benchmark: Benchmark, dtype: torch.dtype, arch: str = "sm_90") -> KernelSource:
    inputs = benchmark.inputs(dtype)
    return only_kernel(benchmark.defined(inputs), inputs, f"cuda:{arch}")


def twice_and_sum(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """Twice every element, and the sums of all columns."""
    return [x * 2.0, fd.ops.sum(x, [0])]


def row_and_column_sums(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """What is left of a row without its mean; the sums and the largest of all columns."""
    return [
        x - fd.ops.mean(x, [1], keepdim=True),
        fd.ops.sum(x, [0]),
        fd.ops.max(x, [0]),
        fd.ops.sum(x, [0, 1]),
    ]


@FLOATS
@pytest.mark.parametrize("benchmark", GRADIENTS, ids=str)
def test_sums_of_columns_are_registers(benchmark: Benchmark, dtype: torch.dtype):
    code = source_of(benchmark, dtype).code
    rows = code.partition("for (int32 i0")[2].partition("__syncthreads()")[0]
    sums = set(re.findall(r"(T\d+_part)\[round\]\[lane\] = ", rows))
    assert len(sums) == (1 if benchmark.name.startswith("rmsnorm") else 2)
    for name in sums:
        assert re.search(rf"\n  float {name}\[\d+\]\[\d+\];", code)
        assert f"__shared__ float {name}[" not in code


@FLOATS
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("benchmark", GRADIENTS, ids=str)
def test_blocks_leave_at_most_two_parts_for_each_multiprocessor(
    benchmark: Benchmark, arch: str, dtype: torch.dtype
):
    source, given = source_of(benchmark, dtype, arch), CudaRowParameters.of(arch)
    assert source.launch.grid[0] <= 2 * given.multiprocessors
    length = benchmark.shapes[0][1]
    parts = [a for a in source.arguments if isinstance(a, Workspace) and a.name != "finished"]
    assert all(part.elements == source.launch.grid[0] * length for part in parts)


def test_shared_memory_is_for_what_warps_exchange_while_rows_are_done():
    (benchmark,) = (b for b in GRADIENTS if str(b) == "layernorm backward [8192, 4096]")
    accesses = memory_accesses(compile_cuda(source_of(benchmark, torch.float32), "sm_90"))
    assert not [key for key in accesses if key[0] in ("LDS", "STS") and key[1] > 64]


@pytest.mark.parametrize("rows", [1, 5, 37, 100])
@pytest.mark.parametrize("length", [8, 20, 64, 100, 131, 1000])
@pytest.mark.parametrize("make", [twice_and_sum, row_and_column_sums])
def test_any_number_of_rows_for_few_blocks(
    make: Callable[[FusionDefinition, Handle], list[Handle]],
    length: int,
    rows: int,
    monkeypatch: pytest.MonkeyPatch,
):
    map_by(monkeypatch, FEW)
    for x in (torch.randn(rows, length), torch.randn(rows, length + 8)[:, :length]):
        agrees(defined(make, x), [x], "emulator")


@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
@pytest.mark.parametrize("rows", [2, 30, 100])
@pytest.mark.parametrize("length", [64, 1000, 1004, 2048])
def test_teams_of_which_few_fill_a_multiprocessor(
    length: int, rows: int, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    map_by(monkeypatch, FEW)
    monkeypatch.setattr(EmulatorBackend, "order", order)
    (case,) = (case for case in CASES if case.name == "layernorm backward")
    g, x = (torch.randn(rows, length).bfloat16() for _ in range(2))
    inputs = [g, x, torch.randn(length).bfloat16()]
    agrees(case.defined_for(inputs), inputs, "emulator")


@pytest.mark.sanitizer
@pytest.mark.parametrize("name", ["layernorm backward", "sums of rows and columns"])
def test_sanitizers_find_nothing_in_teams_of_several_warps(
    name: str, sanitizer: Sanitizer, monkeypatch: pytest.MonkeyPatch
):
    map_by(monkeypatch, FEW)
    g, x = (torch.randn(19, 1000) for _ in range(2))
    if name == "layernorm backward":
        (case,) = (case for case in CASES if case.name == name)
        inputs = [g, x, torch.randn(1000)]
        fd = case.defined_for(inputs)
    else:
        inputs = [x]
        fd = defined(row_and_column_sums, x)
    threads, teams, _ = only_kernel(fd, inputs, "emulator").launch.block
    assert threads > 32
    assert teams > 1
    got = run_plan_sanitized(fd, inputs, sanitizer)
    for result, expected in zip(got, interpret(fd.fusion, inputs), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [100, 1000, 8192, *more(500, 3000)])
def test_blocks_of_crowded_registers_run_at_once(rows: int):
    inputs = [torch.empty(s, dtype=torch.bfloat16) for s in ((rows, 768), (rows, 768), (768,))]
    (case,) = (case for case in CASES if case.name == "layernorm backward")
    (kernel,) = case.defined_for(inputs).plan(inputs, target="cuda:sm_90").kernels
    assert kernel.kernel_source is not None
    launch, threads = kernel.kernel_source.launch, kernel.kernel_source.launch.max_threads
    assert 512 < launch.resident * threads <= 768
    assert launch.grid[0] <= min(132 * launch.resident, 264)
    assert kernel.compile().spill_bytes == 0


def test_few_rows_are_shared_out_over_more_blocks():
    grids: list[tuple[int, int]] = []
    for rows in (100, 500, 1000, 8192):
        x = torch.empty(rows, 768, device="meta")
        launch = only_kernel(defined(row_and_column_sums, x), [x], "cuda:sm_90").launch
        grids.append((launch.grid[0], launch.block[1]))
    assert grids == [(100, 1), (250, 2), (250, 4), (264, 4)]


def test_sums_are_the_same_at_every_call(monkeypatch: pytest.MonkeyPatch):
    map_by(monkeypatch, FEW)
    (case,) = (case for case in CASES if case.name == "layernorm backward")
    inputs = case.inputs(260, torch.float32)
    fd = case.defined_for(inputs)
    first = fd.execute(inputs, target="emulator")
    assert all(map(torch.equal, fd.execute(inputs, target="emulator"), first))
