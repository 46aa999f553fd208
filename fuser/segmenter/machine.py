"""The machines that are decided for: what a kernel costs on one, in bytes of its memory."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

WIDE = 3
"""A vector has half as many numbers of 64 bits, and takes several instructions to convert them."""

MOST_PARTS = 4
"""Parts of a row that are swept one after the other; more would be too much text."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one kernel may read and hold."""

    tensors: int
    """Tensors it reads and stores: more make its parameter block large."""

    live: int
    """Values at a time: more do not fit the registers."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a division into kernels depends on."""

    launch_bytes: int
    """A kernel launch in bytes: what the memory moves meanwhile."""

    operations_per_byte: int
    """Arithmetic done while one byte is moved, less what address arithmetic takes."""

    hidden: int
    """How many times less arithmetic counts that is repeated while the memory is waited for.
    Chosen, not measured: it is to decide only where about as many bytes are moved."""

    busy_processors: int
    """Processors that together move what the memory can. Chosen, not measured."""

    processors_of_a_row: int
    """Those that can share a row which is swept more than once, and kept."""

    busy_rows: int
    """Rows that no processors share, of one each, that together move what the memory can. Chosen,
    not measured."""

    columns_of_a_processor: int = 1
    """Rows that one does side by side where neighbours in memory are neighbouring rows: columns."""

    busy_columns: int = 1
    """As `busy_rows`, of columns: of a vector in memory, each has an element."""

    rows_at_once: int = 1
    """Rows of one processor each, or groups of columns, that are at work at a time."""

    rows_of_a_strip: int = 1
    """Columns of a strip, of which one processor sweeps them side by side."""

    cache_bytes: int = 1 << 62
    """What of rows at work a cache holds from one sweep to the next. More is read from memory
    again."""

    shortest_piece: int = 1
    """Elements of a piece of a row, from which rows that alternate in memory, a piece of each after
    the other, are swept one by one. Shorter ones are columns."""

    of_rows: Limits = Limits(tensors=48, live=64)
    """What a kernel may hold that folds rows."""

    of_points: Limits = Limits(tensors=48, live=64)
    """What one of points may."""

    most_operations: int = 1024
    """Operations of one kernel, as `size_in_text` counts them: more take long to compile, and no
    longer fit the instruction cache."""

    folds_in_strips: bool = False
    """Whether neighbouring columns are folded side by side, in the order of memory."""

    chosen_in_rows: int = 2
    """Instructions for an element, in a row, that is read from one of several tensors, or not at
    all: which of them is decided for each, where domains of points are cut into pieces."""

    shortest_part: int = 1 << 62
    """Elements from which a part of a row that is read from one tensor is swept by itself, at no
    such cost."""

    cuts: bool = False
    """Whether a domain of points is cut into pieces where pads and concatenations change what they
    read: else all that is read is looked for at clamped indices."""

    most_pieces: int = 1 << 62
    """The most of them: with more, all is looked for at clamped indices there too."""

    most_in_pieces: int = 1 << 62
    """Operations of all pieces together, each as often as it stands in the text."""

    most_costly_in_pieces: int = 1 << 62
    """Instructions of their costly functions, over which compilers take time by the square: 9 s for
    162 exponentials in a loop."""

    most_loads_in_pieces: int = 1 << 62
    """Loads of all pieces together, each of which may have an argument of its own."""

    functions: int = 1
    """How many times longer costly functions take than their instructions, where they are done more
    often than there are elements: once for each, memory is waited for meanwhile."""

    lanes: int = 1
    """Numbers of which a vector takes as long as one alone."""

    wide: int = WIDE
    """How many times longer costly functions take of float64 than of float32."""

    unhidden: bool = False
    """Whether divisions, roots and costly functions that are done more often than there are
    elements are not hidden: what is in the cache is there sooner."""

    strip_functions: int = 1
    """How many times longer costly functions take in strips of columns, which have none for all
    lanes at once, where a later sweep makes them again."""

    gathered: int = 1
    """Instructions for an element that a gather reads by itself, where neighbours are a vector."""

    checked: int = 0
    """Instructions more where its index is not known to be in range."""

    rounds_in_software: bool = False
    """Whether a conversion to Half or 8 bits is many integer instructions."""

    kept_row: int = 1 << 20
    """Bytes of the longest row that is kept between its sweeps; what is folded of a longer one is
    made again."""

    kept_column: int = 1 << 62
    """The same, of a column, if that is less."""

    kept_alone: int = 1 << 62
    """The same, of a row of which parts are folded over the rows: one processor does it."""

    keeps_only_row: bool = True
    """Whether a row is kept that is the only one, which many processors share."""

    keeps_any_axes: bool = False
    """Whether a row that lies along several axes, others between them, is kept even of columns, and
    where parts of it are folded over the rows."""

    few_columns: int = 0
    """The most elements of a row that are done one after the other, while neighbouring rows are
    side by side: what folds such rows into each other does so row by row."""

    def room_of_row(self, *, in_columns: bool, in_parts: bool) -> int:
        """Bytes of the longest row that is kept between its sweeps, of one of which parts are
        folded over the rows if `in_parts`."""
        row = min(self.kept_row, self.kept_alone) if in_parts else self.kept_row
        return min(row, self.kept_column) if in_columns else row

    def slowed(self, rows: int, *, alone: bool, in_columns: bool) -> Fraction:
        """How many times longer bytes take to move where so few rows leave processors idle; 1 for
        many rows. Of those that are not `alone`, each has several, but one has several columns."""
        if alone:
            busy = Fraction(rows, self.busy_columns if in_columns else self.busy_rows)
        elif in_columns:
            busy = Fraction(rows, self.columns_of_a_processor * self.busy_processors)
        else:
            busy = Fraction(rows * self.processors_of_a_row, self.busy_processors)
        return max(1 / busy, Fraction(1)) if busy else Fraction(1)

    def kernel_cost(self, moved: int, own: int, repeated: int, *, alone: int = 0) -> int:
        """The cost, in bytes, of one kernel: its launch, and the bytes it moves or, if that takes
        longer, the arithmetic it does meanwhile.

        `own` counts instructions that are done once for each element they make, `repeated` those
        done more often: even where these are hidden, they use power and registers. `alone` are
        those that wait for each other, and are not hidden.
        """
        arithmetic = (own + repeated) // self.operations_per_byte
        hidden = repeated // (self.operations_per_byte * self.hidden)
        waited = alone // self.operations_per_byte
        return self.launch_bytes + max(moved, arithmetic) + hidden + waited


