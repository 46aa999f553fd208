"""How many registers a CUDA kernel may have.

A multiprocessor shares its registers out over the blocks that it runs at once. Where one of them
waits for memory or for its own threads, another computes, and all that they load is under way at
once. So a kernel is compiled for as many as need not spill registers to memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuser.codegen.kernel_source import KernelSource

_EIGHTHS = (8, 6, 5, 4, 3, 2)
"""Of the threads that a multiprocessor may run at once, how many are tried: there are 32 registers
for each of all, and 8 more for each step at first."""

_LEAST_THREADS = 96
"""Of a block, as far as that counts: a multiprocessor runs no more blocks of fewer."""


def launch_bounds(threads: int, blocks: int | None) -> str:
    """`threads` a block, and how many `blocks` are to run at once, if ptxas is not to choose."""
    bounds = [threads] if blocks is None else [threads, blocks]
    return f"__launch_bounds__({', '.join(map(str, bounds))})"


def by_residency(source: KernelSource, most_threads: int) -> Iterator[str]:
    """The text of a kernel for as many blocks at once as a multiprocessor has threads for, and for
    fewer and fewer, down to one; as it is, where ptxas is to choose."""
    threads = source.launch.max_threads
    asked = launch_bounds(threads, source.launch.resident)
    if asked not in source.code:
        yield source.code
        return
    each = max(threads, _LEAST_THREADS)
    counts = {most_threads * eighths // 8 // each for eighths in _EIGHTHS}
    for blocks in sorted({*counts, 1} - {0}, reverse=True):
        yield source.code.replace(asked, launch_bounds(threads, blocks))
