"""Hand-written CUDA kernels without mistakes, each with a launch and what torch computes."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fuser.runtime.emulator import ThreadOrder, build

Extent3 = tuple[int, int, int]
Arguments = list[Any]
"""Tensors, and ctypes of everything else."""

_DIRECTORY = Path(__file__).with_name("kernels")


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A kernel of `kernels/`. `arguments` makes new ones; `check` compares them after a launch."""

    name: str
    grid: Extent3
    block: Extent3
    arguments: Callable[[], Arguments]
    check: Callable[..., None]
    shared_bytes: int = 0

    def __str__(self) -> str:
        return f"{self.name}-{self.grid}-{self.block}"

    @property
    def threads(self) -> int:
        """Of all blocks."""
        return math.prod((*self.grid, *self.block))

    @property
    def source(self) -> str:
        return (_DIRECTORY / f"{self.name}.cu").read_text()


def launch(
    source: str,
    name: str,
    grid: Extent3,
    block: Extent3,
    arguments: Sequence[Any],
    *,
    shared_bytes: int = 0,
    order: ThreadOrder = ThreadOrder.RUN_AHEAD,
) -> None:
    """Run a kernel in the emulator; tensors are passed by address."""
    passed = [
        ctypes.c_void_p(given.data_ptr()) if isinstance(given, torch.Tensor) else given
        for given in arguments
    ]
    build(source, name).launch(grid, block, passed, shared_bytes=shared_bytes, order=order)


def integers(count: int, low: int = -50, high: int = 50) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.randint(low, high, (count,), generator=generator, dtype=torch.int32)


