"""The CUDA device library: what the pointwise table calls compiles, for every type it accepts.

What the emulator compiles in place of inline PTX is compared with torch, bit by bit.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import torch

from fuser.codegen.device_library import DeviceLibrary, load
from fuser.ir import promotion
from fuser.ir.conversions import converted
from fuser.ir.dtypes import NUMBERS, DataType
from fuser.ir.pointwise import TABLE, PointwiseOp, letter
from fuser.ir.promotion import Operand
from fuser.runtime.cpu.toolchain import find_compiler
from fuser.runtime.cuda.nvrtc import compile_cubin
from fuser.schedule.tree.counts import inverse_of

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
Exact = Callable[[torch.Tensor], torch.Tensor]
COMPUTE_TYPES = sorted({dtype.compute for dtype in DataType}, key=lambda dtype: dtype.name)


# -- what the table calls ------------------------------------------------------------------------


def called(template: str) -> list[str]:
    """The functions a C template calls."""
    return re.findall(r"\b([a-z_]\w*)\(", template)


def assignment(row: PointwiseOp, dtype: DataType, used: set[str], library: DeviceLibrary) -> str:
    """A block that applies a row to operands of one type; adds the sections it needs to `used`."""
    operands = (Operand(dtype, rank=1),) * row.arity
    signature = row.rule(operands)
    compute = signature.args[-1]
    template = row.spelling(compute)
    for name in called(template):
        key = library.key(name, compute.spelling)
        used.update([key] if key else [])
    used.update(t.spelling for t in (*signature.args, signature.result))
    names = "xyzw"[: row.arity]
    loads = "".join(
        f" {t.spelling} {name} = (({t.spelling}*)in)[{i}];"
        for i, (name, t) in enumerate(zip(names, signature.args, strict=True))
    )
    result = signature.result.spelling
    return f"  {{{loads} *({result}*)out = {template.format(*names)}; out += 16; }}  // {row.name}"


def kernel(dtype: DataType) -> str:
    """Every row that accepts `dtype`, in one kernel."""
    library = load("common.h", "cuda.h")
    rows = [row for row in TABLE.values() if letter(dtype) in row.accepts]
    used: set[str] = set()
    blocks = "\n".join(assignment(row, dtype, used, library) for row in rows)
    keys = sorted(key for key in used if key in library.sections)
    return f"""{library.text(keys)}

