"""float64 functions of the CPU device library: accuracy against long double, and vectorization."""

from __future__ import annotations

import ctypes
import functools
import math
from pathlib import Path

import pytest
import torch

from tests.codegen.cpu.test_device_library import COMPILER, LIBRARY, Built, address, build

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

ULP = {
    "acos": 1.2,
    "acosh": 2.8,
    "asin": 2.1,
    "asinh": 1.9,
    "atan": 1.9,
    "atanh": 2.1,
    "cos": 0.9,
    "cosh": 3.6,
    "erf": 2.6,
    "erfc": 4.4,
    "erfcinv": 3.1,
    "erfinv": 2.9,
    "exp": 1.15,
    "exp2": 1.2,
    "expm1": 2.5,
    "log": 0.9,
    "log10": 1.95,
    "log1p": 1.4,
    "log2": 1.85,
    "sigmoid": 2.5,
    "silu": 3.0,
    "sin": 0.9,
    "sinh": 3.1,
    "tan": 2.6,
    "tanh": 2.7,
}
LANE_ULP = {
    "cos": 0.9,
    "erf": 2.4,
    "erfinv": 2.1,
    "exp": 1.3,
    "log": 1.1,
    "log10": 1.7,
    "log2": 1.5,
    "sin": 0.9,
    "sqrt": 0.501,
    "tan": 2.6,
}
"""Of functions of all lanes at once, where there are vectors for them."""
LEAST_UNITS = {"sigmoid": 2.0**-1022, "silu": 2.0**-1013}
"""What results may be off by where e^-x is infinite; elsewhere, units are of the last place."""
REFERENCES = {
    "erfcinv": "refined_erfcinv(x)",
    "erfinv": "refined_erfinv(x)",
    "sigmoid": "1 / (1 + __builtin_expl(-x))",
    "silu": "x / (1 + __builtin_expl(-x))",
}

NEAR_TURNS = [6381956970095103 * 2.0**797, 6411027962775774 * 2.0**-47]
"""The two float64 that are nearest to a multiple of pi/2, for their size."""

REFINED = """
// Of what the library gives, what two steps in long double make, as far as there are digits.
static inline long double step(long double z, long double error) {
  return z - error * 0.886226925452758013649L * __builtin_expl(z * z);
}
static inline long double refined_erfinv(long double x) {
  long double z = erfinv(double(x));
  if (!(__builtin_fabsl(x) < 1) || x == 0) return z;
  for (int time = 0; time < 2; ++time) {
    const long double a = __builtin_fabsl(x), at = __builtin_fabsl(z);
    const long double error = a < 0.5L ? __builtin_erfl(at) - a : 1 - a - __builtin_erfcl(at);
    z = __builtin_copysignl(step(at, error), z);
  }
  return z;
}
static inline long double refined_erfcinv(long double x) {
  if (x > 0.25L) return refined_erfinv(1 - x);
  long double z = erfcinv(double(x));
  if (!(x > 1e-290L)) return z;  // near the least double, erfc has few digits
  for (int time = 0; time < 2; ++time) z = step(z, x - __builtin_erfcl(z));
  return z;
}
"""

APPLY = """
extern "C" void apply_{name}(const double* in, double* out, long long count) {{
#pragma omp simd
  for (long long i = 0; i < count; ++i) out[i] = {name}(in[i]);  // {name}
}}
"""

APPLY_LANES = """
extern "C" void lanes_{name}(const double* in, double* out, long long count) {{
  for (long long i = 0; i < count; i += 64) {{
    const long long first = i < count - 64 ? i : count - 64;
    double given[64], made[64];
    for (int lane = 0; lane < 64; ++lane) given[lane] = in[first + lane];
    in_lanes(made, given, [](auto x) {{ return {name}(x); }});
    for (int lane = 0; lane < 64; ++lane) out[first + lane] = made[lane];
  }}
}}
"""

