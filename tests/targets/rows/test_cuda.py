"""Reductions, normalizations and gathers as CUDA: the oracle's numbers, and no spills."""

from __future__ import annotations

import math
import re

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from fuser import DataType, FusionDefinition
from fuser.codegen import KernelSource, by_residency
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.cuda.nvrtc import compile_cubin
from fuser.runtime.emulator import ThreadOrder
from fuser.schedule.tree.loop_nest import Launch
from tests.definitions import Define, agrees, close, defined
from tests.row_cases import CASES, INTEGER_CASES, RowCase, Tensors
from tests.row_functions import layernorm
from tests.strategies import (
    FACTORIES,
    GATHERS,
    METADATA,
    NORMALIZATIONS,
    POINTWISE,
    REDUCTIONS,
    RESIZES,
    SCANS,
    SLICES,
    Definition,
    definitions,
)

LENGTHS = (1, 7, 33, 257, 1025)
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
ARCHS = ("sm_80", "sm_90", "sm_100")

random_fusions = definitions(
    (
        *(*POINTWISE, *METADATA, *FACTORIES, *SLICES, *RESIZES),
        *(*REDUCTIONS, *NORMALIZATIONS, *GATHERS, *SCANS),
    ),
    max_operations=10,
)


def check(fd: FusionDefinition, inputs: Tensors, length: int) -> None:
    """The emulator gives the oracle's numbers."""
    kernels = fd.plan(inputs, target="emulator").kernels
    assert all(kernel.scheduler != "torch" for kernel in kernels)
    want = interpret(fd.fusion, inputs)
    close(fd.execute(inputs, target="emulator"), want, length)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_of_any_length(case: RowCase, length: int):
    inputs = case.inputs(length, torch.float32)
    check(case.defined_for(inputs), inputs, 40 * length)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_of_any_float(case: RowCase, dtype: torch.dtype):
    inputs = case.inputs(64, dtype)
    check(case.defined_for(inputs), inputs, 40 * 64)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("case", INTEGER_CASES, ids=str)
def test_rows_of_integers(case: RowCase, dtype: torch.dtype):
    inputs = case.inputs(65, dtype)
    check(case.defined_for(inputs), inputs, 1)