extern "C" __global__ void kernel(const char* __restrict__ in, char* __restrict__ out) {{
{blocks}
}}
"""


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", COMPUTE_TYPES, ids=lambda dtype: dtype.name)
def test_all_that_the_table_calls_compiles(dtype: DataType, arch: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    assert compile_cubin(kernel(dtype), "kernel", arch).resources.spill_bytes == 0


@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Double], ids=lambda dtype: dtype.name)
def test_builtin_functions_keep_the_type(dtype: DataType) -> None:
    """NVRTC's own overloads stand in where there is no section: float must not become double."""
    pytest.importorskip("cuda.bindings.nvrtc")
    library = load("common.h", "cuda.h")
    checks: set[str] = set()
    for row in TABLE.values():
        if "f" in row.accepts and row.rule is not promotion.predicate:
            for name in called(row.spelling(dtype)):
                key = library.key(name, dtype.spelling)
                if key is None or not library.sections[key].text:
                    checks.add(f"{name}({', '.join([f'({dtype.spelling})1'] * row.arity)})")
    assert f"exp(({dtype.spelling})1)" in checks
    source = f"""
template <typename T> constexpr bool as_expected = false;
template <> constexpr bool as_expected<{dtype.spelling}> = true;
{"".join(f'static_assert(as_expected<decltype({c})>, "{c}");' for c in sorted(checks))}
extern "C" __global__ void kernel() {{}}"""
    compile_cubin(source, "kernel", "sm_90")


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_100"])
def test_every_type_converts_to_every_other(arch: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    library = load("common.h", "cuda.h")
    types = [dtype.spelling for dtype in NUMBERS]
    casts = "\n".join(
        f"  *({to}*)out = {to}(*(const {from_}*)in); out += 16;"
        for from_, to in product(types, types)
    )
    source = f"""{library.text([t for t in types if t in library.sections])}

extern "C" __global__ void kernel(const char* __restrict__ in, char* __restrict__ out) {{
{casts}
}}"""
    compile_cubin(source, "kernel", arch)


# -- the twins that the emulator compiles --------------------------------------------------------

PART_TYPES = ["float", "half", "bfloat16", "bool", "int8", "int16", "int64", "double"]
PART_LANES = [1, 2, 4, 8, 16]
NARROW = {d.spelling: d for d in NUMBERS if d.is_floating and d.itemsize < 4}

PAIRED = ("half", "bfloat16")
"""Floats of which two fill a word."""

FUNCTIONS = ("exp_nonpositive", "erf_plus_one", "tanh_plus_one", "sigmoid", "silu")
MATHEMATICS = """
static float exp(float x) { return __builtin_expf(x); }
static float fabsf(float x) { return __builtin_fabsf(x); }
static float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static float copysignf(float x, float y) { return __builtin_copysignf(x, y); }"""
"""What the emulator has of CUDA's."""


@pytest.fixture(scope="session")
def portable(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The library as the emulator compiles it, behind functions over arrays."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    library = load("cuda.h")
    keys = [*PART_TYPES, *NARROW, "load_part", "store_part", "load_vector"]
    keys += ["extreme_lane", "rest_by_inverse", "clamped_to_last"]
    keys += [f"{name}(float)" for name in FUNCTIONS]
    text = library.text([key for key in keys if key in library.sections])
    for name in NARROW:
        text += f"""
extern "C" void to_{name}(const float* from, {name}* to, long size) {{
  for (long i = 0; i < size; ++i) to[i] = {name}(from[i]);
}}
extern "C" void from_{name}(const {name}* from, float* to, long size) {{
  for (long i = 0; i < size; ++i) to[i] = from[i];
}}"""
    text = f"{MATHEMATICS}\n{text}"
    for name in FUNCTIONS:
        text += f"""
extern "C" void all_{name}(const float* from, float* to, long size) {{
  for (long i = 0; i < size; ++i) to[i] = {name}(from[i]);
}}"""
    for name, lanes in product(PART_TYPES, PART_LANES):
        text += f"""
extern "C" void part_{name}_{lanes}(const {name}* from, {name}* read, {name}* to, long valid) {{
  {name} values[{lanes}];
  load_part(values, from, valid);
  store_vector(values, read);
  store_part(values, to, valid);
}}"""
    for name, lanes, largest in product(PAIRED, PART_LANES[1:], ("true", "false")):
        text += f"""
extern "C" void extreme_{name}_{lanes}_{largest}(const {name}* from, {name}* to, long size) {{
  for (long i = 0; i < size; ++i) {{
    {name} values[{lanes}];
    load_vector(values, from + i * {lanes});
    to[i] = extreme_lane<{largest}>(values);
  }}
}}"""
    text += """
extern "C" int quotient_of(int x, int factor, int shift) {
  return quotient_by_inverse(x, factor, shift);
}
extern "C" int rest_of(int x, int divisor, int factor, int shift) {
  return rest_by_inverse(x, divisor, factor, shift);
}
extern "C" int place_of(int x, int size) { return clamped_to_last(x, size); }"""
    directory: Path = tmp_path_factory.mktemp("portable")
    source = directory / "portable.cpp"
    source.write_text(text)
    flags = ("-std=c++17", "-O2", "-DFUSER_EMULATOR", "-D__device__=", "-D__forceinline__=inline")
    compiler.shared_library(source, directory / "portable.so", flags)
    return ctypes.CDLL(str(directory / "portable.so"))


def call(function: Callable[..., object], *tensors: torch.Tensor, size: int) -> None:
    function(*(ctypes.c_void_p(t.data_ptr()) for t in tensors), ctypes.c_long(size))


def convert(function: Callable[..., object], x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    result = torch.empty(x.shape, dtype=dtype)
    call(function, x, result, size=x.numel())
    return result


def assert_same_bits(got: torch.Tensor, expected: torch.Tensor) -> None:
    """NaN is NaN, of any payload; all else, signed zeros included, has equal bits."""
    assert torch.equal(got.isnan(), expected.isnan())
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32}[got.dtype.itemsize]
    assert torch.equal(got.view(bits)[~got.isnan()], expected.view(bits)[~expected.isnan()])


@pytest.mark.parametrize(("name", "dtype"), NARROW.items())
def test_all_patterns_of_narrow_types_widen_as_in_torch(
    portable: ctypes.CDLL, name: str, dtype: DataType
) -> None:
    patterns = torch.arange(1 << 8 * dtype.itemsize, dtype=torch.int32)
    x = patterns.to({1: torch.int8, 2: torch.int16}[dtype.itemsize]).view(dtype.torch)
    x = converted(x, dtype)  # of those of 8 bits, few are floats of 4
    assert_same_bits(convert(portable[f"from_{name}"], x, torch.float32), x.float())


@pytest.mark.parametrize(("name", "dtype"), NARROW.items())
def test_floats_round_to_narrow_types_as_in_torch(
    portable: ctypes.CDLL, name: str, dtype: DataType
) -> None:
    """Every sign, exponent and 8 more bits, with what decides rounding below and around them."""
    low = [0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF, 0x2FFF, 0x3000, 0x3001, 0x5000, 0x7000, 0x7FFF]
    high = torch.arange(-(2**16), 2**16, dtype=torch.int64) << 15
    x = (high[:, None] | torch.tensor(low)).to(torch.int32).view(torch.float32).reshape(-1)
    assert_same_bits(convert(portable[f"to_{name}"], x, dtype.torch), converted(x, dtype))
    random = torch.randint(-(2**31), 2**31, (2**20,), generator=torch.Generator().manual_seed(0))
    y = random.to(torch.int32).view(torch.float32)
    assert_same_bits(convert(portable[f"to_{name}"], y, dtype.torch), converted(y, dtype))


def test_every_nan_becomes_the_one_of_the_hardware(portable: ctypes.CDLL) -> None:
    nans = torch.tensor([0x7F800001, 0x7FC00000, -1, -0x7FFFFF], dtype=torch.int32)
    for name in ("half", "bfloat16"):  # of 8 bits, each keeps its sign
        bits = convert(portable[f"to_{name}"], nans.view(torch.float32), torch.int16)
        assert bits.tolist() == [0x7FFF] * 4


def test_powers_of_what_is_not_positive_are_within_their_bound(portable: ctypes.CDLL) -> None:
    x = -torch.cat([torch.linspace(0, 110, 1_000_003), torch.logspace(-45, 3, 10_007)])
    exact = torch.exp(x.double())
    off = (convert(portable.all_exp_nonpositive, x, torch.float32).double() - exact).abs()
    ulp = 2.0 ** (torch.frexp(exact).exponent.double() - 24)
    normal = exact >= 2.0**-126
    assert (off / ulp)[normal].le(1.0 + 1.23 * x.double().abs()[normal]).all()
    assert off[~normal].max() < 2.0**-126
    assert off.max() < 2.5 * 2.0**-24


def test_powers_of_special_numbers(portable: ctypes.CDLL) -> None:
    x = torch.tensor([0.0, -0.0, -1e-45, -torch.inf, -3e38, torch.nan, -104.0])
    expected = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, torch.nan, 0.0])
    assert_same_bits(convert(portable.all_exp_nonpositive, x, torch.float32), expected)


