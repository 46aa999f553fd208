"""A compiled CUDA kernel: its machine code, and what it takes of a multiprocessor."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fuser.runtime.resources import Resources


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code of `kernel` for one architecture (`sm_90`), with the compiler's log."""

    image: bytes
    kernel: str
    arch: str
    resources: Resources
    log: str


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
