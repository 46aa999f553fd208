"""C++ text -> a function, through the system compiler."""

from __future__ import annotations

import platform
from dataclasses import dataclass

from fuser.codegen import KernelSource
from fuser.errors import TargetError
from fuser.runtime.cpu.processor import is_intel, processor
from fuser.runtime.cpu.python_entry import LINKED, entry, entry_text
from fuser.runtime.cpu.shared_library import load_library
from fuser.runtime.cpu.toolchain import Compiler, find_compiler, why_none
from fuser.runtime.kernels.compile_cache import CompileCache
from fuser.runtime.kernels.disk_cache import kept_kernel
from fuser.runtime.kernels.kernel import Launcher
from fuser.runtime.kernels.resources import Resources

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
    # Else a parallel loop links what would catch what it throws, which takes 30 ms.
    "-fno-exceptions",
    # Compilers prefer 256 bits where there are 512, for processors that slow down at them.
    *_WIDEST_VECTORS,
)


_WIDEST_COPIES = "-mmove-max=512"
"""Else g++ copies lanes by 32 bytes, and whoever reads 64 of them next waits until both halves are
in the cache. Since g++ 12."""


_ENDS_IN_TURN = "--param=vect-epilogues-nomask=0"
"""Else g++ translates each loop once more, with vectors of half the size, for what is left over
after whole ones: a loop of 45 statements for each of 15 elements takes 7.9 s, not 2.3."""


_BRIEF = ("-fno-gcse", "--param=max-combine-insns=2")
"""Else g++ looks for what it can combine, and has computed before, among all of hundreds of
statements: the softmax of 4 by 4 matrices of bfloat16 takes 19.5 s, not 7.5. It has found little
there. Of short loops it finds more: they are up to a tenth faster for it."""


_GATHERS = "-mtune-ctrl=use_gather"
"""Else g++ gathers nothing for a processor of Intel's that it does not know, and makes no vectors
of loops that would. Of others it knows what is best."""


def flags(source: KernelSource) -> tuple[str, ...]:
    """What a kernel is compiled with."""
    compiler = find_compiler() if _WIDEST_VECTORS else None
    ends = (_ENDS_IN_TURN,) if source.has_long_loops else ()
    brief = _BRIEF if source.has_long_bodies else ()
    asked = (_WIDEST_COPIES, *([_GATHERS] if is_intel() else []), *ends, *brief)
    known = [option for option in asked if compiler is not None and compiler.takes(option)]
    separate = () if source.contracts else ("-ffp-contract=off",)
    # Else a comparison of a choice is made where its outcome is known, as are an integer and what
    # is read at a place, and what follows a comparison that is combined with others is left out
    # where it is false: branches, and no vectors.
    # Elsewhere loops of functions would have to be without what that optimization brings.
    plain = ("-fno-tree-pre",) if source.compares_choices else ()
    # Else a loop that keeps lanes beside sums of them becomes two, and a call that copies memory:
    # lanes and sums are no longer in registers. Elsewhere such calls are worth it.
    together = ("-fno-tree-loop-distribute-patterns",) if source.calls_in_lanes else ()
    return (*FLAGS, *known, *separate, *plain, *together)


@dataclass(frozen=True, slots=True)
class CpuFunction:
    """A loaded shared library; `launch` takes addresses, scalars and sizes, then `threaded`."""

    launch: Launcher
    resources: Resources


def compile_cpu(source: KernelSource) -> CpuFunction:
    """Compile and load, or return what was compiled from the same code before.

    Raises CompilationError, CompilerError, or TargetError where there is no compiler.
    """
    compiler = find_compiler()
    if compiler is None:
        raise TargetError(target="cpu", reason=f"{why_none()}; install g++ or clang++")
    return _CACHE.get(source.key, lambda: _compile(source, compiler))


def _compile(source: KernelSource, compiler: Compiler) -> CpuFunction:
    machine = (processor(), compiler.name, compiler.version)
    options, linked = flags(source), (*compiler.without_language_libraries(), *LINKED)
    entered = entry_text(source)
    key = "\n".join(("cpu", *machine, *options, *linked, source.name, source.code, entered))

    def make() -> bytes:
        return compiler.image_of_text(source.text + entered, source.name, options, linked)

    def use(image: bytes) -> CpuFunction:
        launch = entry(load_library(image, source.name), source.name)
        return CpuFunction(launch, Resources(binary_size=len(image)))

    return kept_kernel(key, make, use)


_CACHE: CompileCache[CpuFunction] = CompileCache()
