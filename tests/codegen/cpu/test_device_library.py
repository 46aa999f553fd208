"""The CPU device library: accuracy over float32, meaning against torch, vectorization.

`FUSER_EXHAUSTIVE=1` sweeps all 2^32 arguments of each float32 function, in some minutes.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from fuser.codegen import device_library
from fuser.codegen.target import CPU
from fuser.ir.conversions import converted
from fuser.ir.dtypes import NUMBERS, DataType
from fuser.ir.four_bits import one_by_one
from fuser.ir.pointwise import TABLE, PointwiseOp, letter
from fuser.ir.promotion import Operand, Signature
from fuser.runtime.cpu import kernel as cpu
from fuser.runtime.cpu.toolchain import find_compiler

COMPILER = find_compiler()
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

LIBRARY = CPU.library
HEADERS = Path(device_library.__file__).parent / "device"
FLAGS = ("-std=c++17", "-fopenmp", "-fwrapv", "-fno-trapping-math", "-fno-math-errno")


@dataclass(frozen=True)
class Built:
    library: ctypes.CDLL
    log: str


def build(source: str, directory: Path, *flags: str) -> Built:
    assert COMPILER is not None
    text, library = directory / "kernel.cpp", directory / "kernel.so"
    text.write_text(source)
    command = [*COMPILER.command, *FLAGS, *flags, "-shared", "-fPIC", "-o", str(library), str(text)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Built(ctypes.CDLL(str(library)), done.stderr)


def address(tensor: torch.Tensor) -> ctypes.c_void_p:
    assert tensor.is_contiguous()
    return ctypes.c_void_p(tensor.data_ptr())


# -- accuracy of the float32 functions -----------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """The largest error, in units in the last place that are at least 2^`least`, and result. For
    each 1 of |x|, `by_size` more units are allowed."""

    ulp: float
    reference: str = ""
    least: int = -149
    result: float = math.inf
    by_size: float = 0.0


SIGMOID = (
    "(x < 0 ? {0} * __builtin_exp(x) / (1 + __builtin_exp(x)) : {0} / (1 + __builtin_exp(-x)))"
)
NORMAL_CDF = "0.5 * __builtin_erfc(-x * 0.70710678118654752440)"
GELU = f"x * {NORMAL_CDF}"
EXP_NONPOSITIVE = "__builtin_exp(-__builtin_fabs(x))"
BOUNDS = {
    "acos": Bound(1.2),
    "acosh": Bound(2.5),
    "asin": Bound(2.2),
    "asinh": Bound(2.5),
    "atan": Bound(1.5),
    "atanh": Bound(2.5),
    "cos": Bound(1.6, result=1.0),
    "cosh": Bound(1.6),
    "erf": Bound(6.5, result=1.0),
    "erfc": Bound(7.0, result=2.0),
    "erfcinv": Bound(4.0, "erfcinv(x)"),
    "erfinv": Bound(3.5, "erfinv(x)"),
    "exp": Bound(1.1),
    "exp2": Bound(1.2),
    "exp_nonpositive": Bound(1.0, EXP_NONPOSITIVE, least=-126, by_size=0.05),
    "exp_nonpositive_narrow": Bound(43.0, EXP_NONPOSITIVE, least=-126, by_size=0.05),
    "expm1": Bound(1.6),
    "normal_cdf": Bound(3.0, NORMAL_CDF, least=-24, result=1.0),
    "plus_exp": Bound(2.5, EXP_NONPOSITIVE, least=-126, by_size=0.05),
    "gelu": Bound(3.5, GELU, least=-22),
    "lgamma": Bound(0.8),
    "log": Bound(1.0),
    "log10": Bound(1.0),
    "log1p": Bound(1.7),
    "log2": Bound(1.0),
    "rsqrt": Bound(1.6, "1 / __builtin_sqrt(x)"),
    "sigmoid": Bound(2.5, SIGMOID.format("1"), result=1.0),
    "silu": Bound(3.6, SIGMOID.format("x"), least=-143),
    "sin": Bound(1.6, result=1.0),
    "sinh": Bound(1.8),
    "tan": Bound(0.9),
    "tanh": Bound(1.5, result=1.0),
}
LANE_BOUNDS = {
    "erf": Bound(2.3, result=1.0),
    "erf_narrow": Bound(14.0, "__builtin_erf(x)", result=1.0),
    "exp": Bound(1.0),
    "exp_narrow": Bound(13.1, "__builtin_exp(x)", by_size=1.0),
    "exp_nonpositive": Bound(1.0, EXP_NONPOSITIVE, least=-126, by_size=0.05),
    "gelu": Bound(1.1, GELU, least=-22),
    "gelu_narrow": Bound(3.2, GELU, least=-22),
    "log": Bound(1.7),
    "log10": Bound(1.9),
    "log1p": Bound(1.7),
    "log2": Bound(1.7),
    "normal_cdf": Bound(1.2, NORMAL_CDF, least=-24, result=1.0),
    "normal_cdf_narrow": Bound(14.5, NORMAL_CDF, least=-24, result=1.0),
    "sigmoid": Bound(3.1, SIGMOID.format("1"), result=1.0),
    "sigmoid_narrow": Bound(13.0, SIGMOID.format("1"), least=-103, result=1.0, by_size=1.0),
    "silu": Bound(3.7, SIGMOID.format("x"), least=-143),
    "silu_narrow": Bound(13.0, SIGMOID.format("x"), least=-97, by_size=1.0),
    "tan": Bound(3.5),
    "tanh": Bound(1.9, result=1.0),
    "tanh_narrow": Bound(12.2, "__builtin_tanh(x)", result=1.0),
}
"""As `BOUNDS`, of functions of all lanes at once, where there are vectors for them."""

SWEPT = BOUNDS | {f"{name}_lanes": bound for name, bound in LANE_BOUNDS.items()}

MEASURE = """
struct Report { double ulp; float worst, result; int wrong; };

