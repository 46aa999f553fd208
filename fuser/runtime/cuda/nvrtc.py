"""NVRTC: CUDA C++ text to machine code, with no GPU and no driver."""

from __future__ import annotations

import os
import tempfile

from fuser.codegen import KernelSource
from fuser.errors import CompilationError, TargetError
from fuser.runtime.cuda import bindings
from fuser.runtime.cuda.bindings import Handle, Nvrtc, Status
from fuser.runtime.cuda.cubin import Cubin, read_resources

# `-v` reports registers and spills, and costs no measurable time. 177 is the warning that a
# function is not used: device library sections come whole. Minimal are the declarations that NVRTC
# reads before a text: without those of the CUDA runtime, of which kernels have nothing.
OPTIONS = ("--std=c++17", "--minimal", "--ptxas-options=-v", "--diag-suppress=177")


def options(source: KernelSource) -> tuple[str, ...]:
    """What a kernel is compiled with."""
    return OPTIONS if source.contracts else (*OPTIONS, "--fmad=false")


def compile_cubin(source: str, kernel: str, arch: str, options: tuple[str, ...] = OPTIONS) -> Cubin:
    """Compile CUDA C++ to machine code; other Python threads run meanwhile.

    `kernel` names an `extern "C" __global__` function of `source`, `arch` a real architecture
    such as `sm_90`. Raises CompilationError, with the log and the path the text was saved under;
    TargetError where NVRTC is not installed or does not know the architecture.
    """
    nvrtc_version()  # an error message where there is no NVRTC
    nvrtc = bindings.nvrtc()
    name = f"{kernel}.cu".encode()
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), name, 0, [], [])
    _check(status)
    try:
        given = [option.encode() for option in (f"--gpu-architecture={arch}", *options)]
        (compiled,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
        log = _log(nvrtc, program)
        if compiled.name == "NVRTC_ERROR_INVALID_OPTION":
            raise TargetError(target=arch, reason=f"{log}; it may be {_architectures(nvrtc)}")
        if compiled.value != 0:
            raise _failure(source, log or compiled.name)
        image = _image(nvrtc, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    resources = read_resources(log, kernel, len(image))
    if resources is None:
        raise _failure(source, f'it has no `extern "C" __global__` function {kernel!r}\n{log}')
    return Cubin(image, kernel, resources, log)


def nvrtc_version() -> str:
    """NVRTC's version (`13.5`), for messages. Raises TargetError if it is not installed."""
    try:
        status, major, minor = bindings.nvrtc().nvrtcVersion()
    except RuntimeError as error:
        if isinstance(error, TargetError):
            raise
        reason = f"the NVRTC library is missing; install it with {bindings.INSTALL}"
        raise TargetError(target="cuda", reason=reason) from error
    _check(status)
    return f"{major}.{minor}"


def _failure(source: str, log: str) -> CompilationError:
    handle, path = tempfile.mkstemp(prefix="fuser_", suffix=".cu")
    with os.fdopen(handle, "w") as file:
        file.write(source)
    return CompilationError(compiler=f"NVRTC {nvrtc_version()}", source=path, log=log)


def _log(nvrtc: Nvrtc, program: Handle) -> str:
    status, size = nvrtc.nvrtcGetProgramLogSize(program)
    _check(status)
    log = bytearray(size)
    _check(*nvrtc.nvrtcGetProgramLog(program, log))
    return log.rstrip(b"\0").decode(errors="replace").strip()


def _image(nvrtc: Nvrtc, program: Handle) -> bytes:
    status, size = nvrtc.nvrtcGetCUBINSize(program)
    _check(status)
    image = bytearray(size)
    _check(*nvrtc.nvrtcGetCUBIN(program, image))
    return bytes(image)


def _architectures(nvrtc: Nvrtc) -> str:
    status, numbers = nvrtc.nvrtcGetSupportedArchs()
    _check(status)
    return ", ".join(f"sm_{number}" for number in numbers)


def _check(status: Status) -> None:
    if status.value != 0:
        raise TargetError(target="cuda", reason=f"NVRTC failed with {status.name}")
