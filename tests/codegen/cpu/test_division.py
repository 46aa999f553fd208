"""Quotients and rests on the processor are exact, by known divisors and others, in vectors."""

from __future__ import annotations

import ctypes
import math
import random
import subprocess
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen.target import CPU
from fuser.frontend.handles import Handle
from fuser.runtime.cpu import kernel as cpu
from fuser.runtime.cpu.toolchain import find_compiler
from tests.definitions import only_kernel
from tests.vector_notes import assert_vectorized, needs_notes

COMPILER = find_compiler()
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

INTEGERS = {
    "unsigned char": torch.uint8,
    "signed char": torch.int8,
    "short": torch.int16,
    "int": torch.int32,
    "long long": torch.int64,
}
DIVISORS = (0, 1, -1, 2, 3, 7, -7, 10, 64, 100, 127, 128, 255, 641, 1000, 32767, 1 << 20)
DIVISORS += (2**31 - 1, -(2**31), 2**32, 2**32 + 1, 10**18, 2**62, 2**62 + 1, 2**63 - 1, -(2**63))


def _floor_div(x: int, y: int) -> int:
    return x // y if y else 0


def _floor_mod(x: int, y: int) -> int:
    return x % y if y else 0


def _trunc_div(x: int, y: int) -> int:
    return (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) if y else 0


def _trunc_mod(x: int, y: int) -> int:
    return x - _trunc_div(x, y) * y if y else 0


FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "floor_div": _floor_div,
    "floor_mod": _floor_mod,
    "trunc_div": _trunc_div,
    "trunc_mod": _trunc_mod,
}


PROCESSORS = {"native": cpu.FLAGS, "plain": tuple(f for f in cpu.FLAGS if "-march" not in f)}


