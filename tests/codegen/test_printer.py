"""Kernel text: readable, of its definition's names, and the same for every size."""

import re
from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen import Pointer, Scalar, Size
from fuser.runtime.plans.plan import KernelStep

Build = Callable[[FusionDefinition], None]
TARGETS = ("cpu", "cuda:sm_90")
both_targets = pytest.mark.parametrize("target", TARGETS)


def kernel_of(build: Build, *inputs: torch.Tensor | float, target: str = "cpu") -> KernelStep:
    with FusionDefinition() as fd:
        build(fd)
    (kernel,) = fd.plan(list(inputs), target=target).kernels
    return kernel


def body_of(kernel: KernelStep) -> str:
    """The kernel itself, without its device library."""
    code = kernel.kernel_source.code
    return code[code.index('extern "C"') :]


def exp_of(given: torch.Tensor) -> Build:
    return lambda fd: fd.add_output(fd.ops.exp(fd.from_pytorch(given)))


LAYOUTS = [
    lambda n: torch.empty(16 * n, 24 * n, device="meta"),
    lambda n: torch.empty(24 * n, 16 * n, device="meta").t(),
    lambda n: torch.empty(16 * n, 48 * n, device="meta")[:, ::2],
    lambda n: torch.empty(24 * n, device="meta").expand(16 * n, 24 * n),
]


@both_targets
@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_sizes_have_equal_code(layout, target: str):
    def build(fd: FusionDefinition) -> None:
        x = fd.from_pytorch(layout(1))
        y = fd.ops.add(x, fd.ops.permute(fd.from_pytorch(layout(1)), [0, 1]))
        fd.add_output(fd.ops.stride_order(y, [0, 1]))

    codes = {
        kernel_of(build, layout(n), layout(n), target=target).kernel_source.code for n in (8, 9, 21)
    }
    assert len(codes) == 1


@both_targets
def test_sizes_are_arguments_not_text(target: str):
    given = torch.empty(1237, 1249, device="meta")[:, :1231]
    kernel = kernel_of(exp_of(given), given, target=target)
    numbers = [a.number for a in kernel.kernel_source.arguments if isinstance(a, Size)]
    assert {1237, 1231} <= set(numbers)
    assert not re.search(r"\b(1237|1231|1249)\b", kernel.kernel_source.code)


@both_targets
def test_the_header_says_where_the_kernel_comes_from(target: str):
    given = torch.empty(64, 32, device="meta")
    header = kernel_of(exp_of(given), given, target=target).kernel_source.header
    assert "// pointwise_exp: 8192 bytes read, 8192 written\n" in header
    assert "// ends here: T1 is an output\n" in header
    assert "//   T1 = fd.ops.exp(T0)\n" in header


@both_targets
def test_arguments_are_loads_stores_scalars_sizes(target: str):
    given = torch.empty(64, 32, device="meta")

    def build(fd: FusionDefinition) -> None:
        x, s = fd.from_pytorch(given), fd.define_scalar(DataType.Float)
        fd.add_output(fd.ops.mul(x, s))

    kernel = kernel_of(build, given, 2.0, target=target)
    kinds = [type(argument) for argument in kernel.kernel_source.arguments]
    assert kinds == [Pointer, Pointer, Scalar, Size]
    assert re.search(
        r"T0_in, float\* __restrict(__)? T2_out, const float S1, const", body_of(kernel)
    )


@pytest.mark.parametrize(
    ("dtype", "declared"),
    [
        (DataType.Half, "const float S1_given"),
        (DataType.BFloat16, "const float S1_given"),
        (DataType.ComplexFloat, "const complex64_parts S1_given"),
        (DataType.ComplexDouble, "const complex128_parts S1_given"),
        (DataType.Bool, "const bool S1,"),
    ],
)
@both_targets
def test_scalars_are_passed_as_plain_data(dtype: DataType, declared: str, target: str):
    given = torch.empty(64, device="meta")

    def build(fd: FusionDefinition) -> None:
        x, s = fd.from_pytorch(given), fd.define_scalar(dtype)
        fd.add_output(fd.ops.where(s, x, 0.0) if dtype is DataType.Bool else fd.ops.mul(x, s))

    number = True if dtype is DataType.Bool else 2.0
    assert declared in body_of(kernel_of(build, given, number, target=target))


@both_targets
def test_unused_device_functions_are_left_out(target: str):
    given = torch.empty(64, device="meta")
    code = kernel_of(
        lambda fd: fd.add_output(fd.ops.neg(fd.from_pytorch(given))), given, target=target
    ).kernel_source.code
    assert "erf" not in code
    assert "complex" not in code


@both_targets
def test_lines_are_not_repeated_for_what_is_computed_once(target: str):
    given = torch.empty(64, device="meta")

    def build(fd: FusionDefinition) -> None:
        y = fd.ops.exp(fd.from_pytorch(given))
        fd.add_output(fd.ops.add(y, y))

    text = body_of(kernel_of(build, given, target=target))
    assert len(re.findall(r"\bexp(?:_lanes)?\(", text)) == 1


def test_cpu_loops_are_declared_parallel_outside_and_simd_inside():
    given = torch.empty(64, 48, device="meta")[:, :32]
    kernel = kernel_of(lambda fd: fd.add_output(fd.ops.neg(fd.from_pytorch(given))), given)
    text = body_of(kernel)
    assert text.index("#pragma omp parallel for if (threaded)") < text.index("#pragma omp simd")


def test_cuda_threads_leave_where_the_tensor_ends():
    given = torch.empty(64, 48, device="meta")[:, :32]
    text = body_of(kernel_of(exp_of(given), given, target="cuda:sm_90"))
    assert "if (i0 >= n0 || i1 >= n1) return;" in text
    assert "load_vector(T0, T0_in + (" in text


@pytest.mark.parametrize(
    ("length", "line"),
    [
        (1 << 33, "const int64 thread = int64(blockIdx.x) * 512 + threadIdx.x;"),
        ((1 << 33) + 1, "const int64 i0 = (int64(blockIdx.x) * blockDim.x + threadIdx.x) * 4;"),
    ],
)
def test_large_tensors_are_indexed_with_64_bits_before_they_are_multiplied(length: int, line: str):
    given = torch.empty(length, device="meta")
    assert line in body_of(kernel_of(exp_of(given), given, target="cuda:sm_90"))