// The largest error of `got` against the double `expected`, and how often NaN, infinity or the sign
// of zero is wrong.
static void measure(Report& report, float x, float got, double expected, double least,
                    double by_size) {
  const float nearest = float(expected);
  bool wrong = false;
  double ulp = 0;
  if (expected != expected || got != got) {
    wrong = expected == expected || got == got;
  } else if (nearest - nearest != 0 || got - got != 0) {
    wrong = nearest != got && !(__builtin_fabs(expected) > 3.4028e38 && got * expected > 0);
  } else {
    wrong = nearest == 0 && got == 0 && __builtin_signbit(nearest) != __builtin_signbit(got);
    const long long exponent = __builtin_bit_cast(long long, expected) & 0x7ff0000000000000;
    const double unit = __builtin_bit_cast(double, exponent) * 0x1p-23;
    ulp = __builtin_fabs(got - expected) / (unit > least ? unit : least);
    if (by_size > 0) ulp -= by_size * __builtin_fabs(x);
  }
  if (wrong || (ulp > report.ulp && !report.wrong)) report.worst = x;
  if (ulp > report.ulp) report.ulp = ulp;
  if (__builtin_fabsf(got) > report.result) report.result = __builtin_fabsf(got);
  report.wrong += wrong;
}
"""

LANE_BY_LANE = """
static void apply_{name}(const float (&in)[1024], float (&out)[1024]) {{
#pragma omp simd
  for (int i = 0; i < 1024; ++i) out[i] = {name}({given}(in[i]));  // {name}
}}
"""

LANE_VECTORS = """
#if defined(FUSER_LANE_VECTORS)
extern "C" int has_lane_vectors() { return 1; }
#else
extern "C" int has_lane_vectors() { return 0; }
#endif
"""

ALL_LANES = """
static void apply_{name}_lanes(const float (&in)[1024], float (&out)[1024]) {{
  float given[1024];
  for (int i = 0; i < 1024; ++i) given[i] = {given}(in[i]);
  in_lanes(out, given, [](auto x) {{ return {name}(x); }});
}}
"""

SWEEP = """
extern "C" void sweep_{name}(Report* report, unsigned first, unsigned stride, int blocks) {{
#pragma omp parallel
  {{
    Report mine = {{0, 0, 0, 0}};
    float in[1024], out[1024];
#pragma omp for
    for (int block = 0; block < blocks; ++block) {{
      for (int i = 0; i < 1024; ++i)
        in[i] = __builtin_bit_cast(float, first + stride * (1024u * block + i));
      apply_{name}(in, out);
      for (int i = 0; i < 1024; ++i) {{
        const double x = in[i];
        measure(mine, in[i], out[i], {reference}, {least}, {by_size});
      }}
    }}
#pragma omp critical
    {{
      if (mine.wrong || (mine.ulp > report->ulp && !report->wrong)) report->worst = mine.worst;
      if (mine.ulp > report->ulp) report->ulp = mine.ulp;
      if (mine.result > report->result) report->result = mine.result;
      report->wrong += mine.wrong;
    }}
  }}
}}
"""


class Report(ctypes.Structure):
    _fields_ = (
        ("ulp", ctypes.c_double),
        ("worst", ctypes.c_float),
        ("result", ctypes.c_float),
        ("wrong", ctypes.c_int),
    )

    def check(self, name: str, bound: Bound) -> None:
        print(f"{name}: {self.ulp:.3f} ulp at {self.worst!r}")
        assert self.wrong == 0, f"wrong special value near {self.worst!r}"
        assert self.ulp <= bound.ulp, f"at {self.worst!r}"
        assert self.result <= bound.result


PAIRS = """
extern "C" void pairs_{name}(const float* x, const float* y, float* out, long long count) {{
#pragma omp simd
  for (long long i = 0; i < count; ++i) out[i] = {name}(x[i], y[i]);  // {name}
}}
extern "C" void of_one_{name}(const float* x, const float* y, float* out, long long count) {{
  const float same = x[0];
#pragma omp simd
  for (long long i = 0; i < count; ++i) out[i] = {name}(same, y[i]);  // {name} of one
}}
extern "C" void by_one_{name}(const float* x, const float* y, float* out, long long count) {{
  const float same = y[0];
#pragma omp simd
  for (long long i = 0; i < count; ++i) out[i] = {name}(x[i], same);  // {name} by one
}}
"""

CONVERSIONS = """
extern "C" void to_{name}(const float* in, {name}* out, long long count) {{
#pragma omp simd
  for (long long i = 0; i < count; ++i) out[i] = {name}(in[i]);  // to {name}
}}
extern "C" void from_{name}(const {name}* in, float* out, long long count) {{
#pragma omp simd
  for (long long i = 0; i < count; ++i) out[i] = float(in[i]);  // from {name}
}}
"""

AT_ONCE = """
extern "C" void read_{name}_{count}(const {name}* in, float* out, long long size) {{
  for (long long i = 0; i < size; i += {count}) {{
    read_{name}(*reinterpret_cast<float (*)[{count}]>(out + i), in + i);
  }}
}}
extern "C" void round_{name}_{count}(const float* in, {name}* out, long long size) {{
  for (long long i = 0; i < size; i += {count}) {{
    round_chunk(*reinterpret_cast<{name} (*)[{count}]>(out + i),
                *reinterpret_cast<const float (*)[{count}]>(in + i));
  }}
}}
"""
OF_16 = {"half": torch.half, "bfloat16": torch.bfloat16}

PAIRED = ("pow", "atan2", "fmod")
STORED = {d.spelling: d for d in NUMBERS if d.is_floating and d.itemsize < 4}
BITS = {1: torch.int8, 2: torch.int16}


@pytest.fixture(scope="module")
def vector_loops(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Loops over the float32 functions, built as generated code is, with the compiler's notes."""
    names = [f"{name}(float)" for name in (*BOUNDS, *PAIRED)]
    names += [f"{name}_lanes" for name in LANE_BOUNDS]
    names += ["erfinv(double)", "erfcinv(double)"]
    names += [f"{done}_{name}" for name in OF_16 for done in ("read", "round")]
    parts = [LIBRARY.text([*names, *STORED]), MEASURE, LANE_VECTORS]
    parts += [AT_ONCE.format(name=name, count=count) for name in OF_16 for count in (32, 64)]
    parts += [LANE_BY_LANE.format(name=name, given=given(name)) for name in BOUNDS]
    parts += [ALL_LANES.format(name=name, given=given(name)) for name in LANE_BOUNDS]
    for name, bound in SWEPT.items():
        reference = bound.reference or f"__builtin_{name.removesuffix('_lanes')}(x)"
        least, by_size = 2.0**bound.least, bound.by_size
        parts.append(SWEEP.format(name=name, reference=reference, least=least, by_size=by_size))
    parts += [PAIRS.format(name=name) for name in PAIRED]
    parts += [CONVERSIONS.format(name=name) for name in STORED]
    directory = tmp_path_factory.mktemp("vector_loops")
    assert COMPILER is not None
    notes = ["-fopt-info-vec"] if "clang" not in COMPILER.version else []
    return build("\n".join(parts), directory, *cpu.FLAGS, *notes)