SUMS = pytest.mark.parametrize(
    ("name", "exact", "bound"),
    [
        ("erf_plus_one", lambda x: torch.special.erfc(-x), 1.2),
        ("tanh_plus_one", lambda x: 2 * torch.sigmoid(2 * x), 1.6),
    ],
)
"""Functions of sums with one, and how far they are off, in units of 2^-23."""


@SUMS
def test_sums_with_one_are_within_their_bound(
    portable: ctypes.CDLL, name: str, exact: Exact, bound: float
) -> None:
    x = torch.cat([torch.linspace(-20, 20, 2_000_003), torch.logspace(-45, 38, 10_007)])
    got = convert(portable[f"all_{name}"], x, torch.float32).double()
    expected = exact(x.double())
    assert (got - expected).abs().max() < bound * 2.0**-23
    assert got.min() >= 0.0
    assert got.max() <= 2.0
    below = x < -4
    assert (got - expected)[below].abs().max() < 1.1e-9


@SUMS
def test_sums_with_one_of_special_numbers(
    portable: ctypes.CDLL, name: str, exact: Exact, bound: float
) -> None:
    x = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 3e38, -3e38, 1e-45])
    expected = torch.tensor([1.0, 1.0, 2.0, 0.0, torch.nan, 2.0, 0.0, 1.0])
    assert_same_bits(convert(portable[f"all_{name}"], x, torch.float32), expected)


