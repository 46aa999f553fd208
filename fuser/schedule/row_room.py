"""How many threads share a row, and where they keep what is loaded of it.

    registers    a few words a thread: the text has as many rounds as a thread has vectors
    shared       longer rows, as far as a block has memory
    cluster      rows of many bytes, and few rows: the blocks of a cluster keep a part each
    nowhere      every sweep loads again

All that the text depends on follows from the row's length rounded up to a power of two.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuser.schedule.counts import power_of_two
from fuser.schedule.heuristics import CudaRowParameters
from fuser.schedule.loop_tree import Place

_STATIC_BYTES = 1 << 10
"""Shared memory that a kernel declares, at most, beside what is named here."""

_EXCHANGED_BYTES = 8
"""Of a value that a thread, or a warp, hands to others."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What rows want to keep: of each of `vectors`, `lanes` elements of every one of `sizes`."""

    vectors: int
    lanes: int
    sizes: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Of a vector."""
        return self.lanes * sum(self.sizes)

    @property
    def words(self) -> int:
        """Registers for a vector: a lone element takes a whole one."""
        return sum(max(-(-self.lanes * size // 4), 1) for size in self.sizes)


@dataclass(frozen=True, slots=True)
class Room:
    """The threads of a block, the blocks of a cluster that share a row, and where they keep it."""

    threads: int
    cluster: int
    place: Place
    rounds: int


def warp_room(demand: Demand, parameters: CudaRowParameters) -> Room | None:
    """Room in the registers of a warp."""
    rounds = max(power_of_two(demand.vectors) // 32, 1)
    fits = _fits_registers(rounds * demand.words, 32, parameters)
    return Room(32, 1, Place.REGISTERS, rounds) if fits else None


def column_room(demand: Demand, parameters: CudaRowParameters) -> Room | None:
    """Room for 32 neighbouring columns: many threads for each where they share memory."""
    few, many = parameters.column_threads, parameters.kept_threads // 32
    rounds = max(power_of_two(demand.vectors) // few, 1)
    if _fits_registers(rounds * demand.words, few * 32, parameters):
        return Room(few, 1, Place.REGISTERS, rounds)
    rounds = -(-demand.vectors // many)
    exchanged = _EXCHANGED_BYTES * 32 * many
    room = parameters.shared_bytes - _STATIC_BYTES - exchanged
    fits = rounds * many * 32 * demand.bytes <= room
    return Room(many, 1, Place.SHARED, rounds) if fits else None


def block_room(
    demand: Demand, rows: int, parameters: CudaRowParameters, *, max_cluster: int, reserved: int
) -> Room | None:
    """Room in a block or a cluster; `reserved` is shared memory that the kernel uses otherwise."""
    vectors = power_of_two(demand.vectors)
    cluster = _cluster_for(vectors * demand.bytes, rows, parameters, max_cluster)
    share = max(vectors // cluster, 1)
    threads = min(power_of_two(share * demand.bytes // parameters.thread_bytes), share)
    threads = max(min(threads, parameters.kept_threads), 32)
    rounds = max(share // threads, 1)
    if _fits_registers(rounds * demand.words, threads, parameters):
        return Room(threads, cluster, Place.REGISTERS, rounds)
    rounds = -(-demand.vectors // (threads * cluster))
    exchanged = _EXCHANGED_BYTES * 2 * cluster * threads // 32
    room = parameters.shared_bytes - _STATIC_BYTES - exchanged - reserved
    fits = rounds * threads * demand.bytes <= room
    return Room(threads, cluster, Place.SHARED, rounds) if fits else None


def _fits_registers(words: int, threads: int, parameters: CudaRowParameters) -> bool:
    """Whether a thread may keep so much: a block of 1024 has half of the registers for each."""
    return words <= min(parameters.kept_words, parameters.kept_words * 512 // threads)


def _cluster_for(nbytes: int, rows: int, parameters: CudaRowParameters, most: int) -> int:
    """Blocks for a row of so many bytes; more where rows are few."""
    cluster = 1
    while cluster < most and nbytes > cluster * parameters.block_bytes:
        cluster *= 2
    while (
        cluster < most
        and rows * cluster * 2 <= parameters.multiprocessors
        and nbytes >= cluster * 2 * parameters.least_bytes
    ):
        cluster *= 2
    return cluster