def floats(*shape: int) -> torch.Tensor:
    """Small integers as float32, so that sums are exact in any order."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-8, 9, shape, generator=generator).float()


def equal(got: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


# -- the kernels -----------------------------------------------------------------------------------


def _vector_add(n: int) -> CudaKernel:
    return CudaKernel(
        "vector_add",
        ((n + 511) // 512, 1, 1),
        (128, 1, 1),
        lambda: [floats(n), floats(n) * 2, torch.zeros(n), ctypes.c_longlong(n)],
        lambda x, y, z, _: equal(z, x + y),
    )


def _row_sums(rows: int, columns: int, threads: int) -> CudaKernel:
    return CudaKernel(
        "row_sums",
        (rows, 1, 1),
        (threads, 1, 1),
        lambda: [floats(rows, columns), torch.zeros(rows), ctypes.c_int(columns)],
        lambda x, y, _: equal(y, x.sum(1)),
    )


def _shuffles(threads: int, width: int) -> CudaKernel:
    def check(out: torch.Tensor, _: object) -> None:
        t = torch.arange(threads)
        within, part = t % width, t - t % width
        other = t ^ 5
        expected = [
            torch.where(within >= 3, t - 3, t),
            torch.where(within + 3 < width, t + 3, t),
            torch.where(other // width > t // width, t, other),
            part + 6 % width,
            part + (t + 1) % width,
            part + width - 1,
        ]
        equal(out, torch.stack(expected).double())

    def arguments() -> Arguments:
        return [torch.zeros(6, threads, dtype=torch.float64), ctypes.c_int(width)]

    return CudaKernel("shuffles", (1, 1, 1), (threads, 1, 1), arguments, check)


def _transpose(rows: int, columns: int) -> CudaKernel:
    return CudaKernel(
        "transpose",
        ((columns + 31) // 32, (rows + 31) // 32, 1),
        (32, 8, 1),
        lambda: [
            floats(rows, columns),
            torch.zeros(columns, rows),
            ctypes.c_int(rows),
            ctypes.c_int(columns),
        ],
        lambda x, y, *_: equal(y, x.T),
    )


def _last_block_sum(n: int, blocks: int) -> CudaKernel:
    def arguments() -> Arguments:
        finished = torch.zeros(1, dtype=torch.int32)
        return [floats(n), torch.zeros(blocks), finished, torch.zeros(1), ctypes.c_int(n)]

    def check(
        x: torch.Tensor, _: torch.Tensor, finished: torch.Tensor, y: torch.Tensor, __: object
    ) -> None:
        equal(y, x.sum().reshape(1))
        assert finished.item() == 0

    return CudaKernel("last_block_sum", (blocks, 1, 1), (64, 1, 1), arguments, check)


def _reversed_blocks(blocks: int, threads: int) -> CudaKernel:
    return CudaKernel(
        "reversed_blocks",
        (blocks, 1, 1),
        (threads, 1, 1),
        lambda: [floats(blocks, threads), torch.zeros(blocks, threads)],
        lambda x, y: equal(y, x.flip(1)),
        shared_bytes=4 * threads,
    )


def _carved(blocks: int, threads: int) -> CudaKernel:
    def check(x: torch.Tensor, y: torch.Tensor, counts: torch.Tensor) -> None:
        equal(y, x.roll(-1, 1))
        equal(counts, (x[..., 0] > 0).sum(1).int())

    return CudaKernel(
        "carved",
        (blocks, 1, 1),
        (threads, 1, 1),
        lambda: [
            floats(blocks, threads, 4),
            torch.zeros(blocks, threads, 4),
            torch.zeros(blocks, dtype=torch.int32),
        ],
        check,
        shared_bytes=20 * threads,
    )


def _warps(x: torch.Tensor) -> list[torch.Tensor]:
    return list(x.split(32))


def _votes(threads: int) -> CudaKernel:
    def bits(members: torch.Tensor) -> int:
        return sum(1 << lane for lane, member in enumerate(members.tolist()) if member)

    def check(x: torch.Tensor, out: torch.Tensor) -> None:
        for index, (warp, got) in enumerate(zip(_warps(x), out.split(32, dim=1), strict=True)):
            positive, odd = bits(warp > 0), bits(warp % 2 != 0)
            lanes = range(len(warp))
            assert got[0].tolist() == [positive] * len(warp), f"warp {index}"
            assert got[1].tolist() == [int((warp > 5).any())] * len(warp)
            assert got[2].tolist() == [odd & 0xFF << lane // 8 * 8 for lane in lanes]
            assert got[3].tolist() == [positive if value > 0 else 0 for value in warp.tolist()]

    def arguments() -> Arguments:
        x = integers(threads, -8, 9)
        x[:32] = x[:32].abs()
        return [x, torch.zeros(4, threads, dtype=torch.uint32)]

    return CudaKernel("votes", (1, 1, 1), (threads, 1, 1), arguments, check)


def _atomics(blocks: int, threads: int) -> CudaKernel:
    n = blocks * threads

    def arguments() -> Arguments:
        numbers = torch.tensor([0, 5], dtype=torch.int32)
        wide = torch.zeros(n + 3, dtype=torch.int64)
        return [integers(n), torch.ones(1), torch.ones(1, dtype=torch.float64), numbers, wide]

    def check(
        x: torch.Tensor, f: torch.Tensor, d: torch.Tensor, i: torch.Tensor, u: torch.Tensor
    ) -> None:
        total = int(x.sum())
        assert f.item() == 1 + total
        assert d.item() == 1 + total / 2
        assert i.tolist() == [total, 5 + 3 * n]
        assert u[:2].tolist() == [n << 33, n]
        assert sorted(u[2:-1].tolist()) == list(range(n))
        assert u[-1].item() == 7

    return CudaKernel("atomics", (blocks, 1, 1), (threads, 1, 1), arguments, check)


def _early_exit(n: int) -> CudaKernel:
    def check(x: torch.Tensor, y: torch.Tensor, _: object) -> None:
        flipped = x.flip(0)
        staying = torch.cat([torch.full((len(warp),), len(warp)) for warp in _warps(x)])
        even = torch.cat([torch.full((n // 2,), n // 2) for n in map(len, _warps(x))])
        equal(y, torch.cat([flipped + staying, flipped[::2] + even]))

    def arguments() -> Arguments:
        return [floats(n), torch.zeros(n + (n + 1) // 2), ctypes.c_int(n)]

    return CudaKernel("early_exit", (1, 1, 1), (96, 1, 1), arguments, check)


def _coordinates(grid: Extent3, block: Extent3) -> CudaKernel:
    extents = (*reversed(grid), *reversed(block))
    ranges = torch.meshgrid(*map(torch.arange, extents), indexing="ij")
    numbers = torch.stack(ranges, -1).int()[..., [2, 1, 0, 5, 4, 3]].contiguous()
    return CudaKernel(
        "coordinates",
        grid,
        block,
        lambda: [torch.full_like(numbers, -1)],
        lambda out: equal(out, numbers),
    )


def _warp_scan(blocks: int) -> CudaKernel:
    return CudaKernel(
        "warp_scan",
        (blocks, 1, 1),
        (128, 1, 1),
        lambda: [integers(128 * blocks), torch.zeros(128 * blocks, dtype=torch.int32)],
        lambda x, y: equal(y.view(-1, 32), x.view(-1, 32).cumsum(1).int()),
    )


def _half_warps() -> CudaKernel:
    def check(x: torch.Tensor, y: torch.Tensor) -> None:
        t = torch.arange(64)
        first = x[t // 32 * 32 + ((t ^ 1) + 3) % 16]
        second = x[t | 31] + x[torch.where(t % 16 < 15, t + 1, t) % 64]
        equal(y, torch.where(t % 32 < 16, first, second))

    def arguments() -> Arguments:
        return [integers(64), torch.zeros(64, dtype=torch.int32)]

    return CudaKernel("half_warps", (1, 1, 1), (64, 1, 1), arguments, check)


def _waiting(blocks: int, threads: int) -> CudaKernel:
    def arguments() -> Arguments:
        numbers, flags = integers(blocks), torch.zeros(blocks, dtype=torch.int32)
        return [numbers, flags, torch.zeros(blocks, threads, dtype=torch.int32)]

    def check(x: torch.Tensor, _: torch.Tensor, y: torch.Tensor) -> None:
        equal(y, x[:, None] + torch.arange(threads, dtype=torch.int32))

    return CudaKernel("waiting", (blocks, 1, 1), (threads, 1, 1), arguments, check)


def _local_arrays(blocks: int, threads: int) -> CudaKernel:
    def check(x: torch.Tensor, y: torch.Tensor, _: object) -> None:
        at = (torch.arange(threads)[:, None] + torch.arange(16)) % len(x)
        values = x[at]
        for number in range(3):
            first = values[number, number].clone()
            for i in range(16):
                values[:, i] += first * values[:, (i + 5) % 16]
        equal(y, values.sum(1, dtype=torch.int32).expand(blocks, threads))

    def arguments() -> Arguments:
        y = torch.zeros(blocks, threads, dtype=torch.int32)
        return [integers(23, 0, 3), y, ctypes.c_int(23)]

    return CudaKernel("local_arrays", (blocks, 1, 1), (threads, 1, 1), arguments, check)


KERNELS = (
    _vector_add(1024),
    _vector_add(1027),
    _vector_add(3),
    _row_sums(3, 1000, 1024),
    _row_sums(2, 77, 64),
    _shuffles(64, 32),
    _shuffles(64, 8),
    _transpose(45, 30),
    _last_block_sum(1000, 7),
    _reversed_blocks(3, 1024),
    _reversed_blocks(2, 33),
    _carved(3, 40),
    _votes(72),
    _atomics(3, 50),
    _early_exit(70),
    _coordinates((2, 3, 4), (5, 3, 2)),
    _coordinates((1, 1, 1), (4, 4, 64)),
    _warp_scan(2),
    _half_warps(),
    _waiting(4, 40),
    _local_arrays(3, 70),
)
