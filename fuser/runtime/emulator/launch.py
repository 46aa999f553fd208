"""What a launch is made of, shared by the loaded kernel and the sanitized program."""

from __future__ import annotations

import ctypes
from enum import Enum

from fuser.errors import FuserError

Extent3 = tuple[int, int, int]

MAX_THREADS = 1024
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_CLUSTER = 8
"""What every device with clusters allows."""

MAX_SHARED_BYTES = 227 * 1024
"""What the largest devices allow one block, after opting in."""


class ThreadOrder(Enum):
    """Which thread runs next. ASCENDING: the lowest index that can. RUN_AHEAD: one that completes
    a barrier runs on to its next before the others wake. REVERSED: run ahead, highest first."""

    ASCENDING = 0
    RUN_AHEAD = 1
    REVERSED = 3


class EmulatorDeadlockError(FuserError):
    """Threads wait for each other at different places, or for a thread that has ended."""

    template = "kernel {kernel}: deadlock in {where}"


class EmulatorFailureError(FuserError):
    """The kernel trapped, failed an assertion, or used an operation as CUDA does not allow."""

    template = "kernel {kernel}: {where}"


class Launch(ctypes.Structure):
    """`emulator::Launch` of fibers.h."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("order", ctypes.c_int32),
        ("cluster", ctypes.c_uint32),
    )


def make_launch(
    kernel: str,
    grid: Extent3,
    block: Extent3,
    shared_bytes: int,
    order: ThreadOrder,
    cluster: int,
) -> Launch:
    """The structure the runtime takes. Raises EmulatorFailureError for what CUDA refuses."""
    threads = block[0] * block[1] * block[2]
    for name, extent, limit in (("grid", grid, MAX_GRID), ("block", block, MAX_BLOCK)):
        if not all(1 <= size <= most for size, most in zip(extent, limit, strict=True)):
            where = f"a {name} of {extent}; CUDA allows 1 to {limit}"
            raise EmulatorFailureError(kernel=kernel, where=where)
    if threads > MAX_THREADS:
        where = f"a block of {threads} threads; CUDA allows 1 to {MAX_THREADS}"
        raise EmulatorFailureError(kernel=kernel, where=where)
    if not 0 <= shared_bytes <= MAX_SHARED_BYTES:
        where = f"{shared_bytes} bytes of shared memory; CUDA allows 0 to {MAX_SHARED_BYTES}"
        raise EmulatorFailureError(kernel=kernel, where=where)
    if not 1 <= cluster <= MAX_CLUSTER or grid[1] % cluster:
        where = f"clusters of {cluster} blocks along y in a grid of {grid}"
        raise EmulatorFailureError(kernel=kernel, where=where)
    extents = (ctypes.c_uint32 * 3)(*grid), (ctypes.c_uint32 * 3)(*block)
    return Launch(*extents, shared_bytes, order.value, cluster)


def raise_for(status: int, kernel: str, message: str) -> None:
    """Raise what the runtime reported; 0 is success."""
    if status == 1:
        raise EmulatorDeadlockError(kernel=kernel, where=message)
    if status != 0:
        raise EmulatorFailureError(kernel=kernel, where=message)
