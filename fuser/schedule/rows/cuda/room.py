"""How many threads share a row, and where they keep what is loaded of it.

    registers    a few words a thread: the text has as many rounds as a thread has vectors
    shared       longer rows, as far as a block has memory
    cluster      rows of many bytes, and few rows: the blocks of a cluster keep a part each
    nowhere      every sweep loads again

All that the text depends on follows from the row's length rounded up to a power of two.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuser.schedule.cuda_parameters import WARP, CudaRowParameters
from fuser.schedule.tree.counts import ceil_div, power_of_two
from fuser.schedule.tree.row_statements import Place

_STATIC_BYTES = (1 << 10) + 128
"""Shared memory that images from sm_90 on declare for the system, and what a kernel declares, at
most, beside what is named here: a truth value, the barriers of a cluster."""

_EXCHANGED_BYTES = 8
"""Of a value that a thread, or a warp, hands to others."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What rows want to keep: of each of `vectors`, `lanes` elements of every one of `sizes`, of
    which `drawn` bytes come from no memory."""

    vectors: int
    lanes: int
    sizes: tuple[int, ...]
    drawn: int = 0

    @property
    def bytes(self) -> int:
        """Of a vector."""
        return self.lanes * sum(self.sizes)

    @property
    def loaded(self) -> int:
        """Bytes of a vector that come from memory; all, if none do."""
        return self.bytes - self.lanes * self.drawn or self.bytes

    def rounds(self, threads: int) -> int:
        """Vectors of each of so many threads; as many as in rows up to a power of two longer."""
        return max(power_of_two(self.vectors) // threads, 1)

    @property
    def words(self) -> int:
        """Registers for a vector: a lone element takes a whole one."""
        return sum(max(ceil_div(self.lanes * size, 4), 1) for size in self.sizes)


@dataclass(frozen=True, slots=True)
class Room:
    """The threads of a block, the blocks of a cluster that share a row, and where they keep it."""

    threads: int
    cluster: int
    place: Place
    rounds: int


def warp_room(demand: Demand, parameters: CudaRowParameters, lanes: int = WARP) -> Room | None:
    """Room in the registers of a warp, or of some of its lanes."""
    rounds = demand.rounds(lanes)
    fits = fits_registers(rounds * demand.words, lanes, parameters)
    return Room(lanes, 1, Place.REGISTERS, rounds) if fits else None


def words_with_slots(demand: Demand, slot_bytes: int) -> int:
    """Registers for a vector and its slots of folds over the rows."""
    return demand.words + ceil_div(slot_bytes, 4)


def slot_room(
    demand: Demand, slot_bytes: int, parameters: CudaRowParameters, most: int
) -> Room | None:
    """Room in up to `most` registers for what a block keeps of a row, and for its slots of folds
    over the rows, those of each vector. More than `kept_words` only while a few teams fill a
    multiprocessor."""
    vectors = power_of_two(demand.vectors)
    words = words_with_slots(demand, slot_bytes)
    most_threads = max(min(vectors, parameters.kept_threads), WARP)

    def fits(threads: int) -> bool:
        several = threads * 3 <= parameters.crowded_threads
        return vectors // threads * words <= (most if several else parameters.kept_words)

    wanted = vectors * (demand.bytes or slot_bytes) // parameters.thread_bytes
    threads = max(min(power_of_two(wanted), most_threads), WARP)
    while threads < most_threads and not fits(threads):
        threads *= 2
    fitting = words <= parameters.kept_words and fits(threads)
    return Room(threads, 1, Place.REGISTERS, demand.rounds(threads)) if fitting else None


def column_room(demand: Demand, parameters: CudaRowParameters, fewest: int) -> Room | None:
    """Room for 32 neighbouring columns: the `fewest` threads for each, which exchange less, or more
    up to `column_threads`; many where they share memory."""
    few, many = fewest, parameters.kept_threads // WARP
    while few < parameters.column_threads and not _fits_column(demand, few, parameters):
        few *= 2
    for threads in (few, many):
        if _fits_column(demand, threads, parameters):
            return Room(threads, 1, Place.REGISTERS, demand.rounds(threads))
    rounds = ceil_div(demand.vectors, many)
    exchanged = _EXCHANGED_BYTES * WARP * many
    room = parameters.shared_bytes - _STATIC_BYTES - exchanged
    fits = rounds * many * WARP * demand.bytes <= room
    return Room(many, 1, Place.SHARED, rounds) if fits else None


def column_slot_room(demand: Demand, slot_bytes: int, parameters: CudaRowParameters) -> Room | None:
    """Room in registers for what 32 neighbouring columns keep, and for their slots of folds over
    the rows, those of each vector."""
    words = words_with_slots(demand, slot_bytes)
    for threads in (parameters.column_threads, parameters.kept_threads // WARP):
        rounds = demand.rounds(threads)
        if rounds * words <= parameters.kept_words and rounds <= parameters.column_rounds:
            return Room(threads, 1, Place.REGISTERS, rounds)
    return None


def _fits_column(demand: Demand, threads: int, parameters: CudaRowParameters) -> bool:
    """Whether so many threads keep a column in their registers."""
    rounds = demand.rounds(threads)
    fits = fits_registers(rounds * demand.words, threads * WARP, parameters)
    return fits and rounds <= parameters.column_rounds


def block_room(
    demand: Demand,
    rows: int,
    parameters: CudaRowParameters,
    *,
    max_cluster: int,
    reserved: int,
    dense: bool,
    costly: bool = False,
    keeps_values: bool = False,
) -> Room | None:
    """Room in a block or a cluster; `reserved` is shared memory that the kernel uses otherwise. If
    `dense`, threads have all of their registers for this, so that there may be fewer of them. If
    `costly`, functions are taken of the elements, whose values registers keep, too, where one block
    has a row, if it `keeps_values`."""
    vectors = power_of_two(demand.vectors)
    cluster = _cluster_for(vectors * demand.loaded, rows, parameters, max_cluster)
    share = max(vectors // cluster, 1)
    longer = costly and not (keeps_values and cluster == 1)
    of_thread = parameters.costly_thread_bytes if longer else parameters.thread_bytes
    threads = min(power_of_two(share * demand.loaded // of_thread), share)
    most, words = min(share, parameters.kept_threads), parameters.kept_words
    while demand.drawn and threads < most and share // threads * demand.words > words:
        threads *= 2  # what is drawn takes registers, too
    threads = max(min(threads, parameters.kept_threads), WARP)
    threads = _at_once(threads, share, demand, parameters) if dense else threads
    rounds = max(share // threads, 1)
    if fits_registers(rounds * demand.words, threads, parameters):
        return Room(threads, cluster, Place.REGISTERS, rounds)
    rounds = ceil_div(demand.vectors, threads * cluster)
    exchanged = _EXCHANGED_BYTES * (2 * cluster + 1) * threads // WARP
    room = parameters.shared_bytes - _STATIC_BYTES - exchanged - reserved
    fits = rounds * threads * demand.bytes <= room
    return Room(threads, cluster, Place.SHARED, rounds) if fits else None


def _at_once(threads: int, share: int, demand: Demand, parameters: CudaRowParameters) -> int:
    """Half as many threads, if they keep so many vectors, where a block would else be alone on a
    multiprocessor: two load while the threads of another wait for each other."""
    few = max(threads // 2, WARP)
    alone = threads > parameters.resident_threads // 2
    fits = alone and fits_registers(share // few * demand.words, few, parameters)
    return few if fits else threads


def fits_registers(words: int, threads: int, parameters: CudaRowParameters) -> bool:
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