REFERENCE = """
extern "C" void reference_{name}(const double* in, long double* out, long long count) {{
  for (long long i = 0; i < count; ++i) {{
    const long double x = in[i];
    out[i] = {reference};
  }}
}}
"""

MEASURE = """
static inline double power_below(double x) {
  long long bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  bits &= 0x7ff0000000000000;
  __builtin_memcpy(&x, &bits, sizeof bits);
  return x;
}
// The largest error in units of the last place of the double next to what is right, or in `least`.
// NaN, infinity and the sign of 0 must be right.
extern "C" double measure(const double* in, const double* got, const long double* right,
                          long long count, double least, double* at) {
  double worst = 0;
  for (long long i = 0; i < count; ++i) {
    const long double expected = right[i];
    const double nearest = double(expected);
    double ulp = 1e300;
    if (nearest != nearest) {
      if (got[i] != got[i]) ulp = 0;
    } else if (nearest - nearest != 0 || got[i] - got[i] != 0) {
      const bool at_the_end = __builtin_fabsl(expected) > 1.797693e308L && nearest * got[i] > 0;
      if (nearest == got[i] || at_the_end) ulp = 0;
    } else if (nearest != 0 || got[i] != 0 ||
               __builtin_signbit(nearest) == __builtin_signbit(got[i])) {
      const double power = power_below(nearest);
      const long double unit = (power < 0x1p-1022 ? 0x1p-1022 : power) * 0x1p-52L;
      ulp = double(__builtin_fabsl(got[i] - expected) / (unit > least ? unit : least));
    }
    if (ulp > worst) worst = ulp, *at = in[i];
  }
  return worst;
}
"""

PROCESSORS = {"plain": [], "native": ["-march=native"]}
"""Options for what any such processor has, and for this one, which may round a product and a sum
once."""


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """The functions for each processor; with those of the plain one, what is right."""
    keys = [f"{name}(double)" for name in ULP] + [f"{name}_lanes(double)" for name in LANE_ULP]
    applied = LIBRARY.text(keys)
    applied += "".join(APPLY.format(name=name) for name in ULP)
    applied += "".join(APPLY_LANES.format(name=name) for name in LANE_ULP)
    parts = {name: REFERENCES.get(name, f"__builtin_{name}l(x)") for name in (*ULP, "sqrt")}
    right = [REFERENCE.format(name=name, reference=part) for name, part in parts.items()]
    texts = {"plain": "".join([applied, REFINED, *right, MEASURE]), "native": applied}
    return {
        name: build(text, tmp_path_factory.mktemp(name), "-O3", *PROCESSORS[name])
        for name, text in texts.items()
    }


