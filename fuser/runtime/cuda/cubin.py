"""A compiled CUDA kernel: its machine code, and what it takes of a multiprocessor."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from fuser.runtime.kernels.resources import Resources

_LENGTH_BYTES = struct.calcsize("<Q")


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code of `kernel` for one architecture, with the compiler's log."""

    image: bytes
    kernel: str
    resources: Resources
    log: str


def pack_cubin(cubin: Cubin) -> bytes:
    """A cubin as bytes: the length of its log, the log, the image."""
    log = cubin.log.encode()
    return struct.pack("<Q", len(log)) + log + cubin.image


def unpack_cubin(packed: bytes, kernel: str) -> Cubin:
    """The cubin that `pack_cubin` made bytes of. Raises ValueError where they are none."""
    if len(packed) < _LENGTH_BYTES:
        raise ValueError("these bytes are no cubin")
    start = _LENGTH_BYTES + struct.unpack_from("<Q", packed)[0]
    log, image = packed[_LENGTH_BYTES:start].decode(), packed[start:]
    resources = read_resources(log, kernel, len(image))
    if resources is None:
        raise ValueError(f"the cubin has no kernel {kernel}")
    return Cubin(image, kernel, resources, log)


def read_resources(log: str, kernel: str, binary_size: int) -> Resources | None:
    """What a `ptxas -v` log says of `kernel`; None if the log has no such kernel.

    The log is documented and old; the image's own attributes are neither, and do not tell spills
    from other local memory.
    """
    reports = log.split("Compiling entry function ")[1:]
    report = next((part for part in reports if part.startswith(f"'{kernel}'")), None)
    if report is None:
        return None
    spills = (r"(\d+) bytes spill stores", r"(\d+) bytes spill loads")
    return Resources(
        registers=_number(r"Used (\d+) registers", report),
        spill_bytes=sum(_number(pattern, report) for pattern in spills),
        frame_bytes=_number(r"(\d+) bytes stack frame", report),
        shared_bytes=_number(r"(\d+) bytes smem", report),
        binary_size=binary_size,
    )


def _number(pattern: str, report: str) -> int:
    found = re.search(pattern, report)
    return int(found[1]) if found else 0
