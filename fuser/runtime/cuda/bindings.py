"""The only importer of cuda-python: the functions that are used, with their types.

Everything is called as in C, but results are returned: a tuple of the status, then the values.
"""

# ruff: noqa: N802 (the names are NVIDIA's)

from __future__ import annotations

import importlib
from typing import Protocol, cast

from fuser.errors import TargetError

INSTALL = "pip install 'cuda-bindings>=13,<14' 'nvidia-cuda-nvrtc>=13,<14'"


class Status(Protocol):
    """A status: an enumeration whose zero is success."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...


class Handle(Protocol):
    """An opaque pointer of the library: a program, a kernel, a context, ..."""

    def __int__(self) -> int: ...


class Nvrtc(Protocol):
    """`cuda.bindings.nvrtc`."""

    def nvrtcVersion(self) -> tuple[Status, int, int]: ...
    def nvrtcGetSupportedArchs(self) -> tuple[Status, list[int]]: ...
    def nvrtcCreateProgram(
        self, src: bytes, name: bytes, count: int, headers: list[bytes], names: list[bytes], /
    ) -> tuple[Status, Handle]: ...
    def nvrtcDestroyProgram(self, program: Handle, /) -> tuple[Status]: ...
    def nvrtcCompileProgram(
        self, program: Handle, count: int, options: list[bytes], /
    ) -> tuple[Status]: ...
    def nvrtcGetProgramLogSize(self, program: Handle, /) -> tuple[Status, int]: ...
    def nvrtcGetProgramLog(self, program: Handle, log: bytearray, /) -> tuple[Status]: ...
    def nvrtcGetCUBINSize(self, program: Handle, /) -> tuple[Status, int]: ...
    def nvrtcGetCUBIN(self, program: Handle, image: bytearray, /) -> tuple[Status]: ...


class FunctionAttribute(Protocol):
    """`CUfunction_attribute`."""

    @property
    def CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES(self) -> object: ...
    @property
    def CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES(self) -> object: ...


class DeviceAttribute(Protocol):
    """`CUdevice_attribute`."""

    @property
    def CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN(self) -> object: ...


class Driver(Protocol):
    """`cuda.bindings.driver`."""

    @property
    def CUfunction_attribute(self) -> FunctionAttribute: ...
    @property
    def CUdevice_attribute(self) -> DeviceAttribute: ...
    def CUfunction(self, address: int, /) -> Handle: ...
    def cuInit(self, flags: int, /) -> tuple[Status]: ...
    def cuGetErrorString(self, status: Status, /) -> tuple[Status, bytes | None]: ...
    def cuDeviceGet(self, ordinal: int, /) -> tuple[Status, Handle]: ...
    def cuDeviceGetAttribute(self, attribute: object, device: Handle, /) -> tuple[Status, int]: ...
    def cuDevicePrimaryCtxRetain(self, device: Handle, /) -> tuple[Status, Handle]: ...
    def cuCtxGetCurrent(self) -> tuple[Status, Handle]: ...
    def cuCtxSetCurrent(self, context: Handle, /) -> tuple[Status]: ...
    def cuLibraryLoadData(
        self,
        code: bytes,
        jit_options: list[object],
        jit_values: list[object],
        jit_count: int,
        options: list[object],
        values: list[object],
        count: int,
        /,
    ) -> tuple[Status, Handle]: ...
    def cuLibraryGetKernel(self, library: Handle, name: bytes, /) -> tuple[Status, Handle]: ...
    def cuKernelGetAttribute(
        self, attribute: object, kernel: Handle, device: Handle, /
    ) -> tuple[Status, int]: ...
    def cuKernelSetAttribute(
        self, attribute: object, value: int, kernel: Handle, device: Handle, /
    ) -> tuple[Status]: ...
    def cuLaunchKernel(
        self,
        function: Handle,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        block_x: int,
        block_y: int,
        block_z: int,
        shared_bytes: int,
        stream: int,
        parameters: int,
        extra: int,
        /,
    ) -> tuple[Status]: ...


def nvrtc() -> Nvrtc:
    """The NVRTC bindings. Raises TargetError if cuda-bindings is not installed."""
    return cast(Nvrtc, _module("cuda.bindings.nvrtc"))


def driver() -> Driver:
    """The driver bindings. Raises TargetError if cuda-bindings is not installed."""
    return cast(Driver, _module("cuda.bindings.driver"))


def _module(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise TargetError(target="cuda", reason=f"{error}; install it with {INSTALL}") from error
