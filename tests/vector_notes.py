"""What the compiler says of the loops of a kernel."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from fuser.codegen.kernel_source import KernelSource
from fuser.runtime.cpu import flags
from fuser.runtime.toolchain import find_compiler

COMPILER = find_compiler()

needs_notes = pytest.mark.skipif(
    COMPILER is None or "clang" in COMPILER.version, reason="notes are g++'s"
)


def assert_vectorized(kernel: KernelSource, folder: Path) -> None:
    """Fails if the compiler made no vectors of a loop that asks for them."""
    assert COMPILER is not None
    source = folder / "kernel.cpp"
    source.write_text(kernel.text)
    options = ("-fopt-info-vec", "-c", source, "-o", "/dev/null")
    command = [COMPILER.path, *flags(kernel), *options]
    notes = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    kernel_begins = kernel.text.index('extern "C" void')
    begin = kernel.text[:kernel_begins].count("\n")
    lines = map(int, re.findall(r":(\d+):\d+: optimized: loop vectorized", notes))
    loops = [line for line in lines if line > begin]
    asked = re.findall("#pragma omp .*simd", kernel.text[kernel_begins:])
    assert len(loops) >= len(asked) > 0, kernel.text
