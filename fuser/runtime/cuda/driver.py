"""Loading and launching compiled kernels through the CUDA driver."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, cast

import torch

from fuser.errors import CaptureError, LaunchError, TargetError
from fuser.runtime.cuda import bindings
from fuser.runtime.cuda.bindings import Driver, Handle, Status
from fuser.runtime.cuda.cubin import Cubin
from fuser.runtime.cuda.occupancy import Capacity

Extent3 = tuple[int, int, int]

# What a block may use, static and dynamic together, before the kernel asks for more: 48 KB, with
# what the driver may count and the compiler does not.
_DEFAULT_SHARED_BYTES = 47 * 1024


@dataclass(frozen=True, slots=True)
class CudaFunction:
    """A loaded kernel. It belongs to no device or context, and any thread may launch it."""

    name: str
    driver: Driver
    kernel: Handle
    function: Handle  # the same pointer, as the type that cuLaunchKernel takes
    static_shared_bytes: int
    shared_limits: dict[int, int]  # device ordinal -> dynamic bytes it was told to allow

    def launch(
        self,
        grid: Extent3,
        block: Extent3,
        parameters: int,
        stream: int,
        shared_bytes: int = 0,
    ) -> None:
        """Queue the kernel on a stream handle of the current device (see `on_device`).

        `parameters` is an address of pointers to the kernel's parameters (see `Parameters`); they
        are copied before this returns. `shared_bytes` is dynamic shared memory per block. No extent
        may be 0. Raises LaunchError with the driver's error, which may be that of earlier work on
        the device.
        """
        if self.static_shared_bytes + shared_bytes > _DEFAULT_SHARED_BYTES:
            self._allow_shared(shared_bytes)
        launch = self.driver.cuLaunchKernel
        (status,) = launch(self.function, *grid, *block, shared_bytes, stream, parameters, 0)
        if status.value == 0:
            return
        if not self._has_context():
            # A thread that has made no CUDA call yet: the null stream has no context to name.
            self._bind_primary_context()
            (status,) = launch(self.function, *grid, *block, shared_bytes, stream, parameters, 0)
        self._check(status, f" (grid {grid}, block {block}, {shared_bytes} bytes of shared memory)")

    def _allow_shared(self, shared_bytes: int) -> None:
        """Let the kernel use all the shared memory the device gives a block, once per device.

        Always the same limit, so that threads cannot undo each other's.
        """
        ordinal = torch.cuda.current_device()
        limit = self.shared_limits.get(ordinal)
        if limit is None:
            limit = self.shared_limits[ordinal] = self._raise_shared_limit(ordinal)
        if shared_bytes > limit:
            reason = f"{shared_bytes} bytes of shared memory per block, the device allows {limit}"
            raise LaunchError(kernel=self.name, reason=reason)

    def _raise_shared_limit(self, ordinal: int) -> int:
        driver, of = self.driver, self.driver.CUfunction_attribute
        if not self._has_context():  # the driver may have to load the kernel, into one
            self._bind_primary_context()
        status, device = driver.cuDeviceGet(ordinal)
        self._check(status)
        of_device = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        status, most = driver.cuDeviceGetAttribute(of_device, device)
        self._check(status)
        # By the driver's count: from sm_90 on, images declare 1 KB more than the compiler reports.
        declared = of.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
        status, static = driver.cuKernelGetAttribute(declared, self.kernel, device)
        self._check(status)
        limit, dynamic = most - static, of.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._check(*driver.cuKernelSetAttribute(dynamic, limit, self.kernel, device))
        return limit

    def _has_context(self) -> bool:
        """Whether some context is current for this thread."""
        status, context = self.driver.cuCtxGetCurrent()
        self._check(status)
        return int(context) != 0

    def _bind_primary_context(self) -> None:
        """Make the current device's primary context, torch's, current for this thread."""
        status, device = self.driver.cuDeviceGet(torch.cuda.current_device())
        self._check(status)
        # Never released: torch keeps the context for as long as the process lives.
        status, context = self.driver.cuDevicePrimaryCtxRetain(device)
        self._check(status)
        self._check(*self.driver.cuCtxSetCurrent(context))

    def _check(self, status: Status, detail: str = "") -> None:
        _check(self.driver, status, self.name, detail)


def load_kernel(cubin: Cubin) -> CudaFunction:
    """Load a kernel, for every device of its architecture; nothing ever unloads it.

    Raises LaunchError with the driver's error, TargetError where there is no driver.
    """
    driver = _initialized_driver()
    status, library = driver.cuLibraryLoadData(cubin.image, [], [], 0, [], [], 0)
    _check(driver, status, cubin.kernel)
    status, kernel = driver.cuLibraryGetKernel(library, cubin.kernel.encode())
    _check(driver, status, cubin.kernel)
    function = driver.CUfunction(int(kernel))
    static = cubin.resources.shared_bytes or 0
    return CudaFunction(cubin.kernel, driver, kernel, function, static, {})


def device_arch(index: int) -> str:
    """The architecture of a CUDA device, such as `sm_90`."""
    major, minor = torch.cuda.get_device_capability(index)
    return f"sm_{major}{minor}"


class _Properties(Protocol):
    multi_processor_count: int
    max_threads_per_multi_processor: int
    shared_memory_per_multiprocessor: int


def capacity(index: int) -> Capacity:
    """What a CUDA device has to run blocks on."""
    found = cast(_Properties, torch.cuda.get_device_properties(index))  # pyright: ignore[reportUnknownMemberType]
    return Capacity(
        found.multi_processor_count,
        found.max_threads_per_multi_processor,
        found.shared_memory_per_multiprocessor,
    )


def current_stream(index: int) -> int:
    """The handle of torch's current stream on a CUDA device; 0 is the default stream."""
    return torch._C._cuda_getCurrentRawStream(index)  # pyright: ignore[reportPrivateUsage]


def on_device(index: int) -> AbstractContextManager[object]:
    """A context in which CUDA device `index` is current; it does nothing where it already is."""
    return nullcontext() if is_current(index) else torch.cuda.device(index)


def is_current(index: int) -> bool:
    """Whether a CUDA device is the current one."""
    return torch.cuda.current_device() == index


def refuse_capture(reason: str) -> None:
    """Raise CaptureError if a CUDA graph is being captured on the current stream."""
    if torch.cuda.is_current_stream_capturing():
        raise CaptureError(reason=reason)


def _initialized_driver() -> Driver:
    driver = bindings.driver()
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError as error:
        reason = "the NVIDIA driver (libcuda) is not installed"
        raise TargetError(target="cuda", reason=reason) from error
    if status.value != 0:
        raise TargetError(target="cuda", reason=_message(driver, status))
    return driver


def _check(driver: Driver, status: Status, kernel: str, detail: str = "") -> None:
    if status.value != 0:
        raise LaunchError(kernel=kernel, reason=_message(driver, status) + detail)


def _message(driver: Driver, status: Status) -> str:
    _, text = driver.cuGetErrorString(status)
    return f"{status.name}: {(text or b'').decode()}"
