"""What the mappings choose by: frozen, printable, overridable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuser.schedule.counts import ceil_div
from fuser.segmenter.profit import PROCESSOR


@dataclass(frozen=True, slots=True)
class ProcessorParameters:
    """What points and rows on a processor have in common."""

    serial_work: int = 1 << 17
    """Instructions of a kernel below which starting threads costs more than it brings."""

    stream_bytes: int = 32 << 20
    """Bytes that a kernel moves, from which stores bypass the cache: benchmarks/past_cache.py."""

    chunk: int = 64
    """Elements that are computed in registers before they are stored at once, past the cache where
    that is done: whole lines of every type. Fewer in shorter rows of whole lines."""

    vector: int = 16
    """Elements that are done together in short loops over narrow types, where a compiler would make
    half as wide vectors of what is left, or none."""

    short_run: int = 256
    """Elements of an innermost loop below which those that read truth values, or compute much, go
    in vectors too: masks of 7 to 60 elements a row were done one by one."""


@dataclass(frozen=True, slots=True)
class CpuParameters:
    """What points are mapped by on a processor."""

    processor: ProcessorParameters = ProcessorParameters()

    # -- rows that are copied ------------------------------------------------------------------

    stream_row_bytes: int = 256
    """Bytes of the shortest row that a pure copy streams as a whole."""

    # -- tiles, where memory is turned ---------------------------------------------------------

    tile_read_bytes: int = 64
    """Bytes that a tile has of each row that is read: a line of the cache."""

    tile_line_bytes: int = 256
    """Bytes that a tile has of each row that is stored: a few lines, which come one after the
    other."""

    # -- pieces and short axes -----------------------------------------------------------------

    pieces: int = 32
    """The most that a domain is cut into where pads and concatenations change what they read: each
    is text of its own."""

    interleaved: int = 8
    """The most neighbouring elements that one iteration does where the innermost axes are short: a
    loop over an axis of 2 to 8 elements made no vectors."""

    apart: int = 4
    """Accesses whose neighbours are more than `interleaved` elements apart, from which a loop over
    them has no lanes: compilers take seconds over vectors of such loads, as in the gradient of a
    bilinear image."""


@dataclass(frozen=True, slots=True)
class CpuRowParameters:
    """What rows and scatters are mapped by on a processor."""

    processor: ProcessorParameters = ProcessorParameters()

    # -- lanes along a row ---------------------------------------------------------------------

    lanes: int = 64
    """Elements of a row that are folded side by side; fewer in short rows, see `lanes_for`."""

    chunked_run: int = 512
    """Elements of a row from which what is stored goes by chunks."""

    narrow_run: int = 257
    """As `chunked_run`, if all that is stored has 8 or 16 bits; rows of up to 256 are done in
    batches."""

    block: int = 1 << 11
    """Elements of a row that are folded in their own type before they are joined to a wider one."""

    long_run: int = 1 << 10
    """Elements of an innermost loop from which rows are folded by blocks."""

    few_rows: int = 8
    """Rows below which each of them is shared out over the threads."""

    # -- lanes across rows ---------------------------------------------------------------------

    strip: int = 2048
    """The most neighbouring rows that are folded side by side."""

    strip_bytes: int = 1 << 19
    """The most bytes of a strip that several sweeps read, if it has more than `shortest_strip`
    rows: they should stay in a core's own cache. The gradient of a norm of 96 channels takes 0.93
    of the time."""

    shortest_strip: int = 256
    """Rows from which strips are no shorter for that: they would be short pieces of memory."""

    unrolled: int = 16
    """Elements of each row of a strip that one round of its loop folds."""

    strip_block: int = 64
    """Elements of each row of a strip that are folded in their own type before they are joined to a
    wider one."""

    row_block: int = 32
    """Rows that are folded into each other in their own type before they are joined to a wider
    one."""

    # -- what is kept and asked for ------------------------------------------------------------

    kept_bytes: int = 1 << 19
    """The most bytes that are kept of one row between sweeps: they are on a thread's stack."""

    ahead_bytes: int = 4096
    """Bytes ahead of a sweep at which memory is asked for; at least one row."""

    ahead_from_bytes: int = 48 << 20
    """The least bytes that are summed in all, from which what comes soon is asked for."""

    # -- long rows -----------------------------------------------------------------------------

    online_bytes: int = 3 << 16
    """Bytes of a row from which exponentials are summed while the largest element is still being
    found, since it does not stay in a core's own cache for a second sweep: cross entropy forward of
    [128, 128256] float32 takes 0.9 of the time."""

    online_block: int = 1 << 13
    """Elements of a block of such a row: its second sweep finds them in the cache."""

    scanned_block: int = 1 << 16
    """Elements of a row that a thread scans before it meets the others: they should stay in its
    cache."""

    # -- batches of short rows -----------------------------------------------------------------

    batch: int = 16
    """Neighbouring rows that are done stage by stage, so that their lanes are joined together:
    softmax of bfloat16 rows of 49 to 256 elements is 1.4 to 2.1 times as fast."""

    batched_row: int = 256
    """The most elements of such a row."""

    batched_work: int = 8
    """Instructions once a row from which rows that are swept once are batched too."""

    work_of_byte: float = 0.33
    """The least instructions for every byte that is moved: rows whose memory takes longer would
    wait for it in batches."""

    least_batches: int = 8
    """Rows for each one that may be done twice, where the last batch is moved back."""

    # -- rows that one lane does ---------------------------------------------------------------

    whole_row: int = PROCESSOR.few_columns
    """The most elements of a row that one lane does, one after the other: as many as the segmenter
    counts on."""

    whole_rows: int = 16
    """How many neighbouring rows that takes: they are in its vectors' other lanes."""

    # -- columns of lines ----------------------------------------------------------------------

    fewest_columns: int = 16
    """Neighbouring rows from which they are columns, whose memory goes line by line: a strip of a
    few hundred rows reads a short piece of every line. Softmax over the first of [25088, 256] was
    slower than torch's."""

    most_columns: int = 1 << 11
    """Neighbouring rows up to which they are columns: from there, strips are as long."""

    fewest_lines: int = 1024
    """Elements of each row, that is, lines, from which they are columns."""

    wide_line: int = 48
    """Columns from which lines are done one by one, rather than in blocks of several."""

    shortest_piece: int = 64
    """Elements of a piece of a row, from which it is a row of its own. Shorter ones that are as
    long with those of other rows beside them are columns: group norms with channels last."""

    # -- parts of rows -------------------------------------------------------------------------

    shortest_part: int = PROCESSOR.shortest_part
    """Elements of the shortest part of a row that is swept by itself, between where pads and
    concatenations begin and end: as the segmenter counts on."""

    # -- tiles of rows -------------------------------------------------------------------------

    line_bytes: int = 64
    """Bytes between neighbouring elements of a row in a tensor, from which each is on a cache line
    of its own, so that rows beside each other are done together: gradients of scales with channels
    last."""

    tile_rows: int = 16
    """The most rows of a tile, a power of two: a line of the cache of float32."""

    tile_elements: int = 256
    """The most elements of each row of a tile."""

    smallest_tile: int = 1024
    """The fewest elements of a tile that are worth its turning."""

    most_places: int = 1 << 16
    """The most rows, which fold into as many places if tiles come in the order of memory."""

    def lanes_for(
        self, extent: int, arrays: int = 1, joined: int | None = None, *, narrow: bool = False
    ) -> int:
        """Lanes along so many elements, of each of some arrays: joining them, once in `joined`
        points, should cost little beside these, of which `narrow` ones cost more when there are few
        lanes. Without arrays, as many as there are elements."""
        points = extent if joined is None else joined

        def enough(lanes: int) -> bool:
            if not arrays or lanes <= 8:
                return lanes <= extent
            if lanes <= self.processor.vector:
                return (1 + arrays) * lanes <= extent
            return 4 * lanes <= extent and lanes // 2 * arrays * lanes <= points * (1 + narrow)

        lanes = self.lanes
        while lanes > 4 and not enough(lanes):
            lanes //= 2
        return lanes


