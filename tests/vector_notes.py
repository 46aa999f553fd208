"""What the compiler says of the loops of a kernel."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fuser.codegen.kernel_source import KernelSource
from fuser.runtime.cpu.kernel import flags
from fuser.runtime.cpu.toolchain import find_compiler

COMPILER = find_compiler()

needs_notes = pytest.mark.skipif(
    COMPILER is None or "clang" in COMPILER.version, reason="notes are g++'s"
)


LEAST_BYTES = 16
"""Of vectors. A compiler that has to make some, and finds none wide enough for all that is computed
in a loop, makes them of 8."""


def assert_vectorized(kernel: KernelSource, folder: Path) -> None:
    """Fails if the compiler made no vectors of a loop that asks for them, or some of 8 bytes."""
    assert COMPILER is not None
    source = folder / "kernel.cpp"
    source.write_text(kernel.text)
    options = ("-fopt-info-vec-all", "-c", source, "-o", "/dev/null")
    command = [*COMPILER.command, *flags(kernel), *options]
    notes = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    made = _lines(notes, "optimized: loop vectorized")
    lines = kernel.text.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith('extern "C" void '))
    loops = list(_loops_that_ask(lines, begin))
    assert sum(line > begin for line in made) >= len(loops) > 0, kernel.text
    widths = re.findall(r":(\d+):\d+: optimized: loop vectorized using (\d+) byte", notes)
    widest = {line: max(int(b) for at, b in widths if at == line) for line, _ in widths}
    narrow = [line for line, width in widest.items() if width < LEAST_BYTES and int(line) > begin]
    assert not narrow, f"{narrow}\n{kernel.text}"
    for line in _lines(notes, "missed: couldn't vectorize loop"):
        assert line in made or not any(line in loop for loop in loops), f"{line}\n{kernel.text}"


def _lines(notes: str, note: str) -> list[int]:
    """The lines of the text, from 1 on, that have a note."""
    return list(map(int, re.findall(rf":(\d+):\d+: {note}", notes)))


def _loops_that_ask(lines: Sequence[str], begin: int) -> Iterator[range]:
    """The lines, from 1 on, of each loop of the kernel that asks for vectors."""
    for at in range(begin, len(lines)):
        if re.search("#pragma omp .*simd", lines[at]):
            within = lines[at].partition("#")[0] + " "
            after = (n for n in range(at + 2, len(lines)) if not lines[n].startswith(within))
            yield range(at + 2, next(after) + 2)
