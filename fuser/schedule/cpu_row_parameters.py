"""What the mappings of rows and scatters to a processor choose by: frozen, printable,
overridable."""

from __future__ import annotations

from dataclasses import dataclass, field

from fuser.schedule.cpu_parameters import ProcessorParameters
from fuser.segmenter.machine import PROCESSOR


@dataclass(frozen=True, slots=True)
class CpuRowParameters:
    """What rows and scatters are mapped by on a processor."""

    processor: ProcessorParameters = field(default_factory=ProcessorParameters)

    # -- lanes along a row ---------------------------------------------------------------------

    lanes: int = 64
    """Elements of a row that are folded side by side; fewer in short rows."""

    drawn_lanes: int = 32
    """The fewest of which some are drawn: the widest vector has 8 blocks of 4 random numbers. Rows
    of twice as many elements have so many."""

    chunked_run: int = 512
    """Elements of a row from which what is stored goes by chunks: those of one, or more."""

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

    strip_bytes: int = PROCESSOR.cache_bytes
    """The most bytes of a strip that several sweeps read: they should stay in a core's own cache.
    The gradient of a norm of 96 channels takes 0.93 of the time."""

    shortest_strip: int = PROCESSOR.rows_of_a_strip
    """Rows from which strips are no shorter for that: they would be short pieces of memory. If
    these do not stay in the cache either, strips are long."""

    unrolled: int = 16
    """Elements of each row of a strip that one round of its loop folds: lanes are read and written
    once a round."""

    unrolled_costly: int = 4
    """The same where an element takes a costly function, beside which that is little: a compiler
    takes half as long."""

    unrolled_online: int = 8
    """The same where the largest of them is found first, and sums of powers less an earlier largest
    are scaled, once a round."""

    short_strip: int = 256
    """Rows of a strip below which their elements are few lines of memory, which come in order
    rather than `unrolled` at a time, and below which whole vectors of them have a kernel for their
    number: averages over the pixels of channels last."""

    unrolled_short: int = 2
    """As `unrolled`, of such strips."""

    strip_block: int = 64
    """As `block`, of each row of a strip."""

    row_block: int = 32
    """As `block`, of rows that are folded into each other."""

    # -- what is kept and asked for ------------------------------------------------------------

    kept_bytes: int = PROCESSOR.kept_row
    """The most bytes that are kept of one row between sweeps: they are on a thread's stack."""

    cached_bytes: int = 3 << 18
    """The most bytes of a row, as it is read and as it is kept, for which a core's own cache has
    room: softmax of [128, 131072] float32 takes 0.93 of the time if it keeps nothing."""

    ahead_bytes: int = 4096
    """Bytes ahead of a sweep at which memory is asked for; at least one row."""

    later_from_bytes: int = 0
    """The least bytes of all rows from which a later one is asked for, if it has no more than
    `ahead_bytes`; longer ones always are: to decide it costs them a twenty-fifth."""

    ahead_from_bytes: int = 48 << 20
    """The least bytes that are summed in all, from which what comes soon is asked for."""

    # -- long rows -----------------------------------------------------------------------------

    online_bytes: int = 3 << 16
    """Bytes of a row from which exponentials are summed while the largest element is still being
    found, since it does not stay in a core's own cache for a second sweep: cross entropy forward of
    [128, 128256] float32 takes 0.9 of the time."""

    online_block: int = 1 << 13
    """Elements of a block of such a row: its second sweep finds them in the cache."""

    scanned_bytes: int = 1 << 19
    """Bytes of a row, or of rows side by side, that a thread scans before it meets the others: they
    should stay in its cache, as they are read twice."""

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

    work_of_join: int = 20
    """Instructions for which the lanes of a fold are joined, roughly."""

    work_of_byte_float: int = 16
    """Instructions for which a float of 8 bits is rounded to or widened, roughly."""

    least_batches: int = 8
    """Rows for each one that may be done twice, where the last batch is moved back."""

    interleaved: int = 4
    """The most elements of a row's innermost axis that are done one after the other, with lanes
    along the next: those of windows, of which a vector has several."""

    interleaved_statements: int = 400
    """The most statements that this may make of a sweep."""

    row_in_text: int = 128
    """The most elements of rows whose length is a number of the kernel's text where a definition
    has one size: layer norms of 16 and of 32 elements take 0.67 and 0.84 of the time."""

    # -- rows that one lane does ---------------------------------------------------------------

    whole_row: int = 15
    """The most elements of a row that one lane does in turn: fewer than a vector has lanes."""

    surely_whole_row: int = PROCESSOR.few_columns
    """The most that one does whatever it takes, also of rows that fold into each other: as many as
    the segmenter counts on."""

    moved_alone: float = 2.5
    """Instructions to move an element by itself, to a lane or from it: softmax of 9 elements takes
    half the time by lanes of its own, its gradient twice the time."""

    whole_matrix: int = 16
    """The most elements of short rows that lie between others, which one lane does together, and
    how far apart neighbouring ones may be: of matrices of 3 by 3, one row after the other takes two
    to four times as long."""

    whole_window: int = 32
    """As `whole_row`, where a row is swept along several short axes: of windows of 3 by 3, lanes
    along the 3 took 30 times as long."""

    whole_rows: int = 16
    """How many neighbouring rows that takes: they are in its vectors' other lanes."""

    # -- columns of lines ----------------------------------------------------------------------

    most_columns: int = 1 << 14
    """Neighbouring rows up to which they are columns, whose memory goes line by line: a strip of
    them reads a short piece of every line, and stores one beside which another thread stores
    (`benchmarks/columns.py`). So many places take 64 KiB of float32."""

    fewest_lines: int = 1024
    """Elements of each row, that is, lines, from which they are columns."""

    most_scanned_columns: int = 1 << 11
    """As `most_columns`, of rows that are scanned: a core's own cache has room for a few of longer
    lines only, and strips of them are long pieces."""

    fewest_scanned_lines: int = 64
    """As `fewest_lines`, of rows that are scanned."""

    wide_line: int = 64
    """Columns from which lines that store, or that take costly functions, are loops of their own
    rather than folded in blocks, and strips have any number of rows but `short_strip`. Fewer are
    done by a kernel for their number, which holds them in registers (`benchmarks/columns.py`)."""

    shortest_piece: int = PROCESSOR.shortest_piece
    """Elements of a piece of a row, from which it is a row of its own. Shorter ones that are as
    long with those of other rows beside them are columns: group norms with channels last."""

    # -- scatters ------------------------------------------------------------------------------

    placed_in_lanes: int = 6
    """Instructions from which what a point adds is made for several side by side, before they are
    placed one after the other."""

    indexed_in_lanes: int = 2
    """Instructions from which their places are, too."""

    most_numbered: int = 8
    """The most parts of a row's points that differ in what they read: each is a branch with a loop
    of its own."""

    columns_in_turn: int = 256
    """Columns that a thread takes at a time, where it walks all points for them."""

    points_ahead_bytes: int = 1 << 13
    """Bytes ahead at which the elements of points are asked for; at least one point."""

    asked_columns: int = 64
    """The most columns of a later point that are asked for at once. All of a row at once would fill
    the queue to memory, and what is needed now would wait behind it."""

    # -- parts of rows -------------------------------------------------------------------------

    shortest_part: int = PROCESSOR.shortest_part
    """Elements of the shortest part of a row that is swept by itself, between where pads and
    concatenations begin and end: as the segmenter counts on."""

    most_pieces: int = 4
    """The most pieces that rows are cut into where pads and concatenations change what they read:
    threads wait for each other after each of them."""

    # -- tiles of rows -------------------------------------------------------------------------

    line_bytes: int = 64
    """Bytes between neighbouring elements of a row in a tensor, from which each is on a cache line
    of its own, so that rows beside each other are done together: gradients of scales with channels
    last."""

    tile_rows: int = 16
    """The most rows of a tile, a power of two: a line of the cache of float32."""

    tile_elements: int = 256
    """The most elements of each row of a tile."""

    fewest_turned: int = 4
    """Rows of a tile from which reading it as blocks of vectors pays."""

    smallest_tile: int = 512
    """The fewest elements of a tile that are worth its turning."""

    whole_tile: int = 2048
    """The most elements of rows that a tile has as a whole, for several sweeps."""

    most_places: int = 1 << 16
    """The most rows, which fold into as many places if tiles come in the order of memory."""

    def __post_init__(self) -> None:
        assert min(self.chunked_run, self.narrow_run) >= self.processor.chunk
