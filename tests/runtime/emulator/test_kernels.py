"""The emulator runs CUDA text as a GPU would: hand-written kernels are compared with torch."""

from __future__ import annotations

import ctypes
import gc
import math
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fuser.codegen.device_library import load
from fuser.errors import CompilationError, TargetError
from fuser.ir.dtypes import DataType
from fuser.runtime.cpu.toolchain import find_compiler
from fuser.runtime.emulator import EmulatorFailureError, ThreadOrder, build
from tests.runtime.emulator.cuda_kernels import KERNELS, CudaKernel, equal, launch

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")

ROOT = Path(__file__).parents[3]
ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)


@ORDERS
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_compute_what_torch_does(kernel: CudaKernel, order: ThreadOrder) -> None:
    arguments = kernel.arguments()
    launch(
        kernel.source,
        kernel.name,
        kernel.grid,
        kernel.block,
        arguments,
        shared_bytes=kernel.shared_bytes,
        order=order,
    )
    kernel.check(*arguments)


# -- mathematical functions ------------------------------------------------------------------------

Exact = Callable[[torch.Tensor], torch.Tensor]

UNARY: dict[str, Exact] = {
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "lgamma": torch.lgamma,
    "ceil": torch.ceil,
    "floor": torch.floor,
    "trunc": torch.trunc,
    "rint": torch.round,
    "fabs": torch.abs,
    "abs": torch.abs,
    "erfinv": torch.erfinv,
    # erfinv(1 - y), but without losing the digits of a small y
    "erfcinv": lambda y: -torch.special.ndtri(y / 2) / math.sqrt(2),
}
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "pow": torch.pow,
    "atan2": torch.atan2,
    "fmod": torch.fmod,
    "copysign": torch.copysign,
    "fmin": torch.fmin,
    "fmax": torch.fmax,
    "min": torch.fmin,
    "max": torch.fmax,
    "hypot": torch.hypot,
}


def math_kernel() -> str:
    """out[function][i], for floats and for doubles."""
    calls = [f"{name}(x[i])" for name in UNARY] + [f"{name}(x[i], y[i])" for name in BINARY]
    lines = "\n".join(f"  out[{row}ll * n + i] = {call};" for row, call in enumerate(calls))
    return f"""
template <typename T> __device__ void all(const T* x, const T* y, T* out, int n) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
{lines}
}}
extern "C" __global__ void math(const float* x, const float* y, float* out, const double* dx,
                                const double* dy, double* dout, int n) {{
  all(x, y, out, n);
  all(dx, dy, dout, n);
}}"""


def special_numbers() -> torch.Tensor:
    below_one = 1 - 2.0 ** -torch.arange(1, 24).double()
    sizes = torch.cat([torch.logspace(-30, 30, 121), below_one, torch.arange(0.0, 20.0, 0.5)])
    numbers = torch.cat([sizes, torch.tensor([math.inf, math.nan])]).float()
    return torch.cat([numbers, -numbers])


