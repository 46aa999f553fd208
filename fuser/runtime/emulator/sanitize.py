"""The emulator under a sanitizer: what it finds in a kernel, with the lines of the CUDA text."""

from __future__ import annotations

import ctypes
import functools
import hashlib
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
from fuser.runtime.cpu.shared_library import private_directory
from fuser.runtime.cpu.toolchain import find_compiler
from fuser.runtime.emulator.build import (
    SOURCES,
    compiler_or_raise,
    emulator_text,
    kernel_flags,
    key_of,
)
from fuser.runtime.emulator.launch import Extent3, ThreadOrder, make_launch, raise_for
from fuser.runtime.kernels.compile_cache import CompileCache
from fuser.runtime.kernels.disk_cache import kept

if TYPE_CHECKING:
    Argument = torch.Tensor | ctypes._SimpleCData[Any] | ctypes.Structure  # pyright: ignore[reportPrivateUsage]

_VALUE, _BUFFER = 0, 1
_ALIGNMENT = 64
"""A buffer lies as its tensor does, up to multiples of this."""

_FINDINGS = 66
"""The exit code a sanitizer ends the program with when it has found something."""


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
    cluster: int = 1,
    order: ThreadOrder = ThreadOrder.RUN_AHEAD,
) -> SanitizerReport:
    """Run a kernel in a program of its own, under a sanitizer.

    Tensors (contiguous, on the CPU) are passed by address, each from a heap block of exactly its
    size and alignment, and hold what the kernel wrote afterwards. Raises CompilationError,
    EmulatorDeadlockError and EmulatorFailureError.
    """
    head = bytes(make_launch(kernel, grid, block, shared_bytes, order, cluster))
    packed = b"".join(map(_packed, arguments))
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    place = private_directory() / f"{kernel}_{digest}_{sanitizer.name}"
    program = _PROGRAMS.get(str(place), lambda: _build(source, kernel, sanitizer, place))
    with tempfile.NamedTemporaryFile(dir=place, prefix="launch") as launch:
        Path(launch.name).write_bytes(head + struct.pack("<Q", len(arguments)) + packed)
        done = _run(program, Path(launch.name))
        if done.returncode == _FINDINGS or "runtime error" in done.stderr:
            return SanitizerReport(done.stderr)
        for line in done.stderr.splitlines():
            if line.startswith("EMULATOR "):
                _, status, message = line.split(" ", 2)
                raise_for(int(status), kernel, message)
        if done.returncode != 0:
            return SanitizerReport(done.stderr or f"the program ended with {done.returncode}")
        _unpack(Path(launch.name).read_bytes(), arguments)
    return SanitizerReport("")


@functools.cache
def is_available(sanitizer: Sanitizer) -> bool:
    """Whether this machine's compiler can build, and the machine run, a sanitized program."""
    if find_compiler() is None:
        return False
    source = 'extern "C" __global__ void nothing() {}'
    try:
        report = run_sanitized(source, "nothing", (1, 1, 1), (1, 1, 1), [], sanitizer)
    except CompilationError:
        return False
    return not report.findings


_PROGRAMS: CompileCache[Path] = CompileCache()
_RUNTIMES: CompileCache[list[Path]] = CompileCache()


def _build(source: str, kernel: str, sanitizer: Sanitizer, place: Path) -> Path:
    """The program of a kernel, in a directory of its own; run by name, so its files stay there."""
    place.mkdir(exist_ok=True)
    text, program = place / f"{kernel}.cpp", place / "program"
    text.write_text(emulator_text(source, kernel))
    watched = sanitizer.value[0]
    built = [_compiled(text, place, watched), *_runtime(sanitizer)]
    _run_compiler(text, [*watched, "-o", str(program), *map(str, built)], place)
    return program


def _runtime(sanitizer: Sanitizer) -> list[Path]:
    """The objects that every kernel's program has."""
    place, flags = private_directory() / sanitizer.name, sanitizer.value[1]
    sources = [SOURCES / name for name in ("fibers.cpp", "sanitized_main.cpp")]
    return _RUNTIMES.get(str(place), lambda: [_compiled(path, place, flags) for path in sources])


def _compiled(source: Path, place: Path, flags: tuple[str, ...]) -> Path:
    """The object of a source; what is reported of it has paths relative to `place`."""
    place.mkdir(exist_ok=True)
    built = place / f"{source.stem}.o"
    options = (*kernel_flags(), "-g1", "-fno-omit-frame-pointer", *flags)  # 1: lines of code only

    def make() -> bytes:
        named = [f"-ffile-prefix-map={place}=.", "-c", "-o", str(built), str(source)]
        _run_compiler(source, [*options, *named], place)
        return built.read_bytes()

    kept(key_of(options, f"{source.name}\n{source.read_text()}"), make, built.write_bytes)
    return built


def _run_compiler(source: Path, arguments: list[str], place: Path) -> None:
    compiler = compiler_or_raise()
    command = [*compiler.command, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place)
    if done.returncode != 0:
        raise CompilationError(compiler=compiler.name, source=str(source), log=done.stderr)


def _run(program: Path, launch: Path) -> subprocess.CompletedProcess[str]:
    options = {
        "ASAN_OPTIONS": f"exitcode={_FINDINGS}:detect_leaks=0:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": f"exitcode={_FINDINGS}:print_stacktrace=1",
        "TSAN_OPTIONS": f"exitcode={_FINDINGS}:halt_on_error=1:history_size=0:atexit_sleep_ms=0"
        ":report_thread_leaks=0",
    }
    command = [*_with_fixed_layout(), str(program), str(launch)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **options}
    )


@functools.cache
def _with_fixed_layout() -> tuple[str, ...]:
    """Thread sanitizers cannot place their shadow memory under every randomized layout."""
    path = shutil.which("setarch")
    if path is None:
        return ()
    allowed = subprocess.run([path, "-R", "true"], capture_output=True, check=False)
    return (path, "-R") if allowed.returncode == 0 else ()


def _packed(argument: Argument) -> bytes:
    """The kind, the position past a multiple of the alignment, the size, the bytes."""
    if not isinstance(argument, torch.Tensor):
        data = bytes(argument)
        return struct.pack("<QQQ", _VALUE, 0, len(data)) + data
    nbytes = argument.numel() * argument.element_size()
    head = struct.pack("<QQQ", _BUFFER, argument.data_ptr() % _ALIGNMENT, nbytes)
    return head + ctypes.string_at(argument.data_ptr(), nbytes)


def _unpack(data: bytes, arguments: Sequence[Argument]) -> None:
    position = 0
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            nbytes = argument.numel() * argument.element_size()
            ctypes.memmove(argument.data_ptr(), data[position : position + nbytes], nbytes)
            position += nbytes
