"""Points of rows that are not aligned, on CUDA: vectors begin elsewhere in every row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from fuser import DataType, FusionDefinition, debug
from fuser.codegen import KernelSource
from fuser.errors import IndexOutOfRangeError
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from fuser.schedule.code import cuda_blocks
from tests.definitions import agrees, only_kernel
from tests.machine_code import memory_accesses
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

Define = Callable[..., Handle]

ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
SIZES = pytest.mark.parametrize("shape", [(3, 1023), (9, 517), (2, 10007)], ids=str)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int16], ids=str)


def scaled(fd: FusionDefinition, x: Handle, of_row: Handle, of_column: Handle) -> Handle:
    return x * of_row + of_column


def loss_gradient(fd: FusionDefinition, x: Handle, of_row: Handle, labels: Handle) -> Handle:
    """softmax minus one-hot, from the logarithm of the sum of exponentials."""
    places = fd.ops.iota(x.shape()[1], 0, 1, DataType.Int)
    hit = fd.ops.eq(fd.ops.broadcast_in_dim(places, x.shape(), [1]), labels)
    return fd.ops.exp(x - of_row) - fd.ops.cast(hit, DataType.Float)


def defined(define: Define, inputs: Sequence[torch.Tensor]) -> FusionDefinition:
    """Stored as the first input is."""
    with FusionDefinition() as fd:
        given = [fd.from_pytorch(x) for x in inputs]
        fd.add_output(fd.ops.cast(define(fd, *given), given[0].dtype()))
    return fd


def operands(shape: tuple[int, int], dtype: torch.dtype) -> list[torch.Tensor]:
    """A matrix, a column and a row."""
    sizes = (shape, (shape[0], 1), shape[1:])
    if dtype.is_floating_point:
        return [torch.randn(size).to(dtype) for size in sizes]
    return [torch.randint(-50, 50, size, dtype=dtype) for size in sizes]


def source_of(fd: FusionDefinition, inputs: Sequence[torch.Tensor]) -> KernelSource:
    return only_kernel(fd, inputs, "cuda:sm_90")


def is_streamed(fd: FusionDefinition, inputs: Sequence[torch.Tensor]) -> bool:
    return "before_aligned" in source_of(fd, inputs).code


@ORDERS
@SIZES
@DTYPES
def test_numbers_of_rows_and_columns(
    dtype: torch.dtype, shape: tuple[int, int], order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    inputs = operands(shape, dtype)
    fd = defined(scaled, inputs)
    assert is_streamed(fd, inputs)
    agrees(fd, inputs, "emulator")


@ORDERS
@SIZES
def test_the_gradient_of_a_loss(
    shape: tuple[int, int], order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    x, of_row, _ = operands(shape, torch.bfloat16)
    inputs = [x, of_row, torch.randint(0, shape[1], (shape[0], 1))]
    fd = defined(loss_gradient, inputs)
    assert is_streamed(fd, inputs)
    agrees(fd, inputs, "emulator")


@pytest.mark.parametrize("offset", [1, 3])
def test_tensors_that_are_aligned_elsewhere(offset: int):
    rows, length = 5, 1029
    memory = torch.randn(rows * length + 8)
    moved = memory[offset : offset + rows * length].view(rows, length)
    wide = torch.randn(rows, length + 2)[:, offset - 1 : length + offset - 1]
    inputs = [wide, moved]
    fd = defined(lambda _, x, y: x * y, inputs)
    assert is_streamed(fd, inputs)
    agrees(fd, inputs, "emulator")


def embedded(fd: FusionDefinition, table: Handle, index: Handle, scale: Handle) -> Handle:
    return fd.ops.index_select(table, index, 0) * scale


@ORDERS
@pytest.mark.parametrize("length", [1023, 1024, 517])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_that_are_gathered(
    dtype: torch.dtype, length: int, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    inputs = [torch.randn(20, length).to(dtype), torch.randint(0, 20, (33,)), torch.randn(33, 1)]
    fd = defined(embedded, inputs)
    source = source_of(fd, inputs)
    assert source.launch.grid[0] > 1
    assert source.code.count("index_in_range(") == 2  # its definition, and once a row
    assert "T0_kept[round]" in source.code
    agrees(fd, inputs, "emulator")


def test_rows_of_several_axes():
    x, of_row = torch.randn(4, 3, 515), torch.randn(4, 1, 1)
    fd = defined(lambda _, x, y: x / y, [x, of_row])
    assert is_streamed(fd, [x, of_row])
    agrees(fd, [x, of_row], "emulator")


def test_two_types_of_results():
    x, of_row = torch.randn(7, 517), torch.randn(7, 1)
    with FusionDefinition() as fd:
        y = fd.from_pytorch(x) * fd.from_pytorch(of_row)
        fd.add_output(fd.ops.cast(y, DataType.BFloat16))
        fd.add_output(y)
    assert is_streamed(fd, [x, of_row])
    agrees(fd, [x, of_row], "emulator")


def test_rows_that_are_overwritten():
    x, of_row = torch.randn(7, 517), torch.randn(7, 1)
    with FusionDefinition() as fd:
        held = fd.from_pytorch(x)
        fd.add_output(held * fd.from_pytorch(of_row), alias_input=held)
    want = x * of_row
    assert is_streamed(fd, [x, of_row])
    assert "in place, by" in str(fd.plan([x, of_row], target="cuda:sm_90"))
    fd.execute([x, of_row], target="emulator")
    assert torch.equal(x, want)


def compared(inputs: Sequence[torch.Tensor]) -> FusionDefinition:
    """Whether gathered rows and others add up to more than 1: a truth value for each element."""
    with FusionDefinition() as fd:
        table, index, *others = map(fd.from_pytorch, inputs)
        fd.add_output(sum(others, fd.ops.index_select(table, index, 0)) > 1.0)
    return fd


def test_parts_of_a_row_are_as_many_as_a_grid_has(monkeypatch: pytest.MonkeyPatch):
    inputs = [torch.randn(20, 20_000), torch.randint(0, 20, (3,)), torch.randn(3, 20_000)]
    assert source_of(compared(inputs), inputs).launch.grid[1] == 5
    monkeypatch.setattr(cuda_blocks, "MOST_BLOCKS", 4)
    fd = compared(inputs)
    assert source_of(fd, inputs).launch.grid[1] == 3
    agrees(fd, inputs, "emulator")


def test_rows_of_more_elements_than_a_grid_has_blocks_for():
    rows, length = 4, 140_000_001
    inputs = [torch.empty(rows, length, dtype=torch.float64, device="meta") for _ in range(4)]
    inputs.insert(1, torch.empty(rows, dtype=torch.int64, device="meta"))
    assert 1 < source_of(compared(inputs), inputs).launch.grid[1] <= cuda_blocks.MOST_BLOCKS


def test_an_index_out_of_range_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(debug, "checking", lambda what: what == "index")
    inputs = [torch.randn(20, 1023), torch.tensor([3, 20, 1]), torch.randn(3, 1)]
    with pytest.raises(IndexOutOfRangeError):
        defined(embedded, inputs).execute(inputs, target="emulator")


@pytest.mark.sanitizer
@ORDERS
def test_sanitizers_find_nothing(order: ThreadOrder, sanitizer: Sanitizer):
    for shape in ((3, 1023), (2, 5003)):
        inputs = operands(shape, torch.bfloat16)
        fd = defined(scaled, inputs)
        (got,) = run_plan_sanitized(fd, inputs, sanitizer, order)
        (want,) = interpret(fd.fusion, inputs)
        torch.testing.assert_close(got, want)


# -- what the text says --------------------------------------------------------------------------


def test_all_loads_of_a_thread_are_on_their_way_before_it_stores():
    inputs = [torch.empty(8192, 30522, device="meta"), torch.empty(8192, 1, device="meta")]
    source = source_of(defined(lambda _, x, y: x * y, inputs), inputs)
    assert source.launch.grid == (8192, 8, 1)
    assert source.launch.block == (256, 1, 1)
    loads, stores = source.code.split("load_vector(T0, T0_kept[round])")
    assert "load_vector(T0, T0_in" in loads
    assert "_out" not in loads.partition("const int thread")[2]
    assert "T0_in" not in stores


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_memory_is_moved_128_bits_at_a_time(dtype: torch.dtype, arch: str):
    inputs = [torch.empty(size, dtype=dtype, device="meta") for size in ((8192, 30522), (8192, 1))]
    cubin = compile_cuda(source_of(defined(lambda _, x, y: x * y, inputs), inputs), arch)
    found = memory_accesses(cubin)
    assert found["LDG", 128] >= 4
    assert found["STG", 128] >= 4
    assert cubin.resources.spill_bytes == 0


def test_rows_of_one_alignment_have_one_text():
    texts = {
        source_of(defined(lambda _, x, y: x * y, inputs), inputs).code
        for inputs in (
            [torch.empty(rows, length, device="meta"), torch.empty(rows, 1, device="meta")]
            for rows, length in ((8192, 30522), (4096, 50258), (100_000, 9999))
        )
    }
    assert len(texts) == 1


@pytest.mark.parametrize("length", [1024, 77])
def test_aligned_rows_and_short_ones_go_by_points(length: int):
    inputs = [torch.empty(64, length, device="meta"), torch.empty(64, 1, device="meta")]
    assert not is_streamed(defined(lambda _, x, y: x * y, inputs), inputs)


def test_what_is_clamped_along_a_row_goes_by_points():
    x = torch.randn(5, 517)
    fd = defined(lambda fd, x: fd.ops.pad(x, [3, 3]), [x])
    assert not is_streamed(fd, [x])
    agrees(fd, [x], "emulator")
