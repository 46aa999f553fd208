"""Which processor this is: machine code for it need not run on another."""

from __future__ import annotations

import functools
import os
import platform

_NAMED = frozenset(
    {
        *("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "cache size"),
        *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features", "isa"),
    }
)
"""What Linux says of a processor that a compiler may look at."""

_FIRST_BYTES = 16384
"""Every processor is described; the first of them is enough."""


@functools.cache
def processor() -> str:
    """Everything that `-march=native` depends on; where it is not known, the machine's name."""
    try:
        handle = os.open("/proc/cpuinfo", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return f"{platform.machine()} {platform.processor()} {platform.node()}"
    try:
        text = os.read(handle, _FIRST_BYTES).decode(errors="replace")
    finally:
        os.close(handle)
    first = text.partition("\n\n")[0].splitlines()
    lines = [line for line in first if line.partition(":")[0].strip() in _NAMED]
    return "\n".join([platform.machine(), *(lines or [platform.node()])])


@functools.cache
def is_intel() -> bool:
    """Whether it is one of Intel's; not where that is not known."""
    return "GenuineIntel" in processor().split()


@functools.cache
def is_amd_with_avx512() -> bool:
    """Whether it is one of AMD's with 512-bit vectors; not where that is not known."""
    words = processor().split()
    return "AuthenticAMD" in words and "avx512f" in words
