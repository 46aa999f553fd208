"""What sanitizers find in kernels with mistakes, and that they find nothing in those without.

Kernels without mistakes are many programs to build: they carry the marker `sanitizer`, and `make
test-sanitizers` runs these alone.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.runtime.emulator import (
    EmulatorDeadlockError,
    EmulatorFailureError,
    Sanitizer,
    SanitizerReport,
    ThreadOrder,
    run_sanitized,
)
from tests.kernel_families import FAMILIES, Family, from_torch
from tests.runtime.emulator import cuda_bugs
from tests.runtime.emulator.cuda_bugs import THREADS, lines_of, name_of
from tests.runtime.emulator.cuda_kernels import KERNELS, CudaKernel, equal, floats
from tests.runtime.emulator.sanitized_plan import SanitizerFindingError, run_plan_sanitized, usable
from tests.runtime.emulator.test_kernels import (
    PART_LANES,
    PART_TYPES,
    conversion_kernel,
    parts_kernel,
)

FEW_THREADS = [kernel for kernel in KERNELS if kernel.threads <= 1024]
"""A thread takes the thread sanitizer 0.7 ms and 0.8 MB."""

ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)


@pytest.fixture
def address() -> Sanitizer:
    return usable(Sanitizer.ADDRESS)


@pytest.fixture
def thread() -> Sanitizer:
    return usable(Sanitizer.THREAD)


def findings(
    source: str,
    sanitizer: Sanitizer,
    order: ThreadOrder = ThreadOrder.RUN_AHEAD,
    blocks: int = 1,
    shared_bytes: int = 8 * THREADS,
) -> str:
    """What a sanitizer says of one of the kernels with a mistake."""
    name = name_of(source)
    arguments = [floats(THREADS) + 20, torch.zeros(THREADS)]
    grid, block = (blocks, 1, 1), (THREADS, 1, 1)
    return run_sanitized(
        source, name, grid, block, arguments, sanitizer, shared_bytes=shared_bytes, order=order
    ).findings


FIXES = {
    "// the barrier is missing": "__syncthreads();",
    "// the fence is missing": "__threadfence();",
    "float other =": "__syncwarp(); float other =",
    "*y += x[threadIdx.x]": "atomicAdd(y, x[threadIdx.x])",
    "y[threadIdx.x + blockIdx.x] =": "if (blockIdx.x == 0) y[threadIdx.x] =",
    # blocks that all write one output would race
    "  y[threadIdx.x] =": "  if (blockIdx.x == 0) y[threadIdx.x] =",
    "  y[t] =": "  if (blockIdx.x == 0) y[t] =",
}


def corrected(source: str) -> str:
    """A kernel without its mistake, which several blocks may run."""
    for wrong, right in FIXES.items():
        source = source.replace(wrong, right)
    return source


def reported_lines(report: str, source: str) -> set[int]:
    """The lines of the CUDA text in which a report saw an access go wrong."""
    file = re.escape(f"{name_of(source)}.cu")
    innermost = rf"#0 .*\b{file}:(\d+)|^{file}:(\d+):\d+: runtime error"
    return {
        int(of_stack or of_error)
        for of_stack, of_error in re.findall(innermost, report, re.MULTILINE)
    }


# -- bounds and alignment --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (cuda_bugs.PAST_THE_INPUT, "heap-buffer-overflow"),
        (cuda_bugs.BEFORE_THE_INPUT, "heap-buffer-overflow"),
        (cuda_bugs.PAST_THE_OUTPUT, "heap-buffer-overflow"),
        (cuda_bugs.PAST_SHARED, "index 64 out of bounds for type 'float [64]'"),
        (cuda_bugs.PAST_SHARED_POINTER, "global-buffer-overflow"),
        (cuda_bugs.PAST_DYNAMIC_SHARED, "heap-buffer-overflow"),
        (cuda_bugs.PAST_LOCAL, "index 8 out of bounds for type 'float [8]'"),
        (cuda_bugs.MISALIGNED_VECTOR, "misaligned address"),
    ],
    ids=lambda value: name_of(value) if "__global__" in value else "",
)
def test_wrong_addresses_are_found_with_their_line(
    source: str, said: str, address: Sanitizer
) -> None:
    report = findings(source, address, shared_bytes=THREADS)
    assert said in report
    assert reported_lines(report, source) == set(lines_of(source))


def test_a_block_past_the_end_of_a_tensor_is_found(address: Sanitizer) -> None:
    inside = cuda_bugs.PAST_THE_OUTPUT.replace("y[i + 1]", "y[i]")
    assert not findings(inside, address)
    assert "heap-buffer-overflow" in findings(inside, address, blocks=2)


def test_buffers_lie_as_their_tensors_do(address: Sanitizer) -> None:
    source = """
