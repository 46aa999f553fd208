"""What the mappings for a processor choose by: frozen, printable, overridable."""

from __future__ import annotations

from dataclasses import dataclass

from fuser.segmenter.machine import PROCESSOR


@dataclass(frozen=True, slots=True)
class ProcessorParameters:
    """What points and rows on a processor have in common."""

    serial_work: int = 1 << 17
    """Instructions of a kernel below which starting threads costs more than it brings."""

    stream_bytes: int = 32 << 20
    """Bytes that a kernel moves, from which stores bypass the cache: benchmarks/past_cache.py."""

    chunk: int = 64
    """Elements that are computed in registers before they are stored at once, past the cache where
    that is done: a multiple of 64, whole lines of every type. Fewer in shorter rows."""

    vector: int = 16
    """Elements that are done together in short loops over narrow types, where a compiler would make
    half as wide vectors of what is left, or none."""

    short_run: int = 256
    """Elements of an innermost loop below which those that read truth values, or compute much, go
    in vectors too: masks of 7 to 60 elements a row were done one by one."""

    much_computed: int = 12
    """Statements from which that is much."""

    most_statements: int = 1000
    """The most of an iteration: more take long to compile, and are kept in no registers."""

    def __post_init__(self) -> None:
        assert self.chunk % 64 == 0


@dataclass(frozen=True, slots=True)
class CpuParameters:
    """What points are mapped by on a processor."""

    processor: ProcessorParameters = ProcessorParameters()

    # -- chunks --------------------------------------------------------------------------------

    stream_row_bytes: int = 256
    """Bytes of the shortest row that a pure copy streams as a whole."""

    least_chunks: int = 16
    """Elements for each one that may be done twice, where the last chunk is moved back."""

    # -- what is asked for ---------------------------------------------------------------------

    held_bytes: int = 4 << 20
    """The most bytes of what is read over and over, as the angles of a rotary embedding are, of
    which nothing is asked for ahead: it is in a cache by itself."""

    ahead_bytes: int = 8192
    """Bytes ahead at which rows with gaps between them are asked for."""

    # -- tiles, where memory is turned ---------------------------------------------------------

    tile_read_bytes: int = 64
    """Bytes that a tile has of each row that is read: a line of the cache."""

    tile_line_bytes: int = 256
    """Bytes that a tile has of each row that is stored: a few lines, one after the other."""

    cached_columns: int = 128
    """Elements of at most 32 bits that it has of each at least, where a cache holds what is moved:
    the processor follows stores along rows. Not past the cache, nor where the rows that are read
    lie multiples of `page_part` apart: few of their lines have room in a core's own cache then."""

    page_part: int = 2048
    """Bytes: half of those after which addresses share a set of a cache."""

    # -- pieces and short axes -----------------------------------------------------------------

    pieces: int = PROCESSOR.most_pieces
    """The most that a domain is cut into where pads and concatenations change what they read: each
    is text of its own."""

    divided_row: int = 64
    """Elements of the shortest row that is a loop of its own where a view divides the innermost
    axis and where rows begin depends on others: of shorter ones, each element is divided."""

    shared_iterations: int = 128
    """Iterations from which a loop around several pieces keeps all threads busy."""

    interleaved: int = 8
    """The most neighbouring elements that one iteration does where the innermost axes are short: a
    loop over an axis of 2 to 8 elements made no vectors."""

    turned_in_turn: int = 64
    """The most elements that one iteration does of two short axes where memory is turned: a tile of
    4 by 3, moved by 2 by 2, takes three times as long."""

    turned_line: int = 4
    """The most along the shorter of these: of 7 by 7, a tile takes two thirds as long."""

    interleaved_costly: int = 300
    """The most instructions of costly functions in them: compilers take time by the square of that,
    1 s over 16 sines, 3 s over 32, 10 s over 64; and beside these little is gained."""

    joined: int = 64
    """The most pieces that are one loop, as they read the same."""

    joined_statements: int = PROCESSOR.most_in_pieces
    """The most statements of such a loop: as many as the segmenter lets all pieces have."""

    stored_in_turn: int = 8
    """Stores of an iteration from which each is done as soon as its value is made: 64 steps of a
    filter, of which all values were held, took 1.2 times as long."""

    short_points: int = 64
    """The most elements of short axes that lanes along the axis around them do one after the other:
    what these store is in the cache until its lines are whole."""

    apart: int = 4
    """Accesses whose neighbours are more than `interleaved` elements apart, from which a loop over
    them has no lanes: compilers take seconds over vectors of such loads, as in the gradient of a
    bilinear image."""

    apart_costly: int = 16
    """The most of them beside costly functions, for which lanes gain more: over loops of 67, beside
    33 exponentials each, g++ took ten times as long as without lanes."""
