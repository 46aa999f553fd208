"""The CUDA emulator: the text that NVRTC gets, run on the CPU, one fiber per CUDA thread.

One block runs at a time, or the blocks of a cluster in turn. Shared memory is filled with NaN
patterns before every block. Threads that can never meet are reported with the lines they wait at.
"""

from fuser.runtime.emulator.build import EmulatedKernel, build
from fuser.runtime.emulator.launch import (
    EmulatorDeadlockError,
    EmulatorFailureError,
    ThreadOrder,
)
from fuser.runtime.emulator.sanitize import Sanitizer, SanitizerReport, run_sanitized

__all__ = [
    "EmulatedKernel",
    "EmulatorDeadlockError",
    "EmulatorFailureError",
    "Sanitizer",
    "SanitizerReport",
    "ThreadOrder",
    "build",
    "run_sanitized",
]