def given(name: str) -> str:
    """What makes the arguments of any float32; a sum is one of 0 and the power."""
    nonpositive = "-__builtin_fabsf"
    if name.startswith("exp_nonpositive"):
        return nonpositive
    return f"0.0f, {nonpositive}" if name == "plus_exp" else ""


def bound_of(vector_loops: Built, name: str) -> Bound:
    """What a swept function keeps on this machine."""
    scalar = name.removesuffix("_lanes").removesuffix("_narrow")
    return SWEPT[name] if vector_loops.library.has_lane_vectors() else BOUNDS[scalar]


@pytest.mark.parametrize("name", SWEPT)
def test_float32_functions_keep_their_error_bounds(vector_loops: Built, name: str) -> None:
    """By default every 257th bit pattern: 2^15 arguments in each binade."""
    sweep = getattr(vector_loops.library, f"sweep_{name}")
    report, stride = Report(), 257
    blocks = 2**32 // stride // 1024 + 1
    for first in range(stride if "FUSER_EXHAUSTIVE" in os.environ else 1):
        sweep(ctypes.byref(report), first, stride, blocks)
    report.check(name, bound_of(vector_loops, name))


@pytest.mark.parametrize("name", SWEPT)
def test_float32_functions_hold_at_the_ends_of_binades(vector_loops: Built, name: str) -> None:
    sweep = getattr(vector_loops.library, f"sweep_{name}")
    report = Report()
    for exponent in range(512):  # of both signs
        sweep(ctypes.byref(report), ((exponent << 23) - 512) % 2**32, 1, 1)
    report.check(name, bound_of(vector_loops, name))


