"""What the mappings for a GPU choose by: frozen, printable, overridable."""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
"""Threads of a warp, on every architecture."""

_LANE_BYTES = 32


@dataclass(frozen=True, slots=True)
class CudaParameters:
    """What points are mapped by on a GPU."""

    # -- threads and lanes ---------------------------------------------------------------------

    max_lane_bytes: int = _LANE_BYTES
    """The most bytes of one tensor that one thread holds, which limits registers."""

    threads: int = 128
    """Threads of a block."""

    # -- short axes ----------------------------------------------------------------------------

    together: int = 4
    """The most elements of innermost axes that are one point, where they are too few for a vector,
    and the most elements between what neighbouring lanes move of a run of memory."""

    loaded_bytes: int = 96
    """The most bytes that a thread loads of such points."""

    row_bytes: int = 32
    """Bytes of a short row below which a thread takes several: one does not keep memory busy."""

    row_elements: int = 16
    """The most elements of such a row."""

    own_text: int = 2
    """The longest of such rows over one axis: of longer ones, all lengths up to a power of two
    share a kernel, which has loops."""

    # -- tiles, where memory is turned ---------------------------------------------------------

    tile: int = 64
    """Elements along both sides of a tile."""

    tile_bytes: int = 36 << 10
    """The most bytes of all tiles of a block; tiles are smaller if that is more. It is declared in
    the text, of which a block may have 48 KB."""

    tile_threads: int = 256
    """Threads of a block that has tiles."""


