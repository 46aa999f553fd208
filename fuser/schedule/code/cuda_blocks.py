"""How the threads of a CUDA block, and the blocks of a grid, are laid out over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fuser.schedule.cuda_parameters import CudaParameters
from fuser.schedule.tree.counts import ceil_div, power_of_two

MOST_BLOCKS = 65535
"""Blocks along the second dimension of a grid, and along the third, at most."""


def grid_shape(blocks: Sequence[int]) -> tuple[tuple[int, int, int], bool]:
    """The grid for so many blocks along each axis, from the outermost.

    The two innermost have a dimension each, and all others the third. Where one would have too
    many, blocks are numbered along the first, as the second result says.
    """
    *others, y, x = (1, 1, *blocks)
    grid = (x, y, math.prod(others))
    if max(grid[1:]) > MOST_BLOCKS:
        return (math.prod(grid), 1, 1), True
    return grid, False


def rounds_in_grid(vectors: int, threads: int, rounds: int) -> int:
    """Rounds of the threads of each block along the second dimension of a grid, which take so many
    vectors together: `rounds`, doubled until there are no more blocks than that has."""
    while ceil_div(vectors, threads * rounds) > MOST_BLOCKS:
        rounds *= 2
    return rounds


def block_shape(
    extents: Sequence[int], lanes: int, parameters: CudaParameters
) -> tuple[int, int, int]:
    """Threads along the innermost axis and along the next, wasting as few as possible.

    The x size is a power of two, whole warps where the axis is long enough; the y size fills the
    block, adjusted to divide its axis where a size between half and full does.
    """
    if not extents:
        return (1, 1, 1)
    across = ceil_div(extents[-1], lanes)
    x = power_of_two(min(across, parameters.threads))
    if len(extents) == 1 or x == parameters.threads:
        return (x, 1, 1)
    room = parameters.threads // x
    candidates = range(max(room // 2, 1), 2 * room + 1)
    y = min(candidates, key=lambda size: (_waste(extents[-2], size), abs(size - room)))
    return (x, y, 1)


def _waste(extent: int, size: int) -> float:
    """The part of the threads along an axis that find nothing to do."""
    rounded = ceil_div(extent, size) * size
    return (rounded - extent) / max(rounded, 1)
