"""The emulator under a sanitizer: what it finds in a kernel, with the lines of the CUDA text."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fuser.errors import CompilationError
from fuser.runtime.emulator.build import SOURCES, compiler_or_raise, emulator_text
from fuser.runtime.emulator.launch import Extent3, ThreadOrder, make_launch, raise_for

if TYPE_CHECKING:
    Argument = torch.Tensor | ctypes._SimpleCData[Any] | ctypes.Structure  # pyright: ignore[reportPrivateUsage]

_VALUE, _BUFFER = 0, 1
_FINDINGS = 66
"""The exit code a sanitizer ends the program with when it has found something."""

_COMMON = ("-std=c++17", "-O1", "-g", "-fwrapv", "-w", "-fno-omit-frame-pointer", f"-I{SOURCES}")


class Sanitizer(Enum):
    """ADDRESS: bounds, alignment and undefined behaviour. THREAD: races between CUDA threads.

    The values are flags for the kernel, and for the runtime: its own switches are no races, so the
    thread sanitizer watches the kernel only.
    """

    ADDRESS = (
        (
            "-DFUSER_ASAN",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
            "-fsanitize-sections=fuser_shared",
        ),
        ("-DFUSER_ASAN", "-fsanitize=address"),
    )
    THREAD = (("-DFUSER_TSAN", "-fsanitize=thread"), ("-DFUSER_TSAN",))


@dataclass(frozen=True, slots=True)
class SanitizerReport:
    """`findings` is the sanitizer's text, empty where it found nothing."""

    findings: str


def run_sanitized(
    source: str,
    kernel: str,
    grid: Extent3,
    block: Extent3,
    arguments: Sequence[Argument],
    sanitizer: Sanitizer,
    *,
    shared_bytes: int = 0,
    order: ThreadOrder = ThreadOrder.RUN_AHEAD,
) -> SanitizerReport:
    """Run a kernel in a program of its own, under a sanitizer.

    Tensors (contiguous, on the CPU) are passed by address, each from a heap block of exactly its
    size, and hold what the kernel wrote afterwards. Raises CompilationError,
    EmulatorDeadlockError and EmulatorFailureError.
    """
    with tempfile.TemporaryDirectory(prefix="fuser-sanitize-") as place:
        program = _build(source, kernel, sanitizer, Path(place))
        launch = Path(place) / "launch"
        head = bytes(make_launch(grid, block, shared_bytes, order))
        packed = b"".join(map(_packed, arguments))
        launch.write_bytes(head + struct.pack("<Q", len(arguments)) + packed)
        done = _run(program, launch)
        if done.returncode == _FINDINGS or "runtime error" in done.stderr:
            return SanitizerReport(done.stderr)
        for line in done.stderr.splitlines():
            if line.startswith("EMULATOR "):
                _, status, message = line.split(" ", 2)
                raise_for(int(status), kernel, message)
        if done.returncode != 0:
            return SanitizerReport(done.stderr or f"the program ended with {done.returncode}")
        _unpack(launch.read_bytes(), arguments)
    return SanitizerReport("")


def is_available(sanitizer: Sanitizer) -> bool:
    """Whether this machine's compiler can build, and the machine run, a sanitized program."""
    source = 'extern "C" __global__ void nothing() {}'
    try:
        report = run_sanitized(source, "nothing", (1, 1, 1), (1, 1, 1), [], sanitizer)
    except CompilationError:
        return False
    return not report.findings


def _build(source: str, kernel: str, sanitizer: Sanitizer, place: Path) -> Path:
    text, program = place / f"{kernel}.cpp", place / "program"
    text.write_text(emulator_text(source, kernel))
    watched, runtime = sanitizer.value
    objects = [
        _compile(place, text, watched),
        _compile(place, SOURCES / "fibers.cpp", runtime),
        _compile(place, SOURCES / "sanitized_main.cpp", runtime),
    ]
    _run_compiler(text, [*watched, "-o", str(program), *objects])
    return program


def _compile(place: Path, source: Path, flags: tuple[str, ...]) -> str:
    built = place / f"{source.stem}.o"
    _run_compiler(source, [*_COMMON, *flags, "-c", "-o", str(built), str(source)])
    return str(built)


def _run_compiler(source: Path, arguments: list[str]) -> None:
    compiler = compiler_or_raise()
    command = [compiler.path, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompilationError(compiler=compiler.path, source=str(source), log=done.stderr)


def _run(program: Path, launch: Path) -> subprocess.CompletedProcess[str]:
    options = {
        "ASAN_OPTIONS": f"exitcode={_FINDINGS}:detect_leaks=0:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": f"exitcode={_FINDINGS}:print_stacktrace=1",
        "TSAN_OPTIONS": f"exitcode={_FINDINGS}:halt_on_error=1",
    }
    command = [str(program), str(launch)]
    fixed_layout = shutil.which("setarch")
    if fixed_layout is not None:  # thread sanitizers cannot place their shadow under every layout
        command = [fixed_layout, "-R", *command]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **options}
    )


def _packed(argument: Argument) -> bytes:
    if not isinstance(argument, torch.Tensor):
        data = bytes(argument)
        return struct.pack("<QQ", _VALUE, len(data)) + data
    nbytes = argument.numel() * argument.element_size()
    return struct.pack("<QQ", _BUFFER, nbytes) + ctypes.string_at(argument.data_ptr(), nbytes)


def _unpack(data: bytes, arguments: Sequence[Argument]) -> None:
    position = 0
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            nbytes = argument.numel() * argument.element_size()
            ctypes.memmove(argument.data_ptr(), data[position : position + nbytes], nbytes)
            position += nbytes
