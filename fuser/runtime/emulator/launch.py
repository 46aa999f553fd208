"""What a launch is made of, shared by the loaded kernel and the sanitized program."""

from __future__ import annotations

import ctypes
from enum import Enum

from fuser.errors import FuserError

Extent3 = tuple[int, int, int]

MAX_THREADS = 1024


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
    )


def make_launch(grid: Extent3, block: Extent3, shared_bytes: int, order: ThreadOrder) -> Launch:
    """The structure the runtime takes. Raises EmulatorFailureError for too large a block."""
    threads = block[0] * block[1] * block[2]
    if not 1 <= threads <= MAX_THREADS:
        where = f"a block of {threads} threads; CUDA allows 1 to {MAX_THREADS}"
        raise EmulatorFailureError(kernel="launch", where=where)
    return Launch(
        (ctypes.c_uint32 * 3)(*grid), (ctypes.c_uint32 * 3)(*block), shared_bytes, order.value
    )


def raise_for(status: int, kernel: str, message: str) -> None:
    """Raise what the runtime reported; 0 is success."""
    if status == 1:
        raise EmulatorDeadlockError(kernel=kernel, where=message)
    if status != 0:
        raise EmulatorFailureError(kernel=kernel, where=message)