def built(text: str, directory: Path, processor: str) -> ctypes.CDLL:
    assert COMPILER is not None
    source, library = directory / "division.cpp", directory / "division.so"
    source.write_text(text)
    command = [*COMPILER.command, *PROCESSORS[processor], "-shared", "-fPIC", "-o", library, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def address(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


# -- integers ------------------------------------------------------------------------------------

BY_KNOWN = """
extern "C" void {name}_{number}(const T* __restrict x, T* __restrict out, long n) {{
  #pragma omp simd
  for (long i = 0; i < n; ++i) out[i] = {name}(x[i], T({divisor}));
}}
"""
BY_ANY = """
extern "C" void {name}_any(const T* __restrict x, const T* __restrict y, T* __restrict out,
                           long n) {{
  #pragma omp simd
  for (long i = 0; i < n; ++i) out[i] = {name}(x[i], y[i]);
}}
"""


def wrapped(number: int, dtype: torch.dtype) -> int:
    info = torch.iinfo(dtype)
    return (number - info.min) % (1 << info.bits) + info.min


def dividends(dtype: torch.dtype, divisors: Sequence[int]) -> list[int]:
    """The ends of the type, multiples of divisors and what is beside them, and others."""
    info, choose = torch.iinfo(dtype), random.Random(0)
    found = {info.min, info.min + 1, -1, 0, 1, info.max - 1, info.max}
    for divisor in filter(None, divisors):
        multiples = [1, 2, info.max // divisor, info.min // divisor, choose.randrange(1 << 20)]
        found.update(m * divisor + by for m in multiples for by in (-1, 0, 1))
    found.update(choose.randint(info.min, info.max) >> choose.randrange(40) for _ in range(500))
    return sorted(x for x in found if info.min <= x <= info.max)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("spelling", INTEGERS)
def test_integers(spelling: str, processor: str, tmp_path: Path) -> None:
    dtype = INTEGERS[spelling]
    info = torch.iinfo(dtype)
    divisors = [y for y in DIVISORS if info.min <= y <= info.max]
    literals = [f"{y}LL" if y > -(2**63) else "(-9223372036854775807LL - 1)" for y in divisors]
    parts = [CPU.library.text(list(FUNCTIONS)), f"typedef {spelling} T;"]
    for name in FUNCTIONS:
        parts.append(BY_ANY.format(name=name))
        for number, divisor in enumerate(literals):
            parts.append(BY_KNOWN.format(name=name, number=number, divisor=divisor))
    library = built("\n".join(parts), tmp_path, processor)
    given = dividends(dtype, divisors)
    x = torch.tensor(given, dtype=dtype)
    out, count = torch.empty_like(x), ctypes.c_long(len(x))
    for name, function in FUNCTIONS.items():
        for number, divisor in enumerate(divisors):
            expected = [wrapped(function(each, divisor), dtype) for each in given]
            getattr(library, f"{name}_{number}")(address(x), address(out), count)
            assert out.tolist() == expected, f"{name} by {divisor}"
            y = torch.full_like(x, divisor)
            getattr(library, f"{name}_any")(address(x), address(y), address(out), count)
            assert out.tolist() == expected, f"{name} by {divisor}, which is not known"


# -- floats --------------------------------------------------------------------------------------

KNOWN_FLOATS = (1.0, -1.0, 2.0, 0.1, 3.5, -6.283185307179586, 1e-3, 1e-7, 1e-30, 3e5, 2e7, 1e30)
REAL = """
extern "C" void by_{number}(const T* __restrict x, T* __restrict out, long n) {{
  #pragma omp simd
  for (long i = 0; i < n; ++i) out[i] = fmod(x[i], T({divisor!r}));
}}
"""


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("spelling", ["float", "double"])
def test_rests_of_floats_by_known_divisors(spelling: str, processor: str, tmp_path: Path) -> None:
    dtype = {"float": torch.float32, "double": torch.float64}[spelling]
    parts = [CPU.library.text([f"fmod({spelling})"]), f"typedef {spelling} T;"]
    parts += [REAL.format(number=n, divisor=y) for n, y in enumerate(KNOWN_FLOATS)]
    library = built("\n".join(parts), tmp_path, processor)
    generator, info = torch.Generator().manual_seed(0), torch.finfo(dtype)
    sizes = torch.rand(4000, generator=generator, dtype=torch.float64)
    scales = torch.cat([sizes * 40 - 20, sizes * 2 * math.log2(info.max) - math.log2(info.max)])
    signs = torch.randn(8000, generator=generator, dtype=torch.float64)
    for number, divisor in enumerate(torch.tensor(KNOWN_FLOATS, dtype=dtype).tolist()):
        near = (torch.arange(-500, 500, dtype=dtype) * divisor).clamp(-info.max, info.max)
        beside = [near.nextafter(torch.tensor(end, dtype=dtype)) for end in (-math.inf, math.inf)]
        special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, info.max, info.tiny])
        x = torch.cat([(signs * 2**scales).to(dtype), near, *beside, special.to(dtype)])
        out = torch.empty_like(x)
        getattr(library, f"by_{number}")(address(x), address(out), ctypes.c_long(len(x)))
        exact = [
            math.fmod(each, divisor) if math.isfinite(each) else math.nan for each in x.tolist()
        ]
        expected = torch.tensor(exact, dtype=torch.float64).to(dtype)
        torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(out.signbit()[out == 0], x.signbit()[out == 0])


FLOORS = """
extern "C" void floors(const float* __restrict x, const float* __restrict y, float* __restrict out,
                       long n) {
  #pragma omp simd
  for (long i = 0; i < n; ++i) out[i] = floor_div(x[i], y[i]);
}
"""


def test_floors_of_quotients_of_floats(tmp_path: Path) -> None:
    """Of quotients that are whole, and just not, up to where floats have no last place of 1."""
    library = built(CPU.library.text(["floor_div(float)"]) + FLOORS, tmp_path, "native")
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(20_000, generator=generator) * 2 ** torch.randint(-20, 20, (20_000,)).float()
    whole = torch.randint(-(1 << 22), 1 << 22, (20_000,), generator=generator).float()
    near = whole * y
    ends = torch.full_like(near, math.inf)
    x = torch.cat([near, near.nextafter(ends), near.nextafter(-ends)])
    y = y.repeat(3)
    out = torch.empty_like(x)
    library.floors(address(x), address(y), address(out), ctypes.c_long(len(x)))
    exact = [float(Fraction(a) // Fraction(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert out.tolist() == exact


# -- vectors -------------------------------------------------------------------------------------

LOOPS: dict[str, Callable[[FusionDefinition, Handle, Handle], Handle]] = {
    "floor by a number": lambda fd, x, y: fd.ops.floor_divide(x, 3),
    "rest by a number": lambda fd, x, y: fd.ops.remainder(x, 7),
    "cut by a number": lambda fd, x, y: fd.ops.div(x, 1000),
    "cut rest by a number": lambda fd, x, y: fd.ops.fmod(x, 3),
    "floor": lambda fd, x, y: fd.ops.floor_divide(x, y),
    "rest": lambda fd, x, y: fd.ops.fmod(x, y),
    "rest of the divisor's sign": lambda fd, x, y: fd.ops.remainder(x, y),
}
INTEGERS_OF_32 = (DataType.Int16, DataType.Int32)
IN_VECTORS = [
    *((name, dtype) for name in LOOPS for dtype in INTEGERS_OF_32),
    *((name, DataType.Int) for name in LOOPS if "number" in name),
    *((name, DataType.Float) for name in LOOPS if name != "cut by a number"),
    *((name, DataType.Double) for name in LOOPS if name != "cut by a number"),
]


@needs_notes
@pytest.mark.parametrize(("name", "dtype"), IN_VECTORS)
def test_divisions_are_in_vectors(name: str, dtype: DataType, tmp_path: Path) -> None:
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor(shape=[-1], contiguity=True, dtype=dtype) for _ in range(2))
        fd.add_output(LOOPS[name](fd, x, y))
    given = torch.ones(4096).to(dtype.torch)
    assert_vectorized(only_kernel(fd, [given, given]), tmp_path)
