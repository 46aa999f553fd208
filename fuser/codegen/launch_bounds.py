"""How many registers a CUDA kernel may have.

A multiprocessor shares its registers out over the blocks that it runs at once. Where one of them
waits for memory, another computes, so kernels are compiled for several; those that would then spill
registers to memory, for one.
"""

from __future__ import annotations

from fuser.codegen.kernel_source import KernelSource


def launch_bounds(threads: int, blocks: int | None = None) -> str:
    """`threads` a block, and how many `blocks` are to run at once, if ptxas is not to choose."""
    bounds = [threads] if blocks is None else [threads, blocks]
    return f"__launch_bounds__({', '.join(map(str, bounds))})"


def with_all_registers(source: KernelSource) -> str:
    """The text of a kernel, for one block at a time; unchanged if it asks for no more."""
    threads, blocks = source.launch.max_threads, source.launch.resident
    return source.code.replace(launch_bounds(threads, blocks), launch_bounds(threads, 1))