@pytest.mark.parametrize("order", list(ThreadOrder), ids=lambda order: order.name)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_in_any_thread_order(
    case: RowCase, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    inputs = case.inputs(260, torch.float32)
    check(case.defined_for(inputs), inputs, 40 * 260)


@pytest.mark.parametrize("order", list(ThreadOrder), ids=lambda order: order.name)
def test_random_fusions(order: ThreadOrder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(EmulatorBackend, "order", order)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(random_fusions)
    def run(definition: Definition) -> None:
        with FusionDefinition() as fd:
            definition.build(fd)
        agrees(fd, definition.inputs, "emulator")

    run()


def test_a_layernorm_made_double_at_last_is_as_exact_as_float():
    x = torch.randn(3, 8)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        var, mean = fd.ops.var_mean(t, [1], keepdim=True)
        normed = (t - mean) * fd.ops.rsqrt(var + 1e-5)
        fd.add_output(fd.ops.cast(normed, DataType.Double))
    agrees(fd, [x], "emulator")


@pytest.mark.parametrize("length", [9000, 9001])
def test_folds_over_the_rows_too_many_for_shared_memory(length: int):
    (case,) = (case for case in CASES if case.name == "layernorm backward")
    inputs = case.inputs(length, torch.float32)
    check(case.defined_for(inputs), inputs, 40 * length)


def _channels(fd: FusionDefinition, x: Handle) -> Handle:
    return layernorm(fd, x, [0, 2])


def _sums(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.sum(x, [1, 2]), fd.ops.sum(x, [0, 1, 2])]


def _scanned_and_summed(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.cumsum(x, 2), fd.ops.sum(x, [0, 1, 2])]


@pytest.mark.parametrize(
    ("define", "sizes"),
    [(_channels, (400, 3, 1023)), (_sums, (4, 1, 200_001)), (_scanned_and_summed, (4, 1, 200_001))],
)
def test_few_long_rows_are_in_kernels_that_split_them(define: Define, sizes: tuple[int, ...]):
    x = torch.randn(sizes)
    fd = defined(define, x)
    kernels = fd.plan([x], target="cuda:sm_90").kernels
    assert len(kernels) > 1
    sources = [kernel.kernel_source for kernel in kernels if 2 * kernel.bytes_read >= x.nbytes]
    assert all(math.prod(source.launch.grid) >= 64 for source in sources if source)
    agrees(fd, [x], "emulator")


def _norm(fd: FusionDefinition, *tensors: Handle) -> Handle:
    """Of all elements of several tensors."""
    first, *rest = (fd.ops.sum(x * x, [*range(x.ndim)]) for x in tensors)
    return fd.ops.sqrt(sum(rest, first))


def test_sums_of_several_tensors_are_split_over_blocks():
    shapes = (4096, 4096), (7,), (1000, 64, 3)
    inputs = [torch.empty(shape, device="meta") for shape in shapes]
    (kernel,) = defined(_norm, *inputs).plan(inputs, target="cuda:sm_90").kernels
    assert math.prod(kernel.kernel_source.launch.grid) >= 2 * 132


@pytest.mark.parametrize("sizes", [(4, 40_000), (3, 20_000, 8)], ids=str)
def test_what_a_row_has_stored_once_does_not_keep_it_together(sizes: tuple[int, ...]):
    def define(fd: FusionDefinition, x: Handle, scale: Handle) -> list[Handle]:
        doubled = scale * 2.0
        return [doubled, fd.ops.sum(x * doubled, [1])]

    inputs = [torch.randn(sizes), torch.randn(sizes[0], 1, *sizes[2:])]
    fd = defined(define, *inputs)
    (kernel,) = fd.plan(inputs, target="emulator").kernels
    assert kernel.kernel_source.launch.grid[1] > 1
    agrees(fd, inputs, "emulator")


def test_what_is_stored_where_another_sum_reads_is_not_split_with_it():
    x, y = torch.randn(40, 1023), torch.randn(50_000)
    with FusionDefinition() as fd:
        given, other = fd.from_pytorch(x), fd.from_pytorch(y)
        total = fd.ops.sum(given, [0, 1]) + fd.ops.sum(other, [0])
        fd.add_output(total)
        fd.add_output(given * 2.0, alias_input=given)
    want = x.sum() + y.sum(), x * 2
    (got,) = fd.execute([x, y], target="emulator")
    torch.testing.assert_close(got, want[0], rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(x, want[1])


def test_rows_of_more_than_two_to_the_31_elements_compile():
    x = torch.empty(1 << 12, 1 << 20, device="meta", dtype=torch.bfloat16)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        fd.add_output(fd.ops.sum(given, dims=[1]))
        fd.add_output(fd.ops.sum(given, dims=[0]))
    (kernel,) = fd.plan([x], target="cuda:sm_90").kernels
    assert "int64 i0 = int64(threadIdx.y) * gridDim.x + blockIdx.x;" in kernel.source
    assert kernel.compile().spill_bytes == 0


def test_indices_out_of_range_read_the_first_row():
    table, at = torch.randn(4, 8), torch.tensor([1, 99, -7, 3])
    with FusionDefinition() as fd:
        x, index = fd.from_pytorch(table), fd.from_pytorch(at)
        fd.add_output(fd.ops.exp(fd.ops.index_select(x, index, 0)))
    (got,) = fd.execute([table, at], target="emulator")
    torch.testing.assert_close(got, table[[1, 0, 0, 3]].exp())


def test_sums_are_the_same_at_every_call():
    x = torch.randn(2000, 300)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(fd.from_pytorch(x), dims=[0, 1]))
    first, second = (fd.execute([x], target="emulator")[0] for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels_compile_without_spills(case: RowCase, arch: str):
    for length, dtype in ((4096, torch.bfloat16), (257, torch.float32)):
        inputs = case.inputs(length, dtype)
        for kernel in case.defined_for(inputs).plan(inputs, target=f"cuda:{arch}").kernels:
            assert kernel.compile().spill_bytes == 0


def resident(source: KernelSource) -> list[int]:
    """How many blocks at once the texts of a kernel ask for, in turn."""
    found = (re.search(r"__launch_bounds__\(\d+, (\d+)\)", t) for t in by_residency(source, 2048))
    return [int(match[1]) for match in found if match]


def test_as_many_blocks_run_at_once_as_need_not_spill():
    inputs = [torch.empty(8192, 4096, dtype=torch.bfloat16, device="meta") for _ in range(4)]
    with FusionDefinition() as fd:
        for x in inputs:
            t = fd.ops.cast(fd.from_pytorch(x), dtype=DataType.Float)
            fd.add_output(fd.ops.sub(t, fd.ops.mean(t, dims=[1], keepdim=True)))
    source = fd.plan(inputs, target="cuda:sm_90").kernels[0].kernel_source
    texts, blocks = list(by_residency(source, 2048)), resident(source)
    assert blocks == sorted(blocks, reverse=True)
    assert blocks[0] == 2048 // source.launch.max_threads
    assert blocks[-1] == 1
    spilled = [compile_cubin(text, source.name, "sm_90").resources.spill_bytes for text in texts]
    taken = spilled.index(0)
    assert taken > 0
    chosen = compile_cubin(texts[taken], source.name, "sm_90").resources
    assert compile_cuda(source, "sm_90").resources == chosen


def test_what_asks_for_no_number_of_blocks_is_left_to_the_compiler():
    source = KernelSource("k", "", "__launch_bounds__(256)", (), Launch(max_threads=256))
    assert list(by_residency(source, 2048)) == [source.code]


def test_a_number_made_of_a_gathered_place_differs_from_lane_to_lane():
    # iota -> index_select by a computed index -> index_select again -> layernorm-like scale
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=True)
        ops = fd.ops
        places = ops.remainder(ops.iota(64, 1, 1, DataType.Int), 8)
        numbers = ops.index_select(ops.iota(8, 3, 2, DataType.Int), places, 0)
        y = ops.index_select(x, ops.remainder(numbers, 16), 0)
        fd.add_output(y - ops.mean(y, [0], keepdim=True))
    inputs = [torch.randn(16)]
    (got,) = fd.execute(inputs, target="emulator")
    torch.testing.assert_close(got, interpret(fd.fusion, inputs)[0])


def test_sweeps_over_the_same_axes_may_differ_in_their_lanes():
    x = torch.randn(2, 8, 9, 8)[:, :, :8]
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        both = fd.ops.cat([t, t], dim=3)
        fd.add_output(both - fd.ops.mean(both, [2, 3], keepdim=True))
    check(fd, [x], 128)


def test_parts_of_one_tensor_are_peeled_from_where_each_starts():
    x = torch.randn(70, 1000)
    with FusionDefinition() as fd:
        doubled = fd.from_pytorch(x) * 2.0
        fd.add_output(fd.ops.max(fd.ops.slice(doubled, [0, 1], [70, 998]), [1]))
        fd.add_output(fd.ops.min(fd.ops.slice(doubled, [0, 2], [70, 990]), [1]))
    (kernel,) = fd.plan([x], target="emulator").kernels
    assert kernel.source.count("before_aligned<4>(T0_in") == 2
    agrees(fd, [x], "emulator")