@dataclass(frozen=True, slots=True)
class CudaParameters:
    """What points are mapped by on a GPU."""

    # -- threads and lanes ---------------------------------------------------------------------

    vector_bytes: int = 16
    """Bytes of the widest access aimed at."""

    max_lane_bytes: int = 32
    """The most bytes of one tensor that one thread holds, which limits registers."""

    threads: int = 128
    """Threads of a block."""

    # -- tiles, where memory is turned ---------------------------------------------------------

    tile: int = 64
    """Elements along both sides of a tile."""

    tile_bytes: int = 36 << 10
    """The most bytes of all tiles of a block; tiles are smaller if that is more. It is declared in
    the text, of which a block may have 48 KB."""

    tile_threads: int = 256
    """Threads of a block that has tiles."""


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
    x = 1
    while x < min(across, parameters.threads):
        x *= 2
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


@dataclass(frozen=True, slots=True)
class CudaRowParameters:
    """What rows and scatters are mapped by on a GPU."""

    # -- lanes of a thread ---------------------------------------------------------------------

    vector_bytes: int = 16
    """Bytes of the widest access aimed at."""

    max_lane_bytes: int = 32
    """The most bytes of one tensor that one thread holds, which limits registers."""

    scan_lanes: int = 4
    """Neighbours that a thread takes in a scan, at least: threads meet once for all of them."""

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

    # -- what a row keeps between sweeps -------------------------------------------------------

    thread_bytes: int = 64
    """Bytes that each thread keeps, as long as there are fewer than `kept_threads` of them."""

    kept_threads: int = 1024
    """The most threads of a block that keeps a row."""

    kept_words: int = 32
    """The most registers that a thread keeps, of 4 bytes each; longer rows are in shared memory."""

    block_bytes: int = 32 << 10
    """Bytes that each block of a cluster keeps."""

    least_bytes: int = 8 << 10
    """As `block_bytes`, where there are fewer rows than multiprocessors: more blocks share each."""

    max_cluster: int = 8
    """The most blocks of a cluster: what runs everywhere from sm_90 on."""

    shared_bytes: int = 227 << 10
    """The most bytes of shared memory of a block: `of` knows it for each architecture."""

    @staticmethod
    def of(arch: str, multiprocessors: int | None = None) -> CudaRowParameters:
        """What an architecture, such as sm_90, has room for; a GPU of so many multiprocessors, or
        of as many as is common."""
        number = arch_number(arch)
        common, shared = _ARCHITECTURES.get(number, (132, 99))
        return CudaRowParameters(
            multiprocessors=multiprocessors or common,
            max_cluster=8 if number >= 90 else 1,
            shared_bytes=shared << 10,
        )

    @property
    def resident(self) -> int:
        """Threads that the GPU runs at once."""
        return self.multiprocessors * self.resident_threads

    @property
    def most_parts(self) -> int:
        """Blocks that leave a part of each fold over the rows, which one block joins at last."""
        return 2 * self.multiprocessors

    def threads_for(self, extent: int, *, has_slots: bool) -> int:
        """Threads for a row of that many elements: whole warps, a power of two of them."""
        threads = self.threads
        each = self.slot_elements if has_slots else self.elements
        while threads > 32 and (threads // 2) * each >= extent:
            threads //= 2
        return threads


Parameters = CpuParameters | CpuRowParameters | CudaParameters | CudaRowParameters
"""What any mapping chooses by."""


def arch_number(arch: str) -> int:
    """90 for sm_90 and sm_90a."""
    return int(arch.removeprefix("sm_").rstrip("af"))


_ARCHITECTURES = {
    80: (108, 163),
    86: (84, 99),
    87: (16, 163),
    89: (142, 99),
    90: (132, 227),
    100: (148, 227),
    103: (148, 227),
    120: (170, 99),
}
"""Multiprocessors of the largest GPU of an architecture that is common in servers or, for want of
one, elsewhere (A100, A40, Orin, L40S, H100, B200, B300, RTX 5090), and the KB of shared memory
that one block may have. Source: NVIDIA's data sheets and programming guide."""
