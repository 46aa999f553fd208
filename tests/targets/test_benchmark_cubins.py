"""What the machine code of every kernel worth measuring takes: registers, no memory of its own."""

from __future__ import annotations

import math
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fuser import FusionDefinition
from fuser.codegen import KernelSource
from fuser.runtime.cuda.cubin import Cubin
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.cuda.sass import disassemble
from tests.benchmark_kernels import BENCHMARKS
from tests.definitions import only_kernel
from tests.machine_code import memory_accesses

ARCHS = ("sm_80", "sm_90", "sm_100")
REGISTERS = 65536
"""Of a multiprocessor."""

ROWS_ALONE = ("softmax", "log_softmax", "layernorm", "rmsnorm", "cross entropy")
"""Kernels in which nothing but the rows is read or written in vectors."""

COPIED = re.compile(r"\bcopy_ahead<(4, 4|8, 8)>")
"""16 bytes from memory to shared memory, by one instruction."""

Compiled = list[tuple[str, KernelSource, Cubin]]


def sources(dtype: torch.dtype, arch: str) -> list[tuple[str, KernelSource]]:
    found: list[tuple[str, KernelSource]] = []
    for benchmark in BENCHMARKS:
        inputs = benchmark.inputs(dtype)
        for kernel in benchmark.defined(inputs).plan(inputs, target=f"cuda:{arch}").kernels:
            assert kernel.scheduler != "torch", benchmark
            found.append((str(benchmark), kernel.kernel_source))
    return found


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_kernels_worth_measuring(dtype: torch.dtype, arch: str):
    made = sources(dtype, arch)
    with ThreadPoolExecutor(4) as pool:  # NVRTC lets other threads run
        cubins = pool.map(lambda named: compile_cuda(named[1], arch), made)
        compiled = [(*named, cubin) for named, cubin in zip(made, cubins, strict=True)]
    nothing_is_spilled(compiled)
    a_block_has_the_registers_it_needs(compiled)
    blocks_that_keep_folds_run_at_once(compiled, arch)
    memory_of_rows_is_moved_128_bits_at_a_time(compiled)
    rows_that_are_not_aligned_have_an_aligned_body(compiled)
    shared_memory_fits_every_block(compiled, arch)


def nothing_is_spilled(compiled: Compiled) -> None:
    for name, _, cubin in compiled:
        assert cubin.resources.spill_bytes == 0, name
        assert cubin.resources.frame_bytes == 0, name


def a_block_has_the_registers_it_needs(compiled: Compiled) -> None:
    for name, source, cubin in compiled:
        assert cubin.resources.registers is not None
        threads = math.prod(source.launch.block)
        assert cubin.resources.registers * threads <= REGISTERS, name


def blocks_that_keep_folds_run_at_once(compiled: Compiled, arch: str) -> None:
    """As many as the grid was made for: what is left of a grid would take as long as the rest."""
    limits = {"sm_80": 164 << 10, "sm_90": 228 << 10, "sm_100": 228 << 10}
    for name, source, cubin in compiled:
        if "last_to_finish" in source.code:
            taken, launch = cubin.resources, source.launch
            warps = math.prod(launch.block) // 32 * launch.resident
            of_warp = 32 * 8 * -(-(taken.registers or 0) // 8)
            shared = (taken.shared_bytes or 0) + launch.shared_bytes + 1024
            assert of_warp * warps <= REGISTERS, name
            assert shared * launch.resident <= limits[arch], name


def is_read_128_bits_at_a_time(source: KernelSource, cubin: Cubin) -> bool:
    return memory_accesses(cubin)["LDG", 128] > 0 or COPIED.search(source.code) is not None


def memory_of_rows_is_moved_128_bits_at_a_time(compiled: Compiled) -> None:
    for name, source, cubin in compiled:
        if name.startswith(ROWS_ALONE) and "ward" not in name and "both" not in name:
            found: Counter[tuple[str, int]] = memory_accesses(cubin)
            assert is_read_128_bits_at_a_time(source, cubin), name
            stores = "cross entropy" not in name
            assert not stores or found["STG", 128] > 0, name
            narrow = [key for key in found if key[0] in ("LDL", "STL")]
            assert not narrow, name


def rows_that_are_not_aligned_have_an_aligned_body(compiled: Compiled) -> None:
    odd = [entry for entry in compiled if entry[0] == "cross entropy [8192, 30522]"]
    assert odd
    for _, source, cubin in odd:
        assert "before_aligned" in source.code
        assert is_read_128_bits_at_a_time(source, cubin)


def shared_memory_fits_every_block(compiled: Compiled, arch: str) -> None:
    limits = {"sm_80": 163 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10}
    for name, source, cubin in compiled:
        static = cubin.resources.shared_bytes or 0
        assert static + source.launch.shared_bytes <= limits[arch], name
        assert static <= 48 << 10, name


@pytest.mark.parametrize("arch", ARCHS)
def test_what_rows_have_in_common_is_not_held_in_registers(arch: str):
    """Weights and biases of a warp's row would take twice the registers of the row."""
    (norm,) = (b for b in BENCHMARKS if str(b) == "layernorm [8192, 768]")
    inputs = norm.inputs(torch.float32)
    kernel = only_kernel(norm.defined(inputs), inputs, f"cuda:{arch}")
    assert kernel.code.count("+ zero_of_row") == 2
    assert (compile_cuda(kernel, arch).resources.registers or 0) <= 80


@pytest.mark.parametrize(("shape", "dims"), [((8192, 3072), [0, 1]), ((8192, 96), [0])])
def test_loads_of_a_split_row_are_on_their_way_together(shape: tuple[int, ...], dims: list[int]):
    x = torch.empty(shape, device="meta")
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(fd.from_pytorch(x), dims))
    text = disassemble(compile_cuda(only_kernel(fd, [x], "cuda:sm_90"), "sm_90"))
    if text.startswith("nvdisasm is missing"):
        pytest.skip(text)
    until_a_branch = re.split(r"\bBRA\b", text.partition("BAR.SYNC")[0])
    wanted = 4 if len(dims) == 2 else 8
    assert max(part.count("LDG.E") for part in until_a_branch) >= wanted