@pytest.mark.parametrize(
    ("name", "exact"), [("sigmoid", torch.sigmoid), ("silu", torch.nn.functional.silu)]
)
def test_quotients_by_an_inverse_are_within_their_bound(
    portable: ctypes.CDLL, name: str, exact: Exact
) -> None:
    x = torch.cat([torch.linspace(-88.7, 110, 2_000_003), torch.logspace(-37, 3, 10_007)])
    got = convert(portable[f"all_{name}"], x, torch.float32).double()
    expected = exact(x.double())
    ulp = 2.0 ** (torch.frexp(expected).exponent.double() - 24).clamp(min=-149)
    assert ((got - expected).abs() / ulp).max() < 3.0
    beyond = torch.tensor([-89.0, -100.0, -1e30])
    assert convert(portable[f"all_{name}"], beyond, torch.float32).tolist() == [0.0] * 3
    special = torch.tensor([torch.inf, torch.nan, 0.0, -0.0])
    assert_same_bits(convert(portable[f"all_{name}"], special, torch.float32), exact(special))


@pytest.mark.parametrize("divisor", [1, 2, 3, 5, 1023, 1024, 12544, (1 << 30) + 1, (1 << 31) - 1])
def test_indices_are_divided_by_inverses(portable: ctypes.CDLL, divisor: int):
    factor, shift = inverse_of(divisor)
    largest = (1 << 31) - 1
    near = [max(divisor * times + more, 0) for times in (1, 2, 7) for more in (-1, 0, 1)]
    for index in (0, 1, 4095, largest - 1, largest, *(each for each in near if each <= largest)):
        assert portable.quotient_of(index, ctypes.c_int(factor), shift) == index // divisor
        assert portable.rest_of(index, divisor, ctypes.c_int(factor), shift) == index % divisor


@pytest.mark.parametrize("index", [0, 5, 9, 10, 11, -1, -(1 << 31), (1 << 31) - 1])
def test_what_is_outside_is_read_at_the_last_place(portable: ctypes.CDLL, index: int):
    assert portable.place_of(index, 10) == (index if 0 <= index < 10 else 9)


@pytest.mark.parametrize("lanes", PART_LANES[1:])
@pytest.mark.parametrize("name", PAIRED)
def test_extremes_of_lanes_are_those_of_torch(portable: ctypes.CDLL, name: str, lanes: int):
    special = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -1e-7, 3.0])
    given = torch.randn(2000, lanes, generator=torch.Generator().manual_seed(lanes))
    chosen = torch.rand(given.shape, generator=torch.Generator().manual_seed(1)) < 0.1
    given = torch.where(chosen, special[torch.arange(given.numel()).view_as(given) % 6], given)
    given = given.to(NARROW[name].torch)
    found = torch.empty(len(given), dtype=given.dtype)
    for largest, expected in (("true", given.amax(1)), ("false", given.amin(1))):
        function = portable[f"extreme_{name}_{lanes}_{largest}"]
        at = ctypes.c_void_p(given.data_ptr()), ctypes.c_void_p(found.data_ptr())
        function(*at, ctypes.c_long(len(given)))
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("lanes", PART_LANES)
@pytest.mark.parametrize("name", PART_TYPES)
def test_parts_read_and_write_only_what_is_valid(
    portable: ctypes.CDLL, name: str, lanes: int
) -> None:
    dtype = next(member for member in DataType if member.spelling == name).torch
    x = torch.arange(1, lanes + 1).to(dtype)
    for valid in (*range(lanes + 1), lanes + 1, 2**32):
        read, to = torch.full_like(x, 1), torch.zeros_like(x)
        call(portable[f"part_{name}_{lanes}"], x, read, to, size=valid)
        kept = torch.arange(lanes) < valid
        assert torch.equal(read, torch.where(kept, x, torch.zeros_like(x)))
        assert torch.equal(to, torch.where(kept, x, torch.zeros_like(x)))