def fmod(x: float, y: float) -> float:
    """The standard library's, where it is no error."""
    return math.nan if y == 0 or math.isinf(x) else math.fmod(x, y)


PAIR_BOUNDS = {"pow": 0.6, "atan2": 2.0, "fmod": 0.0}


@pytest.mark.parametrize("name", PAIRED)
def test_two_argument_functions_keep_their_error_bounds(vector_loops: Built, name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (2, 1 << 21), generator=generator, dtype=torch.int32)
    x, y = bits.view(torch.float32)
    if name == "pow":  # mostly results that are finite
        x = torch.cat([x.abs(), torch.rand(1 << 20, generator=generator) * 4])
        y = torch.cat([y, torch.randn(1 << 20, generator=generator) * 30])
        y = torch.where(torch.rand(y.shape, generator=generator) < 0.7, torch.randn(y.shape), y)
    if name == "fmod":  # a sixteenth: torch's own is wrong where quotients are huge
        x, y = x[: 1 << 17], y[: 1 << 17]
        near = (y * torch.randint(1, 1 << 20, y.shape, generator=generator)).nextafter(x)
        x, y = torch.cat([x, near]), torch.cat([y, y])
    out = torch.empty_like(x)
    getattr(vector_loops.library, f"pairs_{name}")(
        address(x), address(y), address(out), ctypes.c_longlong(len(x))
    )
    if name == "fmod":
        pairs = zip(x.tolist(), y.tolist(), strict=True)
        expected = torch.tensor([fmod(*pair) for pair in pairs], dtype=torch.float64)
    else:
        expected = getattr(torch, name)(x.double(), y.double())
    assert torch.equal(out.isnan(), expected.isnan())
    finite = (expected.abs() < 3.4028e38) & out.isfinite()
    assert torch.equal(out[~finite].nan_to_num(), expected[~finite].float().nan_to_num())
    exponent = torch.frexp(expected[finite])[1]
    unit = torch.ldexp(torch.ones(len(exponent), dtype=torch.float64), exponent - 24)
    error = (out[finite].double() - expected[finite]).abs() / unit.clamp(min=2.0**-149)
    assert error.max() <= PAIR_BOUNDS[name]


@pytest.mark.parametrize(("name", "dtype"), STORED.items())
def test_storage_types_convert_as_torch_does(
    vector_loops: Built, name: str, dtype: DataType
) -> None:
    bits = BITS[dtype.itemsize]
    patterns = torch.arange(1 << 8 * dtype.itemsize, dtype=torch.int32)
    stored = converted(patterns.to(bits).view(dtype.torch), dtype)  # of 4 bits, few of them
    wide = torch.empty(len(stored))
    getattr(vector_loops.library, f"from_{name}")(
        address(stored), address(wide), ctypes.c_longlong(len(stored))
    )
    assert torch.equal(wide.isnan(), stored.isnan())
    assert torch.equal(wide.nan_to_num(7), stored.float().nan_to_num(7))

    near = wide.view(torch.int32)[:, None] + torch.arange(-3, 4, dtype=torch.int32)
    halves = torch.tensor([1 << place for place in (12, 15, 19, 20, 22)], dtype=torch.int32)
    ties = torch.cat([halves, halves - 1, halves + 1])
    near = torch.cat([near, wide.view(torch.int32)[:, None] + ties], dim=1)
    strided = torch.arange(-(2**31), 2**31, 4099, dtype=torch.int64).to(torch.int32)
    x = torch.cat([near.flatten(), strided]).view(torch.float32)
    out = torch.empty(len(x), dtype=dtype.torch)
    getattr(vector_loops.library, f"to_{name}")(address(x), address(out), ctypes.c_longlong(len(x)))
    expected = converted(x, dtype)
    assert torch.equal(out.isnan(), expected.isnan())
    numbers = ~expected.isnan()
    assert torch.equal(out.view(bits)[numbers], expected.view(bits)[numbers])