GPU = Machine(
    launch_bytes=8 << 20,
    operations_per_byte=8,
    hidden=32,
    busy_processors=64,
    processors_of_a_row=16,
    busy_rows=128,
    columns_of_a_processor=32,
    busy_columns=1 << 14,
    rows_at_once=256,
    cache_bytes=40 << 20,
    kept_column=6 << 10,
    kept_alone=192 << 10,
)
"""An H200: 132 processors, of which about half are counted on to keep its memory busy; 4.3 TB/s, 60
Tflop/s; a launch takes 2 us; the second-level cache has 50 MB. A row has the largest cluster of
published kernels for Hopper: 16 blocks, of a processor each. Clusters of the mappings are half as
large, since those run everywhere (`CudaRowParameters.max_cluster`): so 4 to 7 rows are priced as if
they kept the memory busy. A row that is not kept, or of which parts are folded over the rows, has
one block, of which two are at work on each of the processors counted on. So have 32 columns, of
which a block loads an eighth at a time, and keeps what its shared memory of 227 KiB holds."""

PROCESSOR = Machine(
    launch_bytes=256 << 10,
    operations_per_byte=8,
    hidden=32,
    busy_processors=1,
    processors_of_a_row=1,
    busy_rows=1,
    of_points=Limits(tensors=200, live=256),
    rows_of_a_strip=256,
    cache_bytes=1 << 19,
    shortest_piece=64,
    folds_in_strips=True,
    chosen_in_rows=128,
    shortest_part=16,
    cuts=True,
    most_pieces=256,
    most_in_pieces=2048,
    most_costly_in_pieces=1000,
    most_loads_in_pieces=768,
    functions=3,
    lanes=16,
    wide=8,
    strip_functions=2,
    gathered=20,
    checked=12,
    unhidden=True,
    kept_row=1 << 19,
    keeps_only_row=False,
    keeps_any_axes=True,
    few_columns=8,
    rounds_in_software=True,
)
"""Cores with 12 GB/s and 100 Gop/s each; to start and join two takes 10 us. They share few long
rows. Functions of float64 take 3 to 17 times as long as those of float32. Of points, what does not
fit registers is in the first cache."""
