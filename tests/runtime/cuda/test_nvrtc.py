"""Compiling CUDA text to machine code without a GPU, and what ptxas says of the result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fuser.codegen.device_library import load
from fuser.errors import CompilationError, TargetError
from fuser.runtime.cuda import bindings as cuda_bindings
from fuser.runtime.cuda.nvrtc import compile_cubin, nvrtc_version
from tests.machine_code import memory_accesses

pytest.importorskip("cuda.bindings.nvrtc")

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
EMPTY = 'extern "C" __global__ void kernel() {}'


def pointwise(type_name: str, lanes: int, expression: str) -> str:
    """A kernel that applies `expression` of `x` to `lanes` elements a thread."""
    library = load("cuda.h")
    types = [type_name] if type_name in library.sections else []
    return f"""{library.text(["int64", *types, "load_part", "store_part"])}

extern "C" __global__ void kernel(
    const {type_name}* __restrict__ from, {type_name}* __restrict__ to, int64 size) {{
  const int64 at = {lanes} * ((int64)blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= size) return;
  {type_name} values[{lanes}], results[{lanes}];
  load_part(values, from + at, size - at);
#pragma unroll
  for (int lane = 0; lane < {lanes}; ++lane) {{
    const auto x = values[lane];
    results[lane] = {expression};
  }}
  store_part(results, to + at, size - at);
}}
"""


GELU = "x * 0.5f * (1.0f + erf(x * 0.70710678f))"
WIDE_KERNELS = [
    ("float", 4, GELU),
    ("half", 8, f"half({GELU})"),
    ("bfloat16", 8, f"bfloat16({GELU})"),
    ("bool", 16, "!x"),
    ("int8", 16, "x + 1"),
    ("int64", 2, "x + 1"),
    ("double", 2, "x * 2"),
]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("type_name", "lanes", "expression"), WIDE_KERNELS)
def test_vectors_move_by_one_wide_access_and_stay_in_registers(
    type_name: str, lanes: int, expression: str, arch: str
) -> None:
    cubin = compile_cubin(pointwise(type_name, lanes, expression), "kernel", arch)
    accesses = memory_accesses(cubin)
    assert accesses["LDG", 128] == accesses["STG", 128] == 1
    assert not {operation for operation, _ in accesses} & {"LDL", "STL", "LDS", "STS"}
    assert cubin.resources.registers <= 40
    assert cubin.resources.spill_bytes == cubin.resources.frame_bytes == 0


@pytest.mark.parametrize(
    ("type_name", "lanes", "bits", "times"),
    [("float", 8, 128, 2), ("int64", 4, 128, 2), ("float", 2, 64, 1), ("int8", 2, 16, 1)],
)
def test_vectors_of_other_sizes(type_name: str, lanes: int, bits: int, times: int) -> None:
    cubin = compile_cubin(pointwise(type_name, lanes, "x + 1"), "kernel", "sm_90")
    accesses = memory_accesses(cubin)
    assert accesses["LDG", bits] == accesses["STG", bits] == times


def test_a_vector_that_no_accesses_add_up_to_does_not_compile() -> None:
    with pytest.raises(CompilationError, match="packet<12>"):
        compile_cubin(pointwise("float", 3, "x"), "kernel", "sm_90")


def test_resources_tell_shared_memory_from_spills() -> None:
    source = """
extern "C" __global__ void __launch_bounds__(1024, 2) kernel(float* data) {
  __shared__ float shared[1024];
  float values[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) values[i] = data[i * 1024 + threadIdx.x];
  shared[threadIdx.x] = values[0];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) data[(i ^ 1) * 1024 + threadIdx.x] = values[i] + shared[i];
}"""
    cubin = compile_cubin(source, "kernel", "sm_90")
    assert cubin.resources.shared_bytes == 4096
    assert cubin.resources.registers == 32
    assert cubin.resources.spill_bytes > 0
    assert cubin.resources.frame_bytes > 0
    assert cubin.resources.binary_size == len(cubin.image)
    assert memory_accesses(cubin)["STL", 32] > 0


def test_resources_are_those_of_the_named_kernel() -> None:
    text = """
extern "C" __global__ void {name}(float* x) {{
  __shared__ float s[{size}];
  s[threadIdx.x] = *x;
  *x = s[(int)*x];
}}"""
    source = text.format(name="kernel_b", size=8) + text.format(name="kernel", size=4)
    assert compile_cubin(source, "kernel", "sm_90").resources.shared_bytes == 16
    assert compile_cubin(source, "kernel_b", "sm_90").resources.shared_bytes == 32


def test_an_error_shows_the_log_and_keeps_the_text() -> None:
    source = 'extern "C" __global__ void kernel(float* x) { *x = undefined_name; }'
    with pytest.raises(CompilationError) as caught:
        compile_cubin(source, "kernel", "sm_90")
    message = str(caught.value)
    assert 'kernel.cu(1): error: identifier "undefined_name" is undefined' in message
    assert f"NVRTC {nvrtc_version()}" in message
    saved = Path(str(caught.value.fields["source"]))
    assert saved.read_text() == source
    saved.unlink()


def test_a_missing_kernel_is_an_error() -> None:
    with pytest.raises(CompilationError, match="no `extern \"C\" __global__` function 'other'"):
        compile_cubin(EMPTY, "other", "sm_90")


def test_an_unknown_architecture_lists_the_known_ones() -> None:
    with pytest.raises(TargetError, match=r"'sm_12'.*sm_80.*sm_90.*sm_100"):
        compile_cubin(EMPTY, "kernel", "sm_12")


def test_warnings_are_in_the_log_but_for_unused_functions() -> None:
    source = """
static __device__ int unused() { return 1; }
extern "C" __global__ void kernel(int* x) { *x == 1; }"""
    log = compile_cubin(source, "kernel", "sm_90").log
    assert "expression has no effect" in log
    assert "unused" not in log


def test_threads_compile_at_once() -> None:
    with ThreadPoolExecutor(4) as pool:
        cubins = list(pool.map(compile_cubin, [EMPTY] * 8, ["kernel"] * 8, ["sm_90"] * 8))
    assert len({cubin.image for cubin in cubins}) == 1


def test_missing_bindings_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings.nvrtc", None)
    with pytest.raises(TargetError, match="pip install 'cuda-bindings>=13,<14'"):
        compile_cubin(EMPTY, "kernel", "sm_90")


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoLibrary:
        def nvrtcVersion(self) -> None:  # noqa: N802
            raise RuntimeError("libnvrtc.so.13 not found")

    monkeypatch.setattr(cuda_bindings, "nvrtc", NoLibrary)
    with pytest.raises(TargetError, match=r"NVRTC library is missing.*nvidia-cuda-nvrtc"):
        compile_cubin(EMPTY, "kernel", "sm_90")