@functools.cache
def arguments() -> torch.Tensor:
    """Numbers of every size and sign, many of those whose results are finite, and special ones."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**63), 2**63 - 1, (1 << 18,), generator=generator)
    parts = [bits.view(torch.float64)]
    for size in (1e-300, 1e-9, 0.1, 1.0, 4.0, 30.0, 800.0):
        drawn = torch.rand(1 << 16, generator=generator, dtype=torch.float64)
        parts += [drawn * size, -drawn * size, 1 + drawn * size]
    ends = [
        0.0,
        1.0,
        math.inf,
        math.nan,
        2.0**-1074,
        2.0**-1022,
        709.78,
        745.13,
        746.0,
        36.7,
        1e308,
    ]
    whole = torch.arange(-1100, 1100, dtype=torch.float64) * math.log(2.0) / 2
    special = torch.tensor([*ends, *(-x for x in ends)], dtype=torch.float64)
    turns = torch.arange(-50_000, 50_000, dtype=torch.float64) * (math.pi / 2)
    large = torch.rand(1 << 16, generator=generator, dtype=torch.float64) * 1024
    near = torch.tensor(NEAR_TURNS, dtype=torch.float64)
    return torch.cat([*parts, whole, special, turns, torch.exp2(large), near])


@pytest.mark.parametrize("processor", PROCESSORS)
def test_atan2_of_float64_is_as_long_doubles_is(tmp_path: Path, processor: str) -> None:
    head = 'extern "C" void apply(const double* y, const double* x, double* out, long long count)'
    loop = "for (long long i = 0; i < count; ++i)"
    exact = 'extern "C" void exact(const double* y, const double* x, double* out, long long count)'
    text = f"""{LIBRARY.text(["atan2(double)"])}
{head} {{ {loop} out[i] = atan2(y[i], x[i]); }}
{exact} {{ {loop} out[i] = __builtin_atan2l(y[i], x[i]); }}
"""
    built = build(text, tmp_path, "-O3", *PROCESSORS[processor])
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(2, 1 << 18, generator=generator, dtype=torch.float64)
    ends = [0.0, -0.0, 1.0, -2.0, 2.0**-1074, 1e308, -1.7e308, math.inf, -math.inf, math.nan]
    pairs = torch.cartesian_prod(*[torch.tensor(ends, dtype=torch.float64)] * 2).T
    y, x = (torch.cat([*of]) for of in zip(drawn, drawn * 2.0**-600, pairs, strict=True))
    got, expected, count = torch.empty_like(x), torch.empty_like(x), ctypes.c_longlong(len(x))
    built.library.apply(address(y), address(x), address(got), count)
    built.library.exact(address(y), address(x), address(expected), count)
    torch.testing.assert_close(got, expected, rtol=2.0**-51, atol=2.0**-1070, equal_nan=True)
    assert torch.equal(torch.signbit(got)[~got.isnan()], torch.signbit(expected)[~got.isnan()])


def check(functions: dict[str, Built], name: str, ulp: float, x: torch.Tensor, way: str) -> None:
    count, least = ctypes.c_longlong(len(x)), ctypes.c_double(LEAST_UNITS.get(name, 0.0))
    right = (ctypes.c_longdouble * len(x))()
    library = functions["plain"].library
    getattr(library, f"reference_{name}")(address(x), right, count)
    library.measure.restype = ctypes.c_double
    for processor, built in functions.items():
        got, at = torch.empty_like(x), ctypes.c_double()
        getattr(built.library, f"{way}_{name}")(address(x), address(got), count)
        found = library.measure(address(x), address(got), right, count, least, ctypes.byref(at))
        print(f"{name}, {processor}: {found:.3f} ulp at {at.value!r}")
        assert found <= ulp, f"{processor}, at {at.value!r}"


@pytest.mark.parametrize("name", ULP)
def test_float64_functions_keep_their_error_bounds(functions: dict[str, Built], name: str) -> None:
    check(functions, name, ULP[name], arguments(), "apply")


@pytest.mark.parametrize("name", LANE_ULP)
@pytest.mark.parametrize("largest", [math.inf, 2.0**21])
def test_functions_of_all_lanes_keep_their_error_bounds(
    functions: dict[str, Built], name: str, largest: float
) -> None:
    """Among large numbers, and without them: then no lane of them is done apart."""
    x = arguments()
    x = x[x.abs() < largest] if largest < math.inf else x
    if name == "sqrt":
        x = torch.cat([x, x.abs(), x.abs()[x.abs() > 2.0**-900]])
    check(functions, name, max(LANE_ULP[name], ULP.get(name, 0.0)), x, "lanes")


@pytest.mark.parametrize("name", ULP)
def test_loops_of_float64_functions_are_vectors(name: str, tmp_path: Path) -> None:
    text = LIBRARY.text([f"{name}(double)"]) + APPLY.format(name=name)
    assert COMPILER is not None
    if "clang" in COMPILER.version:
        pytest.skip("notes of g++")
    notes = build(text, tmp_path, "-O3", "-march=native", "-fopt-info-vec").log
    assert "loop vectorized" in notes
