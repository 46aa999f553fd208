"""Vectors of points on a GPU: whole ones have no test for each lane, others end where points do."""

from __future__ import annotations

import re

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.cuda.sass import disassemble
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from tests.benchmark_kernels import BENCHMARKS
from tests.definitions import agrees, defined, only_kernel
from tests.machine_code import memory_accesses
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8], ids=str
)
ARCHS = pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
LENGTHS = pytest.mark.parametrize("length", [1024, 1008, 1001, 17, 15])


def added(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    return fd.ops.cast(x + y, x.dtype())


def turned(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    """Sums with a matrix that is turned, in a tile."""
    across = fd.ops.permute(x, [1, 0])
    return fd.ops.stride_order(fd.ops.cast(across + y, x.dtype()), [1, 0])


def every_third(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    """Reads x lane by lane, y in vectors."""
    length = y.shape()[0]
    return added(fd, fd.ops.reshape(fd.ops.slice(x, [0, 0], [length, 1]), [length]), y)


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-8, 9, shape, generator=generator).to(dtype)


# -- what is printed -----------------------------------------------------------------------------


@DTYPES
@LENGTHS
def test_vectors_are_whole_where_there_is_a_number_of_them(dtype: torch.dtype, length: int):
    inputs = [torch.empty(length, dtype=dtype, device="meta")] * 2
    code = only_kernel(defined(added, *inputs), inputs, "cuda:sm_90").kernel
    whole = length % (16 // dtype.itemsize) == 0
    moves = "vector" if whole else "part"
    assert code.count(f"load_{moves}(") == 2
    assert code.count(f"store_{moves}(") == 1


@DTYPES
def test_all_numbers_of_whole_vectors_have_one_text_and_all_others_another(dtype: torch.dtype):
    texts: set[str] = set()
    for length in (1024, 4096, 16 * 999, 1001, 4097, 16 * 999 + 15):
        inputs = [torch.empty(length, dtype=dtype, device="meta")] * 2
        texts.add(only_kernel(defined(added, *inputs), inputs, "cuda:sm_90").code)
    assert len(texts) == 2


def test_rows_of_results_are_whole_vectors_of_some_width():
    codes: list[str] = []
    for length in (32, 34):
        inputs = [torch.empty_strided((96, length), (256, 1), device="meta")] * 2
        codes.append(only_kernel(defined(added, *inputs), inputs, "cuda:sm_90").kernel)
    assert all("_part" not in code for code in codes)
    assert [re.findall(r"float T0\[(\d)\]", code) for code in codes] == [["4"], ["2"]]


@pytest.mark.parametrize(("length", "whole"), [(1024, True), (1023, False)])
def test_lanes_that_are_all_there_are_not_counted(length: int, whole: bool):
    inputs = [numbers(length, 3), numbers(length)]
    code = only_kernel(defined(every_third, *inputs), inputs, "emulator").kernel
    assert "T1[lane]" in code
    assert ("break;" in code) == (not whole)


def test_lanes_of_a_line_of_a_tile_are_whole():
    inputs = [torch.empty(130, 96, device="meta"), torch.empty(96, 130, device="meta")]
    code = only_kernel(defined(turned, *inputs), inputs, "cuda:sm_90").kernel
    assert "fill_tile<" in code
    assert "load_vector(T1, " in code
    assert "store_vector(" in code


# -- what is computed ----------------------------------------------------------------------------


@DTYPES
@LENGTHS
@ORDERS
def test_points_are_right_at_any_length_and_offset(
    dtype: torch.dtype, length: int, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    for offset in (0, 1, 2):
        x, y = numbers(length + offset, dtype=dtype)[offset:], numbers(length, dtype=dtype)
        for inputs in ([x, y], [x, x]):
            agrees(defined(added, *inputs), inputs, "emulator")


@DTYPES
@LENGTHS
@ORDERS
def test_lanes_that_are_read_one_by_one_are_right(
    dtype: torch.dtype, length: int, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    inputs = [numbers(length, 3, dtype=dtype), numbers(length, dtype=dtype)]
    agrees(defined(every_third, *inputs), inputs, "emulator")


@DTYPES
@ORDERS
@pytest.mark.parametrize("shape", [(65, 128), (65, 130), (65, 129)])
def test_tiles_are_right_at_any_length(
    dtype: torch.dtype,
    shape: tuple[int, int],
    order: ThreadOrder,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    inputs = [numbers(*reversed(shape), dtype=dtype), numbers(*shape, dtype=dtype)]
    agrees(defined(turned, *inputs), inputs, "emulator")


@pytest.mark.sanitizer
@ORDERS
def test_sanitizers_find_nothing_at_the_ends_of_points(order: ThreadOrder, sanitizer: Sanitizer):
    for length, dtype in ((1024, torch.float32), (1001, torch.bfloat16), (15, torch.int8)):
        for define, first in ((added, (length,)), (every_third, (length, 3))):
            inputs = [numbers(*first, dtype=dtype), numbers(length, dtype=dtype)]
            fd = defined(define, *inputs)
            results = run_plan_sanitized(fd, inputs, sanitizer, order)
            torch.testing.assert_close(results, interpret(fd.fusion, inputs))


# -- machine code --------------------------------------------------------------------------------


@ARCHS
def test_loads_of_a_rotary_embedding_are_on_their_way_together(arch: str):
    """None is used before the last has been issued, and registers allow as many threads as run."""
    rotary = next(benchmark for benchmark in BENCHMARKS if benchmark.name == "rotary")
    inputs = rotary.inputs(torch.bfloat16)
    cubin = compile_cuda(only_kernel(rotary.defined(inputs), inputs, f"cuda:{arch}"), arch)
    accesses = memory_accesses(cubin)
    assert (accesses["LDG", 128], accesses["STG", 128]) == (5, 1)
    assert accesses.total() == 6
    assert cubin.resources.spill_bytes == 0
    assert cubin.resources.registers
    assert cubin.resources.registers <= 40
    assert not uses_before_last_load(disassemble(cubin))


@ARCHS
def test_loads_of_parts_are_on_their_way_together(arch: str):
    inputs = [torch.empty(100_001, dtype=torch.bfloat16, device="meta")] * 2
    cubin = compile_cuda(only_kernel(defined(added, *inputs), inputs, f"cuda:{arch}"), arch)
    assert memory_accesses(cubin)["LDG", 128] == 2
    assert cubin.resources.spill_bytes == 0
    assert not uses_before_last_load(disassemble(cubin))


def uses_before_last_load(text: str) -> list[str]:
    """The instructions of machine code that read what a load of 16 bytes has read, before the last
    such load."""
    if text.startswith("nvdisasm is missing"):
        pytest.skip(text)
    before = text[: text.rindex("LDG.E.128")].splitlines()
    loaded: set[int] = set()
    found: list[str] = []
    for line in before:
        registers = [int(number) for number in re.findall(r"\bR(\d+)", line)]
        if not loaded.isdisjoint(registers[1:]):
            found.append(line)
        loaded.difference_update(registers[:1])  # another path's, where fewer elements are left
        if "LDG.E.128" in line:
            loaded |= set(range(registers[0], registers[0] + 4))
    return found