@dataclass(frozen=True, slots=True)
class CudaRowParameters:
    """What rows and scatters are mapped by on a GPU."""

    # -- lanes of a thread ---------------------------------------------------------------------

    max_lane_bytes: int = _LANE_BYTES
    """The most bytes of one tensor that one thread holds, which limits registers."""

    scan_lanes: int = 4
    """Neighbours that a thread takes in a scan, at least: threads meet once for all of them."""

    column_scan_words: int = 64
    """Registers for the neighbours of a thread that scans a column, at most."""

    busy_bytes: int = 45 << 10
    """What each multiprocessor is to have on its way from memory."""

    # -- threads of a row ----------------------------------------------------------------------

    warp_elements: int = 1024
    """Elements of the longest row that one warp does."""

    warps: int = 4
    """Warps of a block, where each has a row."""

    # -- short rows ----------------------------------------------------------------------------

    lane_elements: int = 256
    """Elements of the longest row for which less than a warp may be enough; 0 for none."""

    lane_accesses: int = 4
    """Accesses of each lane of a short row: so many loads are on their way at once."""

    thread_elements: int = 8
    """Elements of the longest row that one thread does in any case."""

    unrolled: int = 32
    """Elements of a row that one thread does where memory is consecutive across rows: as many
    rounds are in the text, and as many registers kept."""

    crowded: int = 2
    """Rows for each thread that runs at once, from which longer rows across memory have a thread
    each, or few."""

    column_elements: int = 16
    """Elements of a column for each of its threads, if columns are many."""

    # -- long rows -----------------------------------------------------------------------------

    elements: int = 16
    """Elements of a longer row for each thread, which sets how many threads there are."""

    slot_elements: int = 4
    """As `elements`, where every element has a result."""

    slot_threads: int = 512
    """Threads of a block that does several rows, where threads keep folds over the rows in
    registers."""

    slot_words: int = 48
    """Registers that a thread keeps at most of a row and of these folds; more than `kept_words`
    only in blocks of `crowded_threads`."""

    crowded_threads: int = 768
    """Threads of a multiprocessor that keep more than `kept_words` each, all in one block."""

    threads: int = 512
    """The most threads of a row."""

    column_threads: int = 16
    """Threads of a row where memory is consecutive across rows."""

    grid_threads: int = 256
    """Threads of a block where nothing is folded."""

    # -- points, where one access a thread does not keep memory busy ---------------------------

    ahead_rounds: int = 2
    """Vectors of each thread, which are loaded before it computes."""

    ahead_threads: int = 2048
    """Threads that a multiprocessor is to run at once then, which are all there may be: `of` knows
    it for each architecture."""

    ahead_instructions: int = 60
    """Instructions for an element, at most: with more, arithmetic takes the time, not memory."""

    # -- the grid ------------------------------------------------------------------------------

    multiprocessors: int = 132
    """What the GPU has of them: `of` knows it for each architecture."""

    resident_threads: int = 1024
    """Threads that each multiprocessor is to run at once: launch bounds ask for registers by
    that."""

    resident_blocks: int = 16
    """The most blocks that each multiprocessor is to run at once."""

    split_elements: int = 8
    """Elements that each thread is left at least where a row that is swept once and folded is split
    over up to twice as many threads as run at once. One that is scanned is split over as many, if
    each is left `elements`."""

    workspace_bytes: int = 64 << 20
    """The most bytes that blocks keep of folds over the rows."""

    scalar_waves: int = 8
    """Blocks for each that runs at once, at most, where a fold over the rows is a number for all
    rows, so that more blocks cost no more memory."""

    most_blocks: int = 1 << 14
    """Blocks of the largest grid, which do several rows each."""

    # -- scatters ------------------------------------------------------------------------------

    scatter_warps: int = 8
    """Warps of a block that each have points, or elements, of their own."""

    shared_columns: int = WARP // 2
    """Columns from which a warp shares out those of its points: at least half of its threads have
    something to do. Of fewer, each thread takes an element."""

    fewest_listed_rows: int = 8
    """Rows of a warp, at least: of fewer, to ask where their lists begin takes longer than to walk
    them."""

    listed_points: int = 64
    """Points of a row that one warp adds up, at least, before others take pieces of them."""

    # -- what a row keeps between sweeps -------------------------------------------------------

    thread_bytes: int = 64
    """Bytes that each thread keeps, as long as there are fewer than `kept_threads` of them."""

    costly_thread_bytes: int = 128
    """The same, of rows of which costly functions are taken and not kept, where arithmetic takes
    about as long as memory: what threads do once a row, to join what they have, is done for more
    elements. Counted in machine code, not measured: of cross entropy of bfloat16, it was a third of
    all instructions."""

    kept_threads: int = 1024
    """The most threads of a block that keeps a row."""

    kept_words: int = 32
    """The most registers that a thread keeps, of 4 bytes each; longer rows are in shared memory."""

    column_rounds: int = 16
    """The most elements of a column that each of its threads keeps: all have addresses of their
    own, which compilers hold on to, too."""

    block_bytes: int = 32 << 10
    """Bytes that each block of a cluster keeps."""

    least_bytes: int = 8 << 10
    """As `block_bytes`, where there are fewer rows than multiprocessors: more blocks share each."""

    max_cluster: int = 8
    """The most blocks of a cluster: what runs everywhere from sm_90 on. The segmenter counts on
    twice as many for a row (`machine.GPU`)."""

    shared_bytes: int = 227 << 10
    """The most bytes of shared memory of a block: `of` knows it for each architecture."""

    @staticmethod
    def of(arch: str, multiprocessors: int | None = None) -> CudaRowParameters:
        """What an architecture, such as sm_90, has room for; a GPU of so many multiprocessors, or
        of as many as is common."""
        number = arch_number(arch)
        common, shared, threads = _ARCHITECTURES.get(number, _ANY)
        return CudaRowParameters(
            multiprocessors=multiprocessors or common,
            max_cluster=8 if number >= 90 else 1,
            shared_bytes=shared << 10,
            ahead_threads=threads,
        )

    @property
    def resident(self) -> int:
        """Threads that the GPU runs at once."""
        return self.multiprocessors * self.resident_threads

    @property
    def most_parts(self) -> int:
        """Blocks that leave a part of each fold over the rows, which one block joins at last."""
        return 2 * self.multiprocessors

    def blocks_at_once(self, threads: int, of_block: int) -> int:
        """Blocks of a multiprocessor that is to run so many threads: one at least."""
        return max(min(threads // of_block, self.resident_blocks), 1)

    def threads_for(self, extent: int, *, has_slots: bool) -> int:
        """Threads for a row of that many elements: whole warps, a power of two of them."""
        threads = self.threads
        each = self.slot_elements if has_slots else self.elements
        while threads > WARP and (threads // 2) * each >= extent:
            threads //= 2
        return threads


def arch_number(arch: str) -> int:
    """90 for sm_90 and sm_90a."""
    return int(arch.removeprefix("sm_").rstrip("af"))


def threads_at_once(arch: str) -> int:
    """The most threads that a multiprocessor of an architecture runs at once."""
    _, _, threads = _ARCHITECTURES.get(arch_number(arch), _ANY)
    return threads


_ANY = 132, 99, 1536
_ARCHITECTURES = {
    80: (108, 163, 2048),
    86: (84, 99, 1536),
    87: (16, 163, 1536),
    89: (142, 99, 1536),
    90: (132, 227, 2048),
    100: (148, 227, 2048),
    103: (148, 227, 2048),
    120: (170, 99, 1536),
}
"""Multiprocessors of the largest GPU of an architecture that is common in servers or, for want of
one, elsewhere (A100, A40, Orin, L40S, H100, B200, B300, RTX 5090), the KB of shared memory that one
block may have, and the threads that a multiprocessor runs at once. Source: NVIDIA's data sheets and
programming guide."""
