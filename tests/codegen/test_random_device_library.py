"""The device library's random numbers on a processor: the oracle's, wherever lanes begin."""

from __future__ import annotations

import ctypes
import platform
import subprocess
from pathlib import Path

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen.target import CPU
from fuser.ir.interpret import interpret
from fuser.runtime.cpu.kernel import FLAGS
from fuser.runtime.cpu.toolchain import find_compiler

COMPILER = find_compiler()
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

LANES = (8, 16, 32, 64)
SEED, OFFSET = -(2**40) - 5, 2**36 + 1
ARGUMENTS = "({type}* out, long long seed, long long offset, long long at)"
DRAW = """
extern "C" void draw_{lanes}{arguments} {{
  {type} room[{lanes} + {numbers}::count];
  const {type}* drawn = draw_lanes<{numbers}, {lanes}>(room, seed, offset, at);
  for (int lane = 0; lane < {lanes}; ++lane) out[lane] = drawn[lane];
}}
"""
SINGLE = """
extern "C" void draw_1{arguments} {{ out[0] = draw<{numbers}>(seed, offset, at); }}
"""
KINDS = [("uniform", DataType.Float), ("uniform", DataType.Double), ("normal", DataType.Float)]


def source(distribution: str, dtype: DataType) -> str:
    numbers = f"{distribution}_{dtype.spelling}"
    filled = {"numbers": numbers, "type": dtype.spelling}
    filled["arguments"] = ARGUMENTS.format(**filled)
    drawn = [DRAW.format(lanes=lanes, **filled) for lanes in LANES]
    return "\n".join(
        [CPU.library.text([numbers, "draw", "draw_lanes"]), *drawn, SINGLE.format(**filled)]
    )


def compiled(code: str, to: Path, *flags: str) -> Path:
    assert COMPILER is not None
    text = to.with_suffix(".cpp")
    text.write_text(code)
    command = [*COMPILER.command, *FLAGS, *flags, "-o", str(to), str(text)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return to


def oracle(distribution: str, dtype: DataType, count: int) -> torch.Tensor:
    with FusionDefinition() as fd:
        make = fd.ops.uniform if distribution == "uniform" else fd.ops.normal
        state = {"rng_seed": SEED, "rng_offset": OFFSET}
        fd.add_output(make(0.0, 1.0, [count], **state, dtype=dtype))
    return interpret(fd.fusion, [])[0]


@pytest.mark.parametrize(("distribution", "dtype"), KINDS)
def test_lanes_from_any_number_on(distribution: str, dtype: DataType, tmp_path: Path) -> None:
    library = ctypes.CDLL(
        str(compiled(source(distribution, dtype), tmp_path / "draw.so", "-shared", "-fPIC"))
    )
    want = oracle(distribution, dtype, 200)
    for lanes in (1, *LANES):
        draw = getattr(library, f"draw_{lanes}")
        for at in (0, 1, 2, 3, 5, 64, 130):
            got = torch.empty(lanes, dtype=dtype.torch)
            state = map(ctypes.c_longlong, (SEED, OFFSET, at))
            draw(ctypes.c_void_p(got.data_ptr()), *state)
            expected = want[at : at + lanes]
            bound = 0.0 if distribution == "uniform" else 4 * 2.0**-23
            torch.testing.assert_close(got, expected, rtol=bound, atol=bound / 32)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="an instruction of x86")
def test_blocks_lie_in_vector_lanes(tmp_path: Path) -> None:
    text = compiled(source("uniform", DataType.Float), tmp_path / "draw.s", "-S").read_text()
    assert text.count("pmuludq") >= 2 * 9 * len(LANES)


def test_normal_numbers_keep_their_bound() -> None:
    """Units of the number; below 2^-16, those of 2^-16."""
    with FusionDefinition() as fd:
        sizes = [1 << 20]
        fd.add_output(fd.ops.normal(0.0, 1.0, sizes, rng_seed=SEED, rng_offset=OFFSET))
    (got,) = fd.execute([])
    (want,) = interpret(fd.fusion, [])
    units = torch.exp2(torch.floor(torch.log2(want.abs().clamp(min=2.0**-16))) - 23)
    assert ((got.double() - want.double()).abs() / units).max() <= 4