extern "C" __global__ void vectors(const float4* x, float* y) { *y = x->w; }"""
    x, y = torch.arange(5.0), torch.zeros(1)
    extents = (1, 1, 1), (1, 1, 1)
    assert not run_sanitized(source, "vectors", *extents, [x[:4], y], address).findings
    assert y.item() == 3
    report = run_sanitized(source, "vectors", *extents, [x[1:], y], address).findings
    assert "misaligned address" in report


def test_nothing_before_a_misaligned_buffer_may_be_read(address: Sanitizer) -> None:
    source = cuda_bugs.BEFORE_THE_INPUT
    x, y = floats(THREADS + 2)[2:], torch.zeros(THREADS)
    extents = (1, 1, 1), (THREADS, 1, 1)
    report = run_sanitized(source, name_of(source), *extents, [x, y], address)
    assert "use-after-poison" in report.findings


# -- races -----------------------------------------------------------------------------------------


@ORDERS
@pytest.mark.parametrize(
    "source", [cuda_bugs.READ_BEFORE_WRITE, cuda_bugs.WRITE_BEFORE_READ], ids=name_of
)
def test_missing_barriers_are_found_with_both_lines_in_every_order(
    source: str, order: ThreadOrder, thread: Sanitizer
) -> None:
    report = findings(source, thread, order)
    assert "data race" in report
    assert reported_lines(report, source) == set(lines_of(source))
    assert not findings(corrected(source), thread, order, blocks=2)


@pytest.mark.parametrize(
    ("source", "blocks"),
    [
        (cuda_bugs.REUSED_BUFFER, 1),
        (cuda_bugs.LOST_UPDATES, 1),
        (cuda_bugs.BLOCKS_OVERLAP, 2),
        (cuda_bugs.NO_FENCE, 5),
        (cuda_bugs.NO_WARP_BARRIER, 1),
    ],
    ids=lambda value: name_of(value) if isinstance(value, str) else "",
)
def test_races_are_found_with_both_lines(source: str, blocks: int, thread: Sanitizer) -> None:
    report = findings(source, thread, blocks=blocks)
    assert "data race" in report
    assert reported_lines(report, source) == set(lines_of(source))
    assert not findings(corrected(source), thread, blocks=max(blocks, 2))


def test_races_name_block_and_thread(thread: Sanitizer) -> None:
    report = findings(cuda_bugs.BLOCKS_OVERLAP, thread, blocks=2)
    assert "'block (0, 0, 0) thread " in report
    assert "'block (1, 0, 0) thread " in report


# -- what the emulator reports by itself -----------------------------------------------------------


def test_deadlocks_and_failures_are_raised_as_without_a_sanitizer(sanitizer: Sanitizer) -> None:
    first, second = lines_of(cuda_bugs.DIVERGENT_BARRIER)
    with pytest.raises(EmulatorDeadlockError, match=f"line {first}; .* line {second}"):
        findings(cuda_bugs.DIVERGENT_BARRIER, sanitizer)
    (line,) = lines_of(cuda_bugs.ASSERTION)
    with pytest.raises(EmulatorFailureError, match=f"kernel asserted: line {line}: assert"):
        findings(cuda_bugs.ASSERTION, sanitizer)


def test_arguments_of_other_sizes_than_the_parameters_are_refused(sanitizer: Sanitizer) -> None:
    source = 'extern "C" __global__ void sized(const float* x, int n) {}'
    extents = (1, 1, 1), (1, 1, 1)
    with pytest.raises(EmulatorFailureError, match="sizes of the parameters"):
        run_sanitized(source, "sized", *extents, [floats(1), ctypes.c_longlong(1)], sanitizer)


# -- kernels without mistakes ----------------------------------------------------------------------


def test_every_kernel_runs_under_the_thread_sanitizer() -> None:
    assert {kernel.name for kernel in FEW_THREADS} == {kernel.name for kernel in KERNELS}


@pytest.mark.sanitizer
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_correct_kernels_touch_only_what_they_may(kernel: CudaKernel, address: Sanitizer) -> None:
    check_clean(kernel, address)


@pytest.mark.sanitizer
@pytest.mark.parametrize("kernel", FEW_THREADS, ids=str)
def test_correct_kernels_have_no_races(kernel: CudaKernel, thread: Sanitizer) -> None:
    check_clean(kernel, thread)


def check_clean(kernel: CudaKernel, sanitizer: Sanitizer) -> None:
    arguments = kernel.arguments()
    report = run_sanitized(
        kernel.source,
        kernel.name,
        kernel.grid,
        kernel.block,
        arguments,
        sanitizer,
        shared_bytes=kernel.shared_bytes,
    )
    assert report.findings == ""
    kernel.check(*arguments)


@pytest.mark.sanitizer
@pytest.mark.parametrize("name", PART_TYPES)
def test_parts_touch_no_element_past_the_end(name: str, address: Sanitizer) -> None:
    dtype = next(member for member in DataType if member.spelling == name).torch
    for lanes in PART_LANES:
        n = 8 * lanes - 1
        x = torch.arange(1, n + 1).to(dtype)
        y, past = torch.zeros_like(x), torch.zeros(16, dtype=torch.int32)
        which = ctypes.c_int(100 * PART_TYPES.index(name) + lanes)
        arguments = [x, y, past, which, ctypes.c_int(n)]
        extents = (2, 1, 1), (4, 1, 1)
        assert not run_sanitized(parts_kernel(), "parts", *extents, arguments, address).findings
        equal(y, x)


@pytest.mark.sanitizer
@pytest.mark.parametrize("name", ["half", "bfloat16"])
def test_conversions_have_no_undefined_behaviour(name: str, address: Sanitizer) -> None:
    dtype = {"half": torch.float16, "bfloat16": torch.bfloat16}[name]
    narrow = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype)
    wide = torch.cat([narrow.float(), narrow.view(torch.int16).int().view(torch.float32)])
    widened, narrowed = torch.zeros(65536), torch.zeros(len(wide), dtype=dtype)
    sizes = [ctypes.c_int(65536), ctypes.c_int(len(wide))]
    arguments = [narrow, widened, wide, narrowed, *sizes]
    source, extents = conversion_kernel(name), ((4, 1, 1), (64, 1, 1))
    assert not run_sanitized(source, "convert", *extents, arguments, address).findings
    equal(narrowed, wide.to(dtype))


# -- generated kernels -----------------------------------------------------------------------------

SANITIZED = [family for family in FAMILIES if family.name != "columns of lines"]
"""That is a mapping of a processor's; its emulated kernels are those of "split columns", of 16,000
threads."""


@pytest.mark.sanitizer
@pytest.mark.parametrize("family", SANITIZED, ids=str)
def test_generated_kernels_have_no_findings(family: Family, sanitizer: Sanitizer) -> None:
    """Among them the gelu between views and the transposition between views."""
    inputs = family.inputs()
    (result,) = run_plan_sanitized(family.defined_like(inputs), inputs, sanitizer)
    exact = family.exact(*(tensor.double() for tensor in inputs))
    torch.testing.assert_close(result.double(), exact, rtol=2e-6, atol=2e-6)


def misaligned(x: torch.Tensor) -> torch.Tensor:
    """The same numbers, one element past an aligned address."""
    return torch.cat([x.new_zeros(1), x.reshape(-1)])[1:].view(x.shape)


def strided(x: torch.Tensor) -> torch.Tensor:
    """The same numbers with gaps between them."""
    return torch.stack([x, x], -1)[..., 0]


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x,
    "misaligned": misaligned,
    "strided": strided,
    "permuted": lambda x: x.T.contiguous().T,
    "padded rows": lambda x: torch.cat([x, x], 1)[:, : x.shape[1]],
}
SMALL = (torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.bool)


@pytest.mark.sanitizer
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_tails_and_layouts_stay_in_bounds(
    dtype: torch.dtype, layout: str, address: Sanitizer
) -> None:
    check_layout(dtype, layout, address)


@pytest.mark.sanitizer
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tails_and_layouts_have_no_races(layout: str, thread: Sanitizer) -> None:
    check_layout(torch.bfloat16, layout, thread)


def check_layout(dtype: torch.dtype, layout: str, sanitizer: Sanitizer) -> None:
    """Rows of 37 elements have a tail for every width of vector access."""
    x = LAYOUTS[layout](torch.arange(11 * 37).remainder(5).view(11, 37).to(dtype))
    y = torch.arange(37).remainder(3).to(dtype)
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        fd.add_output(fd.ops.cast(fd.ops.where(a > b, a, b), dtype=from_torch(dtype)))
        fd.add_output(fd.ops.eq(a, b))
    larger, same = run_plan_sanitized(fd, [x, y], sanitizer)
    equal(larger, torch.maximum(x, y.expand_as(x)))
    equal(same, x == y)


@pytest.mark.sanitizer
def test_a_kernel_that_leaves_its_buffers_is_found_in_a_plan(
    address: Sanitizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The buffers of a plan's kernels are no larger than what they hold."""

    def with_larger_sizes(source: str, name: str, *rest: Any, **options: Any) -> SanitizerReport:
        grid, block, arguments, sanitizer = rest
        larger = [a if isinstance(a, torch.Tensor) else type(a)(a.value + 1) for a in arguments]
        return run_sanitized(source, name, grid, block, larger, sanitizer, **options)

    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(floats(101)) * 2.0)
    (result,) = run_plan_sanitized(fd, [floats(101)], address)
    equal(result, floats(101) * 2)
    monkeypatch.setattr("tests.runtime.emulator.sanitized_plan.run_sanitized", with_larger_sizes)
    with pytest.raises(SanitizerFindingError, match="heap-buffer-overflow"):
        run_plan_sanitized(fd, [floats(101)], address)


@pytest.mark.sanitizer
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool], ids=str)
def test_tiles_that_are_read_and_stored_have_no_findings(
    dtype: torch.dtype, layout: str, sanitizer: Sanitizer
) -> None:
    """Tiles that reach beyond both axes, on the way from memory and to it."""
    x = LAYOUTS[layout](torch.arange(67 * 37).remainder(5).view(67, 37).to(dtype))
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        same_numbers = fd.ops.eq(given, fd.ops.set(given))
        fd.add_output(same_numbers)
        turned = fd.ops.permute(fd.ops.where(same_numbers, given, given), [1, 0])
        fd.add_output(fd.ops.stride_order(turned, [1, 0]))
    same, transposed = run_plan_sanitized(fd, [x], sanitizer)
    equal(same, x == x)
    equal(transposed, x.T)
