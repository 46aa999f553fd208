"""CUDA text -> a shared library -> a kernel that can be launched."""

from __future__ import annotations

import ctypes
import functools
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuser.errors import TargetError
from fuser.locks import forkable_lock
from fuser.runtime.cpu.shared_library import load_library
from fuser.runtime.cpu.toolchain import Compiler, find_compiler, why_none
from fuser.runtime.emulator.launch import (
    EmulatorFailureError,
    Extent3,
    ThreadOrder,
    make_launch,
    raise_for,
)
from fuser.runtime.kernels.compile_cache import CompileCache
from fuser.runtime.kernels.disk_cache import kept, kept_kernel

if TYPE_CHECKING:
    Argument = ctypes._SimpleCData[Any] | ctypes.Structure  # pyright: ignore[reportPrivateUsage]

SOURCES = Path(__file__).parent
_STACK = "-DFUSER_STACK_BYTES=65536"
_CHECKED = "-fsanitize=alignment"
"""The one check of memory that needs no sanitizer's library: the runtime has what it calls."""

_ALIGNED = r"(?:(?:alignas|__align__)\s*\([^)]*\)\s*)?"
_DYNAMIC_SHARED = re.compile(
    rf"{_ALIGNED}\bextern\s+{_ALIGNED}__shared__\s+{_ALIGNED}([^;\[]+?)\s*(\w+)\s*\[\s*\]\s*;"
)
_launch_lock = forkable_lock()


