"""Points of which a CUDA thread reads one access a vector: it loads those of two vectors first."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen import KernelSource
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.cuda.sass import disassemble
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from fuser.schedule import CudaRowParameters
from tests.definitions import agrees, only_kernel
from tests.machine_code import memory_accesses
from tests.mapped_by import map_by, mapped_by
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

Define = Callable[..., Handle]

ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
ARCHS = pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90", "sm_100"])

SMALL = CudaRowParameters(multiprocessors=1, ahead_threads=128, grid_threads=64)
"""A GPU that 256 vectors fill."""


def gelu(fd: FusionDefinition, x: Handle) -> Handle:
    return x * 0.5 * (fd.ops.erf(x * 2**-0.5) + 1.0)


def biased_gelu(fd: FusionDefinition, x: Handle, bias: Handle) -> Handle:
    return gelu(fd, x + bias)


def scaled(fd: FusionDefinition, x: Handle, of_row: Handle) -> Handle:
    return x * of_row


def doubled(fd: FusionDefinition, x: Handle) -> Handle:
    return x * 2.0


def product(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    return fd.ops.silu(x) * y


BENCHMARKS: list[tuple[Define, list[tuple[int, ...]]]] = [
    (gelu, [(8192, 3072)]),
    (biased_gelu, [(8192, 3072), (3072,)]),
    (scaled, [(8192, 3072), (8192, 1)]),
    (doubled, [(8192, 3072)]),
]
CASES = pytest.mark.parametrize(
    ("define", "shapes"), BENCHMARKS, ids=[define.__name__ for define, _ in BENCHMARKS]
)


def defined(define: Define, inputs: Sequence[torch.Tensor]) -> FusionDefinition:
    """Computed in float32, stored as the first input is."""
    with FusionDefinition() as fd:
        given = [fd.from_pytorch(x) for x in inputs]
        made = define(fd, *(fd.ops.cast(x, DataType.Float) for x in given))
        fd.add_output(fd.ops.cast(made, given[0].dtype()))
    return fd


def on_meta(shapes: Sequence[tuple[int, ...]], dtype: torch.dtype) -> list[torch.Tensor]:
    return [torch.empty(shape, dtype=dtype, device="meta") for shape in shapes]


def source_of(
    fd: FusionDefinition, inputs: Sequence[torch.Tensor], arch: str = "sm_90"
) -> KernelSource:
    return only_kernel(fd, inputs, f"cuda:{arch}")


def loads_ahead(source: KernelSource) -> bool:
    return "_kept[2][" in source.code


# -- numbers -------------------------------------------------------------------------------------


@ORDERS
@DTYPES
@pytest.mark.parametrize("length", [8 * 256, 8 * 1001])
@pytest.mark.parametrize("define", [gelu, doubled])
def test_points_along_one_axis(
    define: Define,
    length: int,
    dtype: torch.dtype,
    order: ThreadOrder,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    map_by(monkeypatch, SMALL)
    inputs = [torch.randn(length).to(dtype)]
    fd = defined(define, inputs)
    assert loads_ahead(source_of(fd, inputs))
    agrees(fd, inputs, "emulator")


@ORDERS
@DTYPES
@pytest.mark.parametrize("shape", [(20, 8 * 56), (3, 8 * 900)], ids=str)
@pytest.mark.parametrize("define", [biased_gelu, scaled])
def test_points_of_rows(
    define: Define,
    shape: tuple[int, int],
    dtype: torch.dtype,
    order: ThreadOrder,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    map_by(monkeypatch, SMALL)
    other = shape[1:] if define is biased_gelu else (shape[0], 1)
    inputs = [torch.randn(shape).to(dtype), torch.randn(other).to(dtype)]
    fd = defined(define, inputs)
    assert loads_ahead(source_of(fd, inputs))
    agrees(fd, inputs, "emulator")


@ORDERS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.uint8], ids=str)
def test_types_that_are_stored_wider(
    dtype: torch.dtype, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    map_by(monkeypatch, SMALL)
    inputs = [torch.randint(0, 2, (8 * 500,)).to(dtype)]
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.cast(fd.from_pytorch(inputs[0]), DataType.Float))
    assert loads_ahead(source_of(fd, inputs))
    agrees(fd, inputs, "emulator")


@pytest.mark.parametrize("dims", [1, 2])
def test_points_that_are_overwritten(dims: int):
    x, of_row = torch.randn(20, 8 * 90), torch.randn(20, 1)
    with FusionDefinition() as fd:
        held, factor = fd.from_pytorch(x), fd.from_pytorch(of_row) if dims > 1 else 2.0
        fd.add_output(held * factor, alias_input=held)
    inputs = [x, of_row][:dims]
    want = x * (of_row if dims > 1 else 2.0)
    with mapped_by(SMALL):
        assert loads_ahead(source_of(fd, inputs))
        assert "in place, by" in str(fd.plan(inputs, target="cuda:sm_90"))
        fd.execute(inputs, target="emulator")
    assert torch.equal(x, want)


@pytest.mark.sanitizer
@ORDERS
def test_sanitizers_find_nothing(
    order: ThreadOrder, sanitizer: Sanitizer, monkeypatch: pytest.MonkeyPatch
):
    map_by(monkeypatch, SMALL)
    for define, others in ((doubled, []), (scaled, [torch.randn(3, 1)])):
        inputs = [torch.randn(3, 8 * 60), *others]
        fd = defined(define, inputs)
        (got,) = run_plan_sanitized(fd, inputs, sanitizer, order)
        (want,) = interpret(fd.fusion, inputs)
        torch.testing.assert_close(got, want)


# -- which points ----------------------------------------------------------------------------------


def test_lengths_of_parts_of_vectors_go_by_points(monkeypatch: pytest.MonkeyPatch):
    map_by(monkeypatch, SMALL)
    inputs = [torch.randn(8 * 500 + 1).bfloat16()]
    fd = defined(doubled, inputs)
    assert not loads_ahead(source_of(fd, inputs))
    agrees(fd, inputs, "emulator")


def test_memory_that_is_not_aligned_goes_by_points(monkeypatch: pytest.MonkeyPatch):
    map_by(monkeypatch, SMALL)
    inputs = [torch.randn(8 * 500 + 1)[1:]]
    fd = defined(doubled, inputs)
    assert not loads_ahead(source_of(fd, inputs))
    agrees(fd, inputs, "emulator")


@pytest.mark.parametrize("length", [320, 1280 + 512 + 4])
def test_rows_that_leave_threads_idle_go_by_points(length: int):
    """80 vectors are one for most of 64 threads; 449 of 512 are two."""
    inputs = on_meta([(100_000, length), (length,)], torch.float32)
    assert loads_ahead(source_of(defined(biased_gelu, inputs), inputs)) == (length > 320)


def turned(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.stride_order(fd.ops.permute(x, [1, 0]), [1, 0])


def test_where_nothing_is_gained_points_go_one_vector_a_thread():
    def dear(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.lgamma(x) + fd.ops.pow(x, 3.3)

    matrix = (8192, 3072)
    for define, shapes in ((product, [matrix, matrix]), (turned, [matrix]), (dear, [matrix])):
        inputs = on_meta(shapes, torch.float32)
        assert not loads_ahead(source_of(defined(define, inputs), inputs)), define


# -- what the text and the machine code say --------------------------------------------------------


@DTYPES
@CASES
def test_any_number_of_rows_has_one_text(
    define: Define, shapes: Sequence[tuple[int, ...]], dtype: torch.dtype
):
    texts: set[str] = set()
    for rows in (8192, 4097, 50_000, 300, 64, 7):
        inputs = on_meta([(rows, *s[1:]) if s[0] == 8192 else s for s in shapes], dtype)
        texts.add(source_of(defined(define, inputs), inputs).code)
    assert len(texts) == 1


def test_blocks_cover_all_points():
    inputs = on_meta([(8192, 3072)], torch.float32)
    launch = source_of(defined(doubled, inputs), inputs).launch
    assert launch.block == (256, 1, 1)
    assert launch.grid == (8192 * 3072 // (256 * 2 * 4), 1, 1)
    assert launch.resident == 8


@ARCHS
@DTYPES
@CASES
def test_two_loads_are_on_their_way_in_as_many_threads_as_run_at_once(
    define: Define, shapes: Sequence[tuple[int, ...]], dtype: torch.dtype, arch: str
):
    inputs = on_meta(shapes, dtype)
    source = source_of(defined(define, inputs), inputs, arch)
    assert loads_ahead(source)
    cubin = compile_cuda(source, arch)
    assert cubin.resources.spill_bytes == 0
    assert "minnctapersm" not in cubin.log  # which ptxas ignores where it is out of range
    assert cubin.resources.registers
    assert cubin.resources.registers * CudaRowParameters.of(arch).ahead_threads <= 65536
    found = memory_accesses(cubin)
    assert found["LDG", 128] == found["STG", 128] + (2 if define is biased_gelu else 0)
    text = disassemble(cubin)
    if text.startswith("nvdisasm is missing"):
        pytest.skip(text)
    until_a_branch = re.split(r"\bBRA\b", text.partition("STG")[0])
    assert max(part.count("LDG.E.128") for part in until_a_branch) >= 2