@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize(("name", "dtype"), OF_16.items())
def test_vectors_are_widened_and_rounded_wherever_they_lie(
    vector_loops: Built, name: str, dtype: torch.dtype, lanes: int
) -> None:
    patterns = torch.arange(-1, 1 << 16, dtype=torch.int32).to(torch.int16)
    stored = patterns.view(dtype)[1:]  # 2 bytes after the start of a line of the cache
    wide = torch.empty(len(stored))
    size = ctypes.c_longlong(len(stored))
    getattr(vector_loops.library, f"read_{name}_{lanes}")(address(stored), address(wide), size)
    assert torch.equal(wide.isnan(), stored.isnan())
    assert torch.equal(wide.nan_to_num(7), stored.float().nan_to_num(7))
    for off in range(-0x9000, 0x9000, 0xFFF):  # ties, and what is just beside them
        x = (wide.view(torch.int32) + off).view(torch.float32)
        out = torch.empty(len(x) + 1, dtype=dtype)[1:]
        getattr(vector_loops.library, f"round_{name}_{lanes}")(address(x), address(out), size)
        assert torch.equal(out.isnan(), x.isnan())
        numbers = ~x.isnan()
        assert torch.equal(out.view(torch.int16)[numbers], x.to(dtype).view(torch.int16)[numbers])


def test_loops_over_float32_functions_are_vectorized(vector_loops: Built) -> None:
    assert COMPILER is not None
    if "clang" in COMPILER.version:
        pytest.skip("reads the notes of g++")
    vectorized = set(
        map(int, re.findall(r":(\d+):\d+: optimized: loop vectorized", vector_loops.log))
    )
    source = Path(vector_loops.library._name).with_suffix(".cpp").read_text().splitlines()
    loops = {
        line.rpartition("// ")[2]: number
        for number, line in enumerate(source, 1)
        if line.startswith("  for (") and "// " in line
    }
    assert len(loops) == len(BOUNDS) + 3 * len(PAIRED) + 2 * len(STORED)
    assert [name for name, number in loops.items() if number not in vectorized] == []


# -- meaning, against the table's references -----------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A row of the table on operands of one type."""

    row: PointwiseOp
    signature: Signature

    @property
    def compute(self) -> DataType:
        return self.signature.args[-1]

    @property
    def name(self) -> str:
        return f"{self.row.name}_{self.compute.spelling}"


def cases() -> list[Case]:
    found: dict[str, Case] = {}
    for row, dtype in itertools.product(TABLE.values(), DataType):
        if dtype.compute is dtype and letter(dtype) in row.accepts:
            operand = Operand(dtype, 1)
            case = Case(row, row.rule((operand,) * row.arity))
            found[case.name] = case
    return list(found.values())


CASES = cases()


def sections(case: Case) -> list[str]:
    called = re.findall(r"\b([a-z]\w*)\(", case.row.spelling(case.compute))
    keys = [LIBRARY.key(name, case.compute.spelling) for name in called]
    types = [dtype.spelling for dtype in (*case.signature.args, case.signature.result)]
    return [key for key in (*keys, *types) if key is not None and key in LIBRARY.sections]


def loop(case: Case) -> str:
    arguments = [f"const {arg.spelling}* x{i}" for i, arg in enumerate(case.signature.args)]
    operands = [f"x{i}[i]" for i in range(len(arguments))]
    result = case.signature.result.spelling
    code = case.row.spelling(case.compute).format(*operands)
    return (
        f'extern "C" void {case.name}({result}* out, long long count, {", ".join(arguments)}) {{\n'
        f"  for (long long i = 0; i < count; ++i) {{ const {result} r = {code}; out[i] = r; }}\n}}"
    )