class Kernel(ctypes.Structure):
    """`emulator::Kernel` of fibers.h."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("run", ctypes.c_void_p),
        ("shared_begin", ctypes.c_void_p),
        ("shared_end", ctypes.c_void_p),
        ("parameters", ctypes.POINTER(ctypes.c_uint32)),
    )


@dataclass(frozen=True, slots=True)
class EmulatedKernel:
    """A kernel as host code. `parameters` are the bytes of each."""

    name: str
    library: ctypes.CDLL
    parameters: tuple[int, ...]

    def launch(
        self,
        grid: Extent3,
        block: Extent3,
        arguments: Sequence[Argument],
        *,
        shared_bytes: int = 0,
        cluster: int = 1,
        order: ThreadOrder = ThreadOrder.RUN_AHEAD,
    ) -> None:
        """Run every block or cluster, one after another; one launch at a time in a process.

        `arguments` have the ctypes of the kernel's parameters, pointers as `c_void_p` to CPU
        memory. Raises EmulatorDeadlockError, EmulatorFailureError.
        """
        launch = make_launch(self.name, grid, block, shared_bytes, order, cluster)
        given = tuple(map(ctypes.sizeof, arguments))
        if given != self.parameters:
            where = f"arguments of {given} bytes for parameters of {self.parameters} bytes"
            raise EmulatorFailureError(kernel=self.name, where=where)
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        kernel = Kernel.in_dll(self.library, "fuser_emulator_kernel")
        message = ctypes.create_string_buffer(2000)
        with _launch_lock:
            status = _runtime().fuser_emulator_launch(
                ctypes.byref(kernel), ctypes.byref(launch), pointers, message, len(message)
            )
        raise_for(status, self.name, message.value.decode())


def build(source: str, kernel: str) -> EmulatedKernel:
    """Compile the CUDA text for the emulator, or return what the same text gave before.

    `kernel` names its `extern "C" __global__` function. Raises CompilationError, and TargetError
    where there is no C++ compiler.
    """
    return _CACHE.get(f"{kernel}\n{source}", lambda: _build(source, kernel))


def emulator_text(source: str, kernel: str) -> str:
    """What the C++ compiler sees: the CUDA text unchanged, with its own line numbers.

    The one exception is a declaration of dynamic shared memory, which C++ cannot spell. It becomes
    a pointer, and must stand in a function; outside of one the lambda does not compile. Raises
    TargetError for shared memory declared in a template.
    """
    _check_templates(source)
    pointer = r"\1* \2 = [&] { return static_cast<\1*>(emulator::dynamic_shared()); }();"
    text = _DYNAMIC_SHARED.sub(pointer, source)
    return (
        f'#include "cuda_emulator.h"\n#line 1 "{kernel}.cu"\n{text}\n'
        f"FUSER_EMULATOR_ENTRY({kernel})\n"
    )


def kernel_flags() -> tuple[str, ...]:
    """What compiles a kernel. -O1: it runs few threads, so that compiling costs more.

    g++ keeps the section of `__shared__` variables in inline functions only where those are not
    weak; clang++ always does.
    """
    gnu = "clang" not in compiler_or_raise().version
    return ("-std=c++17", "-O1", "-fwrapv", "-w", f"-I{SOURCES}", *(["-fno-weak"] if gnu else []))


def _check_templates(source: str) -> None:
    """g++ has no sections for variables in templates: they would not be poisoned and renewed."""
    for template in re.finditer(r"\btemplate\s*<", source):
        body = _braced(source, template.end())
        if re.search(r"(?<!extern)\s__shared__\b", body):
            line = source.count("\n", 0, template.start()) + 1
            reason = (
                f"the template in line {line} declares __shared__ memory; declare it in the kernel "
                "and pass its address"
            )
            raise TargetError(target="emulator", reason=reason)


def _braced(source: str, start: int) -> str:
    """From the first opening brace after `start` to its counterpart; empty for a declaration."""
    opening = re.compile(r"[{;]").search(source, start)
    if opening is None or opening[0] == ";":
        return ""
    depth = 0
    for brace in re.finditer(r"[{}]", source[opening.start() :]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return source[opening.start() : opening.start() + brace.end()]
    return source[opening.start() :]


def compiler_or_raise() -> Compiler:
    """The C++ compiler the emulator needs."""
    compiler = find_compiler()
    if compiler is None:
        reason = f"it needs a C++ compiler, and {why_none()}; install g++ or clang++"
        raise TargetError(target="emulator", reason=reason)
    return compiler


def _build(source: str, kernel: str) -> EmulatedKernel:
    _runtime()
    # Hidden: functions of two kernels may have one name, and their variables would be shared.
    # Without guards of statics: the fibers are one thread, and guards would be from C++'s library.
    flags = (*kernel_flags(), "-fvisibility=hidden", "-fno-threadsafe-statics", _CHECKED)
    text, linked = emulator_text(source, kernel), compiler_or_raise().without_language_libraries()

    def make() -> bytes:
        return compiler_or_raise().image_of_text(text, kernel, flags, linked)

    def use(image: bytes) -> EmulatedKernel:
        loaded = load_library(image, kernel)
        count, *sizes = _parameters(Kernel.in_dll(loaded, "fuser_emulator_kernel"))
        assert count == len(sizes)
        return EmulatedKernel(kernel, loaded, tuple(sizes))

    return kept_kernel(key_of((*flags, *linked), text), make, use)


def key_of(flags: tuple[str, ...], text: str) -> str:
    """What compiled code depends on. The emulator's own files are part of every one."""
    compiler = compiler_or_raise()
    machine = (platform.machine(), compiler.name, compiler.version)
    return "\n".join(("emulator", *machine, _own_text(), *flags, text))


@functools.cache
def _own_text() -> str:
    return "".join(path.read_text() for path in sorted(SOURCES.glob("*.[hc]*")))


def _parameters(kernel: Kernel) -> list[int]:
    numbers = kernel.parameters
    return numbers[: numbers[0] + 1]


def _runtime() -> ctypes.CDLL:
    """The scheduler, loaded once and seen by every kernel."""
    return _RUNTIME.get("runtime", _load_runtime)


def _load_runtime() -> ctypes.CDLL:
    flags = ("-std=c++17", "-O2", "-w", f"-I{SOURCES}", _STACK)

    def make() -> bytes:
        return compiler_or_raise().image(SOURCES / "fibers.cpp", flags)

    def use(image: bytes) -> ctypes.CDLL:
        return load_library(image, "libfuser_emulator", ctypes.RTLD_GLOBAL)

    return kept(key_of(flags, "runtime"), make, use)


_CACHE: CompileCache[EmulatedKernel] = CompileCache()
_RUNTIME: CompileCache[ctypes.CDLL] = CompileCache()
