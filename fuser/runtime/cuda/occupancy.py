"""How many blocks of a kernel a GPU runs at once, and grids that follow from it.

Blocks that share out rows, or parts of them, should all run at once: a few more than that take as
long again as all others. How many do is known when the kernel is compiled, and its registers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fuser.runtime.kernels.resources import Resources
from fuser.schedule.cuda_parameters import WARP
from fuser.schedule.tree.loop_nest import Launch

_PARTITIONS = 4
"""Of a multiprocessor, each with its own warps and registers."""

_REGISTERS = 1 << 14
"""Of a partition."""

_RESERVED_BYTES = 1 << 10
"""Of shared memory, for each block."""

_WELL_FILLED = 0.9
"""The part of a GPU whose use leaves little to gain."""

_TOGETHER = 16
"""Multiprocessors among which the blocks of a cluster lie: those of an H100's smallest group."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many multiprocessors a GPU has, and what each of them has."""

    multiprocessors: int
    threads: int
    shared_bytes: int


def filling_grid(launch: Launch, taken: Resources, gpu: Capacity) -> tuple[int, int, int]:
    """The grid, with fewer blocks along its elastic dimension where these fill the GPU better."""
    most, along = resident_blocks(launch, taken, gpu), launch.elastic
    if along is None or most == 0:
        return launch.grid
    others = math.prod(launch.grid) // launch.grid[along]
    fewer = min(most // others, launch.grid[along])
    as_planned = _filled(math.prod(launch.grid), most)
    if as_planned > _WELL_FILLED or _filled(fewer * others, most) <= as_planned:
        return launch.grid
    x, y, z = launch.grid
    return (fewer, y, z) if along == 0 else (x, fewer, z)


def resident_blocks(launch: Launch, taken: Resources, gpu: Capacity) -> int:
    """Blocks that run at once, as far as registers, threads and shared memory decide; whole
    clusters of them."""
    warps = -(-math.prod(launch.block) // WARP)
    registers = -(-(taken.registers or 1) // 8) * 8 * WARP
    shared = (taken.shared_bytes or 0) + launch.shared_bytes + _RESERVED_BYTES
    each = min(
        _REGISTERS // registers * _PARTITIONS // warps,
        gpu.threads // (WARP * warps),
        gpu.threads // 64,
        gpu.shared_bytes // shared,
    )
    if launch.cluster <= 2:
        return gpu.multiprocessors * each // launch.cluster * launch.cluster
    return gpu.multiprocessors // _TOGETHER * (_TOGETHER * each // launch.cluster) * launch.cluster


def _filled(blocks: int, most: int) -> float:
    """The part of a GPU that has something to do until the last of some equal blocks ends."""
    return blocks / (-(-blocks // most) * most) if blocks else 0.0