def conversion(source: DataType, target: DataType) -> str:
    return (
        f'extern "C" void {source.spelling}_to_{target.spelling}('
        f"{target.spelling}* out, long long count, const {source.spelling}* in) {{\n"
        f"  for (long long i = 0; i < count; ++i) out[i] = {target.spelling}(in[i]);\n}}"
    )


@pytest.fixture(scope="module")
def table_loops(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    text = LIBRARY.text([key for case in CASES for key in sections(case)] + list(STORED))
    conversions = itertools.starmap(conversion, itertools.product(NUMBERS, NUMBERS))
    source = "\n".join([text, *map(loop, CASES), *conversions])
    return build(source, tmp_path_factory.mktemp("table_loops"), "-O1").library


FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.0, 2.5, -2.5, 3.0, -7.0, 0.1, 1e-5, -1e-5, 10.0]
FLOATS += [30.0, -30.0, 80.0, 1e-40, -1e-40, 1e15, -1e30, math.inf, -math.inf, math.nan]
COMPLEX_PARTS = [0.0, 0.25, -0.25, 1.0, -1.5, 2.0, -3.0, 10.0]


# torch's vectorized float32 fmod gives NaN where the quotient is huge.
TOO_COARSE_IN_TORCH = ("floor_divide_float", "fmod_float", "mod_float", "remainder_float")
# Which of 0 and -0 wins depends on the lane in torch; erfcinv(1) is -0 through its reference.
ZERO_OF_EITHER_SIGN = ("minimum", "maximum", "clamp", "erfcinv")
# Here torch raises, or traps.
DIVISIONS = ("div", "floor_divide", "fmod", "mod", "remainder")


def values(dtype: DataType, generator: torch.Generator) -> torch.Tensor:
    """Special values, then random ones; of pairs, all."""
    if dtype is DataType.Float4_e2m1fn_x2:
        return torch.arange(256).to(torch.uint8).view(dtype.torch)
    if dtype is DataType.Bool:
        return torch.tensor([False, True])
    if dtype.is_integral:
        info = torch.iinfo(dtype.torch)
        special = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 31, 33, 63, 64, 65, 100]
        special += [-value for value in special if info.min < 0]
        special += [info.min, info.min + 1, info.max, info.max - 1]
        randoms = torch.randint(
            max(info.min, -1000), min(info.max, 1000), (16,), generator=generator
        )
        return torch.cat([torch.tensor(special, dtype=dtype.torch), randoms.to(dtype.torch)])
    if dtype.is_complex:
        parts = torch.cat(
            [torch.tensor(COMPLEX_PARTS), torch.randn(8, generator=generator) * 2]
        ).double()
        grid = torch.cartesian_prod(parts, parts)
        return torch.complex(grid[:, 0], grid[:, 1]).to(dtype.torch)
    floats = torch.cat([torch.tensor(FLOATS), torch.randn(24, generator=generator) * 3])
    return converted(floats, dtype)


def operands(case: Case) -> list[torch.Tensor]:
    """All combinations of one or two operands; a sample of those of more."""
    generator = torch.Generator().manual_seed(1)
    columns = [values(arg, generator) for arg in case.signature.args]
    if len(columns) == 2 and case.compute.is_complex:
        columns = [
            column[torch.randperm(len(column), generator=generator)[:90]] for column in columns
        ]
    if len(columns) > 2:
        picks = [torch.randint(len(column), (4000,), generator=generator) for column in columns]
        return [column[pick] for column, pick in zip(columns, picks, strict=True)]
    if len(columns) == 1:
        return columns
    index = torch.cartesian_prod(*(torch.arange(len(column)) for column in columns)).T
    x, y = (column[pick].contiguous() for column, pick in zip(columns, index, strict=True))
    if case.row.name in DIVISIONS and case.compute.is_integral:
        info = torch.iinfo(x.dtype)
        possible = (y != 0) & ((x != info.min) | (y != -1))
        x, y = x[possible], y[possible]
    return [x, y]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_operations_mean_what_torch_means(table_loops: ctypes.CDLL, case: Case) -> None:
    given = operands(case)
    exact = [x.double() for x in given] if case.name in TOO_COARSE_IN_TORCH else given
    expected = case.row.reference(*exact)
    out = torch.empty(len(given[0]), dtype=case.signature.result.torch)
    getattr(table_loops, case.name)(address(out), ctypes.c_longlong(len(out)), *map(address, given))
    compare(out, expected.to(out.dtype), given, case.row.name not in ZERO_OF_EITHER_SIGN)


