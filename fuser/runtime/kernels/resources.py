"""What a compiled kernel takes of the machine that runs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resources:
    """Registers per thread, and bytes; None where the target does not report it.

    `frame_bytes` is the local memory of a thread: spills, and arrays that are not in registers.
    `spill_bytes` counts the bytes its instructions store to and load from there for want of
    registers. `shared_bytes` is static shared memory per block, `binary_size` the image's size.
    """

    registers: int | None = None
    spill_bytes: int | None = None
    frame_bytes: int | None = None
    shared_bytes: int | None = None
    binary_size: int | None = None