def test_mathematical_functions_are_those_of_torch() -> None:
    x = special_numbers()
    y = x.roll(len(x) // 3)
    wide = [x.double(), y.double()]
    rows = len(UNARY) + len(BINARY)
    out, wide_out = torch.zeros(rows, len(x)), torch.zeros(rows, len(x), dtype=torch.float64)
    arguments = [x, y, out, *wide, wide_out, ctypes.c_int(len(x))]
    launch(math_kernel(), "math", (-(-len(x) // 128), 1, 1), (128, 1, 1), arguments)
    exact = [function(wide[0]) for function in UNARY.values()]
    exact += [function(*wide) for function in BINARY.values()]
    for row, name in enumerate([*UNARY, *BINARY]):
        for got, eps in ((out[row], 2**-23), (wide_out[row], 2**-52)):
            expected = exact[row].to(got.dtype)
            torch.testing.assert_close(
                got,
                expected,
                rtol=16 * eps,
                atol=torch.finfo(got.dtype).tiny,
                equal_nan=True,
                msg=lambda text, name=name: f"{name}: {text}",
            )


def test_inverse_error_functions_undo_error_functions() -> None:
    """To the last digits, also where the result is near zero or the operand near its limits."""
    source = """
extern "C" __global__ void inverses(const double* x, double* out) {
  const int i = threadIdx.x, n = blockDim.x;
  out[i] = erfinv(x[i]);
  out[n + i] = erfcinv(x[i]);
  out[2 * n + i] = erfcinv(2 - x[i]);
}"""
    x = torch.cat([torch.logspace(-300, -2, 300, dtype=torch.float64), torch.arange(1, 100) / 100])
    out = torch.zeros(3, len(x), dtype=torch.float64)
    launch(source, "inverses", (1, 1, 1), (len(x), 1, 1), [x, out])
    torch.testing.assert_close(torch.erf(out[0]), x, rtol=1e-15, atol=0)
    # erfc' / erfc is about -2z: an error in the last digit of z is 2 z^2 times as large in y
    error = (torch.erfc(out[1]) / x - 1).abs() / (1 + 2 * out[1] ** 2)
    assert error.max() < 4 * 2**-52
    kept = x > 0.005  # 2 - x has lost the digits of smaller ones
    torch.testing.assert_close(out[2][kept], -out[1][kept], rtol=1e-13, atol=1e-16)


def test_inverse_error_functions_have_the_limits_of_cuda() -> None:
    source = """
extern "C" __global__ void limits(float* out) {
  const float values[] = {erfinv(1.0f), erfinv(-1.0f), erfinv(1.5f), erfinv(0.0f),
                          erfcinv(0.0f), erfcinv(2.0f), erfcinv(-0.5f), erfcinv(1.0f)};
  out[threadIdx.x] = values[threadIdx.x];
}"""
    out = torch.ones(8)
    launch(source, "limits", (1, 1, 1), (8, 1, 1), [out])
    inf, nan = math.inf, math.nan
    equal(out, torch.tensor([inf, -inf, nan, 0, inf, -inf, nan, 0]))


def test_bits_are_counted_as_in_cuda() -> None:
    source = """
extern "C" __global__ void bits(const int* x, int* out, int n) {
  const int i = threadIdx.x;
  out[i] = __popc(x[i]);
  out[n + i] = __ffs(x[i]);
}"""
    numbers = [0, 1, 2, 3, 0x40000000, 0x7FFFFFFF, 12345678, 0xFF00]
    x, out = torch.tensor(numbers, dtype=torch.int32), torch.zeros(2, 8, dtype=torch.int32)
    launch(source, "bits", (1, 1, 1), (8, 1, 1), [x, out, ctypes.c_int(8)])
    assert out[0].tolist() == [n.bit_count() for n in numbers]
    assert out[1].tolist() == [(n & -n).bit_length() for n in numbers]


# -- the device library ----------------------------------------------------------------------------

PART_TYPES = ("float", "half", "bfloat16", "bool", "int8", "int16", "int64", "double")
PART_LANES = (1, 2, 4, 8, 16)


def conversion_kernel(name: str) -> str:
    return f"""{load("cuda.h").text([name])}
extern "C" __global__ void convert(const {name}* narrow, float* widened, const float* wide,
                                   {name}* narrowed, int n, int m) {{
  const int threads = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n || i < m; i += threads) {{
    if (i < n) widened[i] = narrow[i];
    if (i < m) narrowed[i] = {name}(wide[i]);
  }}
}}"""


@pytest.mark.parametrize(
    ("name", "dtype"), [("half", torch.float16), ("bfloat16", torch.bfloat16)], ids=str
)
def test_16_bit_floats_widen_and_round_as_in_torch(name: str, dtype: torch.dtype) -> None:
    narrow = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype)
    generator = torch.Generator().manual_seed(0)
    near = narrow.float().view(torch.int32)[:, None] + torch.tensor([-1, 1, 0x1000, 0x8000])
    random = torch.randint(-(2**31), 2**31, (2**17,), generator=generator).to(torch.int32)
    wide = torch.cat([near.reshape(-1).to(torch.int32), random]).view(torch.float32)
    widened, narrowed = torch.zeros(65536), torch.zeros(len(wide), dtype=dtype)
    sizes = [ctypes.c_int(65536), ctypes.c_int(len(wide))]
    arguments = [narrow, widened, wide, narrowed, *sizes]
    launch(conversion_kernel(name), "convert", (4, 1, 1), (64, 1, 1), arguments)
    equal(widened, narrow.float())
    equal(narrowed, wide.to(dtype))
    assert torch.equal(narrowed.signbit() | wide.isnan(), wide.signbit() | wide.isnan())


def parts_kernel() -> str:
    """y = x by load_part and store_part, and what load_part gives past the end."""
    library = load("cuda.h")
    keys = [name for name in (*PART_TYPES, "load_part", "store_part") if name in library.sections]
    cases = "\n".join(
        f"  if (which == {100 * row + lanes}) copy<{lanes}>(({name}*)x, ({name}*)y, past, n);"
        for row, name in enumerate(PART_TYPES)
        for lanes in PART_LANES
    )
    return f"""{library.text(keys)}
template <int N, typename T>
__device__ void copy(const T* x, T* y, int* past, int n) {{
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * N;
  if (at >= n) return;
  T lanes[N];
  load_part(lanes, x + at, n - at);
  store_part(lanes, y + at, n - at);
  for (int i = n - at; i < N; ++i) past[i] = (float)lanes[i] != 0;
}}
extern "C" __global__ void parts(void* x, void* y, int* past, int which, int n) {{
{cases}
}}"""


@pytest.mark.parametrize("lanes", PART_LANES)
@pytest.mark.parametrize("name", PART_TYPES)
def test_parts_copy_every_element_and_no_other(name: str, lanes: int) -> None:
    dtype = next(member for member in DataType if member.spelling == name).torch
    which = ctypes.c_int(100 * PART_TYPES.index(name) + lanes)
    for n in (1, lanes, 7 * lanes - 1, 8 * lanes + 1):
        x = torch.arange(1, n + 1 + lanes).to(dtype)
        y, past = torch.zeros_like(x), torch.zeros(16, dtype=torch.int32)
        arguments = [x, y, past, which, ctypes.c_int(n)]
        launch(parts_kernel(), "parts", (-(-n // (4 * lanes)), 1, 1), (4, 1, 1), arguments)
        equal(y[:n], x[:n])
        assert not y[n:].any()
        assert not past.any()


# -- building and launching ------------------------------------------------------------------------

FILL = """
extern "C" __global__ void fill(int* x, int value) {
  x[blockIdx.x * blockDim.x + threadIdx.x] = value;
}"""


def test_equal_text_is_compiled_once() -> None:
    assert build(FILL, "fill") is build(FILL, "fill")
    assert build(FILL + "\n", "fill") is not build(FILL, "fill")


def test_kernels_of_one_name_keep_their_own_functions_and_shared_memory() -> None:
    source = """
__device__ __forceinline__ int next(int value) {
  __shared__ int s[8];
  s[threadIdx.x] = value;
  __syncthreads();
  return s[(threadIdx.x + STEP) % 8];
}
template <typename T> __device__ T twice(T value) {
  __syncwarp();
  return FACTOR * value;
}
extern "C" __global__ void kernel(int* x) { x[threadIdx.x] = twice(next(threadIdx.x)); }"""
    for step, factor in ((1, 2), (3, 5), (1, 2)):
        x = torch.zeros(8, dtype=torch.int32)
        text = source.replace("STEP", str(step)).replace("FACTOR", str(factor))
        launch(text, "kernel", (1, 1, 1), (8, 1, 1), [x])
        equal(x, (torch.arange(8, dtype=torch.int32) + step) % 8 * factor)


def test_text_that_does_not_compile_is_reported_with_its_own_line() -> None:
    with pytest.raises(CompilationError, match=r"kernel\.cu:2:.*'?undeclared'?"):
        build('\nextern "C" __global__ void kernel() { undeclared(); }', "kernel")


def test_shared_memory_in_a_template_is_refused() -> None:
    source = """
template <typename T> __device__ T first(T value) {
  __shared__ T s[32];
  if (threadIdx.x == 0) { s[0] = value; }
  __syncthreads();
  return s[0];
}
extern "C" __global__ void kernel(int* x) { *x = first(1); }"""
    with pytest.raises(TargetError, match="the template in line 2 declares __shared__ memory"):
        build(source, "kernel")


def test_dynamic_shared_memory_outside_of_a_function_does_not_compile() -> None:
    source = "extern __shared__ int s[];\n" + FILL.replace("value;", "s[0];")
    with pytest.raises(CompilationError, match=r"fill\.cu:1:"):
        build(source, "fill")


@pytest.mark.parametrize(
    "declaration",
    [
        "extern __shared__ int s[];",
        "extern __shared__ alignas(16) int s[];",
        "alignas(16) extern __shared__ int s[];",
        "extern __align__(16) __shared__ int s[];",
        "extern __shared__ volatile int s [ ] ;",
        "extern   __shared__\n  int s[];",
    ],
)
def test_dynamic_shared_memory_is_declared_in_any_spelling(declaration: str) -> None:
    source = f"""
extern "C" __global__ void kernel(int* x) {{
  {declaration}
  s[threadIdx.x] = 5 * threadIdx.x;
  __syncthreads();
  x[threadIdx.x] = s[7 - threadIdx.x];
}}"""
    x = torch.zeros(8, dtype=torch.int32)
    launch(source, "kernel", (1, 1, 1), (8, 1, 1), [x], shared_bytes=32)
    assert x.tolist() == [35, 30, 25, 20, 15, 10, 5, 0]


@pytest.mark.parametrize(
    ("grid", "block", "shared_bytes", "reason"),
    [
        ((1, 1, 1), (32, 33, 1), 0, "a block of 1056 threads; CUDA allows 1 to 1024"),
        ((1, 1, 1), (1025, 1, 1), 0, r"a block of \(1025, 1, 1\); CUDA allows"),
        ((1, 1, 1), (1, 1, 65), 0, r"a block of \(1, 1, 65\); CUDA allows"),
        ((1, 1, 1), (0, 1, 1), 0, r"a block of \(0, 1, 1\); CUDA allows"),
        ((1, 65536, 1), (1, 1, 1), 0, r"a grid of \(1, 65536, 1\); CUDA allows"),
        ((0, 1, 1), (1, 1, 1), 0, r"a grid of \(0, 1, 1\); CUDA allows"),
        ((1, 1, 1), (1, 1, 1), 300000, "300000 bytes of shared memory; CUDA allows"),
    ],
)
def test_launches_that_cuda_refuses_are_refused(
    grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int, reason: str
) -> None:
    x = torch.zeros(1, dtype=torch.int32)
    arguments = [x, ctypes.c_int(1)]
    with pytest.raises(EmulatorFailureError, match=f"kernel fill: {reason}"):
        launch(FILL, "fill", grid, block, arguments, shared_bytes=shared_bytes)
    assert x.item() == 0


def test_arguments_of_other_sizes_than_the_parameters_are_refused() -> None:
    kernel = build(FILL, "fill")
    for arguments in ([ctypes.c_void_p(0)], [ctypes.c_void_p(0), ctypes.c_longlong(1)]):
        with pytest.raises(EmulatorFailureError, match=r"for parameters of \(8, 4\) bytes"):
            kernel.launch((1, 1, 1), (1, 1, 1), arguments)


def test_structures_are_passed_by_value() -> None:
    class Pair(ctypes.Structure):
        _fields_ = (("a", ctypes.c_double), ("b", ctypes.c_int))

    source = """
struct Pair { double a; int b; };
extern "C" __global__ void kernel(double* x, Pair pair, bool flag, unsigned char byte) {
  *x = pair.a + pair.b + flag + byte;
}"""
    x = torch.zeros(1, dtype=torch.float64)
    rest = [Pair(0.5, 3), ctypes.c_bool(True), ctypes.c_uint8(200)]
    launch(source, "kernel", (1, 1, 1), (1, 1, 1), [x, *rest])
    assert x.item() == 204.5


def test_threads_launch_kernels_at_once() -> None:
    results = [torch.zeros(64 * 50, dtype=torch.int32) for _ in range(8)]

    def work(number: int) -> None:
        for _ in range(20):
            arguments = [results[number], ctypes.c_int(number + 1)]
            launch(FILL, "fill", (50, 1, 1), (64, 1, 1), arguments)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for number, result in enumerate(results):
        equal(result, torch.full_like(result, number + 1))


def test_the_first_kernels_of_a_process_may_be_built_at_once() -> None:
    script = """
    import ctypes
    from concurrent.futures import ThreadPoolExecutor
    from fuser.runtime.emulator import build

    TEXT = '''extern "C" __global__ void kernel(int* x) {
      x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, (int)threadIdx.x, NUMBER);
    }'''

    def run(number):
        kernel = build(TEXT.replace("NUMBER", str(number)), "kernel")
        numbers = (ctypes.c_int * 32)()
        kernel.launch((1, 1, 1), (32, 1, 1), [ctypes.c_void_p(ctypes.addressof(numbers))])
        return list(numbers) == [lane ^ number for lane in range(32)]

    with ThreadPoolExecutor(4) as pool:
        print(all(pool.map(run, range(1, 5))))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.stdout == "True\n", done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_launches_leave_no_memory_behind() -> None:
    x = torch.zeros(64, dtype=torch.int32)

    def launch_often(times: int) -> None:
        for _ in range(times):
            arguments = [x, ctypes.c_int(1)]
            launch(FILL, "fill", (2, 1, 1), (32, 1, 1), arguments, shared_bytes=16384)

    def resident() -> int:
        gc.collect()
        pages = Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * 4096

    launch_often(100)
    before = resident()
    launch_often(3000)  # of 16 KiB: 48 MiB if they were kept
    assert resident() - before < 8 << 20