def compare(
    out: torch.Tensor, expected: torch.Tensor, given: Sequence[torch.Tensor], signed_zeros: bool
) -> None:
    out, expected = one_by_one(out), one_by_one(expected)
    if out.itemsize == 1 and out.is_floating_point():
        out, expected = out.float(), expected.float()
    if out.is_complex():
        tolerance = 2e-5 if out.dtype is torch.complex64 else 1e-12
        close = (out - expected).abs() <= tolerance * (expected.abs() + 1e-3)
        close |= ~torch.isfinite(expected.abs())
    elif out.is_floating_point():
        tolerance = 3e-6 if out.dtype is torch.float32 else 1e-14
        close = torch.isclose(out, expected, rtol=tolerance, atol=1e-38, equal_nan=True)
        if signed_zeros:
            close &= (out != 0) | (expected != 0) | (out.signbit() == expected.signbit())
    else:
        close = out == expected
    if not close.all():
        first = int((~close).nonzero()[0])
        shown = ", ".join(str(column[first].item()) for column in given)
        raise AssertionError(
            f"{int((~close).sum())} of {len(out)} differ, first for ({shown}): "
            f"{out[first].item()} instead of {expected[first].item()}"
        )


@pytest.mark.parametrize("target", NUMBERS, ids=lambda dtype: dtype.spelling)
@pytest.mark.parametrize("source", NUMBERS, ids=lambda dtype: dtype.spelling)
def test_conversions_are_torchs(
    table_loops: ctypes.CDLL, source: DataType, target: DataType
) -> None:
    numbers = [0.0, 1.0, 0.25, 2.5, 3.999, 100.0, 127.0]
    wide = [-1.0, -100.7, 300.5, 1e-6, -0.0]
    short = (DataType.Bool, DataType.UInt8, DataType.UInt64, DataType.Int8)
    if not any(dtype in short for dtype in (source, target)):
        numbers += wide
    if not source.is_integral and (not target.is_integral or target is DataType.Bool):
        numbers += [*wide, 1e30, math.inf, -math.inf, math.nan]
    x = converted(torch.tensor(numbers), source)
    if source.is_complex:
        x = torch.complex(x.real, torch.arange(len(x)).to(x.real.dtype))
    expected = x.real if source.is_complex and target is not DataType.Bool else x
    out = torch.empty(len(x), dtype=target.torch)
    convert = getattr(table_loops, f"{source.spelling}_to_{target.spelling}")
    convert(address(out), ctypes.c_longlong(len(x)), address(x))
    expected = converted(x if source.is_complex and target.is_complex else expected, target)
    torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)


INTEGERS = [dtype for dtype in DataType if letter(dtype) == "i"]


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.spelling)
@pytest.mark.parametrize("name", DIVISIONS)
def test_integer_division_never_traps(table_loops: ctypes.CDLL, name: str, dtype: DataType) -> None:
    """By zero gives 0; the least integer over -1 wraps."""
    least = torch.iinfo(dtype.torch).min
    x = torch.tensor([5, 0, least, least], dtype=dtype.torch)
    y = torch.tensor([0, 0, 0, -1], dtype=torch.int64).to(dtype.torch)
    out = torch.full_like(x, 77)
    divide = getattr(table_loops, f"{name}_{dtype.spelling}")
    divide(address(out), ctypes.c_longlong(len(x)), address(x), address(y))
    assert out.tolist() == [0, 0, 0, least if name.endswith(("div", "divide")) else 0]


# -- the text itself -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.name for path in HEADERS.glob("*.h")))
def test_headers_include_nothing(name: str) -> None:
    assert "#include" not in (HEADERS / name).read_text()


def by_itself(number: int, key: str) -> str:
    """A section and what it says it needs, where neither names nor macros of others are seen."""
    text = LIBRARY.text([key])
    macros = dict.fromkeys(re.findall(r"^#define (\w+)", text, re.MULTILINE))
    forget = "\n".join(f"#undef {macro}" for macro in macros)
    return f'namespace section_{number} {{\n#line 1 "{key}"\n{text}\n}}\n{forget}\n'


