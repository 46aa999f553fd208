"""float64 functions of the CPU device library: accuracy against long double, and vectorization."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path

import pytest
import torch

from tests.codegen.test_cpu_device_library import COMPILER, LIBRARY, Built, address, build

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

ULP = {
    "acosh": 2.4,
    "asinh": 1.7,
    "atanh": 2.0,
    "cosh": 3.4,
    "exp": 1.1,
    "exp2": 1.2,
    "expm1": 2.3,
    "log": 0.9,
    "log10": 1.8,
    "log1p": 1.4,
    "log2": 1.7,
    "sigmoid": 2.5,
    "silu": 3.0,
    "sinh": 2.8,
    "tanh": 2.6,
}
LEAST_UNITS = {"sigmoid": 2.0**-1022, "silu": 2.0**-1013}
"""What results may be off by where e^-x is infinite; elsewhere, units are of the last place."""
REFERENCES = {
    "sigmoid": "1 / (1 + __builtin_expl(-x))",
    "silu": "x / (1 + __builtin_expl(-x))",
}

APPLY = """
extern "C" void apply_{name}(const double* in, double* out, long long count) {{
#pragma omp simd
  for (long long i = 0; i < count; ++i) out[i] = {name}(in[i]);  // {name}
}}
"""

MEASURE = """
// The largest error in units of the last place of the double next to what is right, or in `least`.
// NaN, infinity and the sign of 0 must be right.
extern "C" double measure_{name}(const double* in, const double* got, long long count, double least,
                                 double* at) {{
  double worst = 0;
  for (long long i = 0; i < count; ++i) {{
    const long double x = in[i], expected = {reference};
    const double nearest = double(expected);
    double ulp = 1e300;
    if (nearest != nearest) {{
      if (got[i] != got[i]) ulp = 0;
    }} else if (nearest - nearest != 0 || got[i] - got[i] != 0) {{
      const bool at_the_end = __builtin_fabsl(expected) > 1.797693e308L && nearest * got[i] > 0;
      if (nearest == got[i] || at_the_end) ulp = 0;
    }} else if (nearest != 0 || got[i] != 0 ||
               __builtin_signbit(nearest) == __builtin_signbit(got[i])) {{
      int exponent;
      __builtin_frexp(nearest, &exponent);
      const long double unit = __builtin_ldexpl(1, (exponent < -1021 ? -1021 : exponent) - 53);
      ulp = double(__builtin_fabsl(got[i] - expected) / (unit > least ? unit : least));
    }}
    if (ulp > worst) worst = ulp, *at = in[i];
  }}
  return worst;
}}
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Built:
    parts = [LIBRARY.text([f"{name}(double)" for name in ULP])]
    for name in ULP:
        reference = REFERENCES.get(name, f"__builtin_{name}l(x)")
        parts += [APPLY.format(name=name), MEASURE.format(name=name, reference=reference)]
    return build("\n".join(parts), tmp_path_factory.mktemp("float64"), "-O3", "-march=native")


def arguments() -> torch.Tensor:
    """Numbers of every size and sign, many of those whose results are finite, and special ones."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**63), 2**63 - 1, (1 << 20,), generator=generator)
    parts = [bits.view(torch.float64)]
    for size in (1e-300, 1e-9, 0.1, 1.0, 4.0, 30.0, 800.0):
        drawn = torch.rand(1 << 18, generator=generator, dtype=torch.float64)
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
    return torch.cat([*parts, whole, special])


@pytest.mark.parametrize("name", ULP)
def test_float64_functions_keep_their_error_bounds(functions: Built, name: str) -> None:
    x = arguments()
    got, at, count = torch.empty_like(x), ctypes.c_double(), ctypes.c_longlong(len(x))
    getattr(functions.library, f"apply_{name}")(address(x), address(got), count)
    measure = getattr(functions.library, f"measure_{name}")
    measure.restype, least = ctypes.c_double, ctypes.c_double(LEAST_UNITS.get(name, 0.0))
    ulp = measure(address(x), address(got), count, least, ctypes.byref(at))
    print(f"{name}: {ulp:.3f} ulp at {at.value!r}")
    assert ulp <= ULP[name], f"at {at.value!r}"


@pytest.mark.parametrize("name", ULP)
def test_loops_of_float64_functions_are_vectors(name: str, tmp_path: Path) -> None:
    text = LIBRARY.text([f"{name}(double)"]) + APPLY.format(name=name)
    assert COMPILER is not None
    if "clang" in COMPILER.version:
        pytest.skip("notes of g++")
    notes = build(text, tmp_path, "-O3", "-march=native", "-fopt-info-vec").log
    assert "loop vectorized" in notes
