"""What the mappings choose by: frozen, printable, overridable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuser.segmenter.profit import PROCESSOR


@dataclass(frozen=True, slots=True)
class CpuParameters:
    """`serial_work`: instructions below which starting threads costs more than it brings.
    `stream_bytes`: bytes moved from which stores bypass the cache. `stream_row_bytes`: shortest row
    a pure copy streams. `chunk`: elements computed in registers before they are streamed, fewer in
    shorter rows of whole lines. `pieces`: the most that a domain is cut into where pads and
    concatenations change what they read. `interleaved`: the most neighbouring elements that one
    iteration does where the innermost axes are short. `apart`: accesses whose neighbours are
    further apart than that, from which a loop over them has no lanes. `tile_read_bytes`,
    `tile_line_bytes`: what a tile has of each row that is read, and of each that is stored.
    `vector`: elements that are done together in short innermost loops over narrow types, and in
    those of fewer than `short_run` of them that read truth values or compute much."""

    serial_work: int = 1 << 17
    stream_bytes: int = 32 << 20
    stream_row_bytes: int = 256
    chunk: int = 64
    tile_read_bytes: int = 64
    tile_line_bytes: int = 256
    pieces: int = 32
    interleaved: int = 8
    apart: int = 8
    vector: int = 16
    short_run: int = 256


@dataclass(frozen=True, slots=True)
class CpuRowParameters:
    """`serial_work`: as above. `lanes`: elements of a row that are folded side by side; fewer in
    short rows. `strip`: the most neighbouring rows that are folded side by side, `unrolled`
    elements of each at a time, in blocks of `strip_block`. `few_rows`: rows below which each is
    shared out over the threads. `row_block`, `block`: rows, and elements of a row in runs of at
    least `long_run`, that are folded in their own type before they are joined to a wider one.
    `online_bytes`: rows from which exponentials are summed while the largest element is still being
    found, block by block of `online_block` elements: those that do not stay in a core's own cache.
    `scanned_block`: elements of a row that a thread scans before it meets the others; they should
    stay in its cache. `kept_bytes`: the most that is kept of one row between sweeps, on the stack.
    `chunk`: as above, in runs of at least `chunked_run`, or `narrow_run` if all that is stored
    has 8 or 16 bits. `stream_bytes`: as above. `ahead_bytes`: how far ahead rows are asked for, at
    least one row; `ahead_from_bytes`: the least memory that is summed before what comes soon is
    asked for. `batch`: neighbouring rows that are done stage by stage if they have up to
    `batched_row` elements, swept twice or with `batched_work` instructions once a row, and
    `work_of_byte` for every byte in all; of `least_batches` rows one may be done twice.
    `whole_row`: the most elements of a row that one lane does, `whole_rows`: how many neighbouring
    rows that takes. Neighbouring rows between
    `fewest_columns` and `most_columns`, of `fewest_lines` elements or more, are columns of lines,
    which are done one by one if they have `wide_line` of them. Pieces of rows that are not
    `shortest_piece` long, but with those of other rows beside them are, are columns. Rows are done
    in parts, where pads and concatenations begin and end, of `shortest_part` at least. Where
    elements of a row are `line_bytes` or more apart in a tensor, up to `tile_rows` beside it, a
    power of two, are done together, up to `tile_elements` of each, if that makes the
    `smallest_tile` at least and there are no more than `most_places` rows. `vector`, `short_run`:
    as above."""

    serial_work: int = 1 << 17
    lanes: int = 64
    strip: int = 2048
    unrolled: int = 16
    strip_block: int = 64
    few_rows: int = 8
    row_block: int = 32
    block: int = 1 << 11
    online_bytes: int = 3 << 16
    online_block: int = 1 << 13
    scanned_block: int = 1 << 16
    long_run: int = 1 << 10
    kept_bytes: int = 1 << 19
    chunk: int = 64
    chunked_run: int = 512
    narrow_run: int = 257
    stream_bytes: int = 32 << 20
    ahead_bytes: int = 4096
    ahead_from_bytes: int = 48 << 20
    batch: int = 16
    batched_row: int = 256
    batched_work: int = 8
    work_of_byte: float = 0.33
    least_batches: int = 8
    whole_row: int = 8
    whole_rows: int = 16
    fewest_columns: int = 16
    most_columns: int = 1 << 11
    wide_line: int = 48
    fewest_lines: int = 1024
    shortest_piece: int = 64
    shortest_part: int = PROCESSOR.shortest_part
    line_bytes: int = 64
    tile_rows: int = 16
    tile_elements: int = 256
    smallest_tile: int = 1024
    most_places: int = 1 << 16
    vector: int = 16
    short_run: int = 256

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
            if lanes <= self.vector:
                return (1 + arrays) * lanes <= extent
            return 4 * lanes <= extent and lanes // 2 * arrays * lanes <= points * (1 + narrow)

        lanes = self.lanes
        while lanes > 4 and not enough(lanes):
            lanes //= 2
        return lanes


@dataclass(frozen=True, slots=True)
class CudaParameters:
    """`vector_bytes`: the widest access aimed at. `max_lane_bytes`: the most bytes of one tensor
    that one thread holds. `threads`: threads a block. `tile`: elements along both sides of a tile;
    fewer if all tiles of a block are more than `tile_bytes`. `tile_threads`: threads for it."""

    vector_bytes: int = 16
    max_lane_bytes: int = 32
    threads: int = 128
    tile: int = 64
    tile_bytes: int = 36 << 10
    tile_threads: int = 256


def block_shape(
    extents: Sequence[int], lanes: int, parameters: CudaParameters
) -> tuple[int, int, int]:
    """Threads along the innermost axis and along the next, wasting as few as possible.

    The x size is a power of two, whole warps where the axis is long enough; the y size fills the
    block, adjusted to divide its axis where a size between half and full does.
    """
    if not extents:
        return (1, 1, 1)
    across = -(-extents[-1] // lanes)
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
    rounded = -(-extent // size) * size
    return (rounded - extent) / max(rounded, 1)


@dataclass(frozen=True, slots=True)
class CudaRowParameters:
    """`vector_bytes`, `max_lane_bytes`: as above. `scan_lanes`: neighbours that a thread takes in
    a scan, at least. `warp_elements`: the longest row that one warp does, `warps` of them a block.
    `elements`: of a longer row for each thread, up to `threads` of them; `slot_elements`
    where every element has a result. `column_threads`: threads for a row where memory is
    consecutive across rows. `grid_threads`: threads a block where nothing is folded.
    `multiprocessors`: what the GPU has of them; each is to run `resident_threads` at once, in up to
    `resident_blocks` blocks. A row that is swept once and folded is split over twice as many
    threads as that, if each is left `split_elements`, and one that is scanned over as many, if each
    is left `elements`. `workspace_bytes`: the most that blocks keep of folds over the rows; where
    that is a number for all rows, blocks are up to `scalar_waves` times as many as run at once.
    `most_blocks`: the largest grid; its blocks do several rows each.

    Of what a row keeps between sweeps: `thread_bytes` for each thread, up to `kept_threads` of
    them, then more, up to `kept_words` registers. `block_bytes`: for each block of a cluster, which
    has up to `max_cluster` of them; down to `least_bytes` where there are fewer rows than
    multiprocessors. `shared_bytes`: the most shared memory of a block."""

    vector_bytes: int = 16
    max_lane_bytes: int = 32
    scan_lanes: int = 4
    warp_elements: int = 1024
    warps: int = 4
    elements: int = 16
    slot_elements: int = 4
    threads: int = 512
    column_threads: int = 16
    grid_threads: int = 256
    multiprocessors: int = 132
    resident_threads: int = 1024
    resident_blocks: int = 16
    split_elements: int = 8
    workspace_bytes: int = 64 << 20
    scalar_waves: int = 8
    most_blocks: int = 1 << 14
    kept_words: int = 32
    thread_bytes: int = 64
    kept_threads: int = 1024
    block_bytes: int = 32 << 10
    least_bytes: int = 8 << 10
    max_cluster: int = 8
    shared_bytes: int = 227 << 10

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