@pytest.mark.parametrize("processor", [(), ("-march=native",)], ids=["plain", "native"])
def test_every_section_names_what_it_needs(tmp_path: Path, processor: tuple[str, ...]) -> None:
    """One compiler for all of them; its messages have the section's key where a file's name is."""
    assert COMPILER is not None
    parts = itertools.starmap(by_itself, enumerate(sorted(LIBRARY.sections)))
    (tmp_path / "sections.cpp").write_text("".join(parts))
    wanted = ["-fsyntax-only", str(tmp_path / "sections.cpp")]
    command = [*COMPILER.command, *FLAGS, *processor, *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("processor", ["x86_64", "haswell", "sapphirerapids"])
def test_every_section_compiles_with_clang(tmp_path: Path, processor: str) -> None:
    pytest.importorskip("ziglang", reason="needs a clang++: pip install ziglang")
    names = ("common.h", "random.h", *(path.name for path in HEADERS.glob("*cpu*.h")))
    library = device_library.load(*names)
    (tmp_path / "all.cpp").write_text(library.text(sorted(library.sections)) + "\n")
    flags = [flag for flag in FLAGS if flag not in ("-march=native", "-fno-thread-jumps")]
    wanted = ["-target", "x86_64-linux-gnu", f"-march={processor}", "-c", "-o", "all.o", "all.cpp"]
    command = [sys.executable, "-m", "ziglang", "c++", *flags, *wanted]
    zig_cache = {"ZIG_GLOBAL_CACHE_DIR": str(tmp_path), "ZIG_LOCAL_CACHE_DIR": str(tmp_path)}
    environment = os.environ | zig_cache
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# -- chunks that are stored ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float32, torch.float64], ids=str)
def test_a_part_of_a_chunk_is_stored_and_nothing_beside_it(tmp_path: Path, dtype: torch.dtype):
    """Wherever it begins and ends, and wherever memory is aligned."""
    type_ = f"unsigned {['char', 'short', 'int', 'long'][dtype.itemsize.bit_length() - 1]}"
    head = (
        f'extern "C" void store({type_}* to, const {type_}* from, long long first, long long last)'
    )
    call = f"stream_some(to, *reinterpret_cast<const {type_} (*)[64]>(from), first, last);"
    library = build(
        f"{LIBRARY.text(['stream_some'])}\n{head} {{ {call} }}", tmp_path, "-O2"
    ).library
    chunk = torch.arange(1, 65).to(dtype)
    memory = torch.zeros(256, dtype=dtype)
    base = -memory.data_ptr() // dtype.itemsize % (64 // dtype.itemsize)  # where a line begins
    parts = [(first, last) for first in range(0, 64, 3) for last in range(first, 65)]
    for at, (first, last) in itertools.product((0, 1, 5, 31, 63), parts):
        memory.zero_()
        place = ctypes.c_void_p(memory[base + at :].data_ptr())
        library.store(place, address(chunk), ctypes.c_longlong(first), ctypes.c_longlong(last))
        expected = torch.zeros_like(memory)
        expected[base + at + first : base + at + last] = chunk[first:last]
        assert torch.equal(memory, expected), (at, first, last)


# -- lanes that are joined -----------------------------------------------------------------------


@pytest.mark.parametrize("joined", ["x + y", "x > y ? x : y"])
def test_any_number_of_rows_is_joined_each_once(tmp_path: Path, joined: str):
    head = 'extern "C" double join(const float* lanes, int rows)'
    join = f"return join_rows<double>([](auto x, auto y) {{ return {joined}; }}, lanes, rows);"
    built = build(f"{LIBRARY.text(['join_rows'])}\n{head} {{ {join} }}", tmp_path)
    built.library.join.restype = ctypes.c_double
    fold = torch.sum if joined == "x + y" else torch.amax
    generator = torch.Generator().manual_seed(0)
    for rows in (*range(1, 150), 1568, 2048):
        lanes = torch.randint(-(2**13), 2**13, (rows,), generator=generator).float()  # exact sums
        assert built.library.join(address(lanes), rows) == fold(lanes, 0).item()


# -- indices -------------------------------------------------------------------------------------


def test_quotients_of_indices_are_exact(tmp_path: Path):
    code = LIBRARY.text(["quotient", "rest"])
    lines = ["*q = quotient(x, d);", "*r = rest(x, d);"]
    head = 'extern "C" void divide(long long x, long long d, long long* q, long long* r)'
    divide = build(f"{code}\n{head} {{ {' '.join(lines)} }}", tmp_path).library.divide
    q, r = ctypes.c_longlong(), ctypes.c_longlong()
    for divisor in (1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**40 + 1):
        for times in (0, 1, 2, 12345, (2**52 - 1) // divisor):
            for number in (times * divisor - 1, times * divisor, times * divisor + 1):
                if number < 0 or number + divisor >= 2**53:
                    continue
                pointers = ctypes.byref(q), ctypes.byref(r)
                divide(ctypes.c_longlong(number), ctypes.c_longlong(divisor), *pointers)
                assert (q.value, r.value) == divmod(number, divisor)
