"""C++ text -> a function, through the system compiler."""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import platform
import shutil
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fuser.codegen import KernelSource
from fuser.errors import TargetError
from fuser.runtime.compile_cache import CompileCache
from fuser.runtime.kernel import Launcher, c_types
from fuser.runtime.resources import Resources
from fuser.runtime.stats import count
from fuser.runtime.toolchain import Compiler, find_compiler

_WIDEST_VECTORS = ("-mprefer-vector-width=512",) if platform.machine() == "x86_64" else ()

FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fopenmp",
    "-fwrapv",
    # Else a clamp becomes a path of its own, which costs a loop more selects than the clamp.
    "-fno-thread-jumps",
    # Without these two, selects are not if-converted and loops with them do not vectorize. NaN and
    # infinity stay right: nothing of -ffast-math is on.
    "-fno-trapping-math",
    "-fno-math-errno",
    # Compilers prefer 256 bits where there are 512, for processors that slow down at them.
    *_WIDEST_VECTORS,
)


def flags(source: KernelSource) -> tuple[str, ...]:
    """What a kernel is compiled with."""
    return FLAGS if source.contracts else (*FLAGS, "-ffp-contract=off")


@dataclass(frozen=True, slots=True)
class CpuKernel:
    """A loaded shared library; `launch` takes addresses, scalars and sizes, then `threaded`."""

    launch: Launcher
    resources: Resources


def compile_cpu(source: KernelSource) -> CpuKernel:
    """Compile and load, or return what was compiled from the same code before.

    Raises CompilationError, or TargetError where there is no compiler.
    """
    compiler = find_compiler()
    if compiler is None:
        raise TargetError(target="cpu", reason="no C++ compiler was found; install g++ or clang++")
    return _CACHE.get(source.key, lambda: _compile(source, compiler))


def _compile(source: KernelSource, compiler: Compiler) -> CpuKernel:
    key = "\n".join((source.code, compiler.version, *flags(source)))
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    stem = _directory() / f"{source.name}_{digest}_{threading.get_ident()}"
    text, library = stem.with_suffix(".cpp"), stem.with_suffix(".so")
    text.write_text(source.text)
    compiler.shared_library(text, library, flags(source))
    count("kernels_compiled")
    function = getattr(ctypes.CDLL(str(library)), source.name)
    function.restype = None
    function.argtypes = [*c_types(source), ctypes.c_bool]
    return CpuKernel(function, Resources(binary_size=library.stat().st_size))


@cache
def _directory() -> Path:
    path = Path(tempfile.mkdtemp(prefix="fuser-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


_CACHE: CompileCache[CpuKernel] = CompileCache()
