"""What runs the iterations of a loop, and who does a row together."""

from __future__ import annotations

from enum import Enum, auto


class Binding(Enum):
    """What runs the iterations of a loop."""

    PARALLEL = auto()  # threads of the processor, together with the parallel loop inside
    SIMD = auto()  # vector lanes of a processor, as its compiler arranges them
    STREAM = auto()  # a row copied past the cache; the body is one load and one store
    CHUNKS = auto()  # `step` elements an iteration; the last chunk is moved back to end in range
    CHUNK_IN_TURN = auto()  # the elements of a chunk that were not done before, in order
    BLOCK = auto()  # one iteration a thread block
    THREAD_Y = auto()  # blockDim.y iterations a thread block
    THREAD_X = auto()  # blockDim.x iterations a thread block, each of `step` elements
    TILED = auto()  # `step` elements an iteration, together with the tiled loop around or inside
    TILE_LINES = auto()  # the lines of a tile, `step` columns at a time
    TILE_COLUMNS = auto()  # the columns of a tile, `step` lines at a time
    LANES = auto()  # unrolled over the lanes of one thread
    SERIAL = auto()  # one after the other
    JOINED = auto()  # places of folds over rows, whose parts are joined; over threads if many
    SWEEP = auto()  # `step` lanes at a time, and what is left one by one
    ROUNDS = auto()  # `step` lanes at a time; the last are moved back: see `REPEATED`
    BLOCKS = auto()  # `step` elements of a long row an iteration, over threads; swept inside
    BATCHES = auto()  # `step` short rows an iteration, over threads; the last are moved back
    BATCH_LANES = auto()  # the rows of a batch
    BATCH_IN_TURN = auto()  # the rows of a batch, one after the other
    STRIP = auto()  # up to `step` neighbouring rows an iteration, over threads
    COLUMNS = auto()  # once: all rows, at most `step`, or always so many, are a strip
    STRIP_LANES = auto()  # the rows of a strip
    STRIP_IN_TURN = auto()  # the rows of a strip, one after the other
    UNROLLED = auto()  # `step` iterations at a time for each row of a strip; the rest one by one
    OF_ROUND = auto()  # the iterations of an unrolled round, for the row at hand
    TEAMS = auto()  # a row for each team of threads, together with the loop inside
    TEAM = auto()  # `step` elements for each thread of a team, together with the loop inside
    SCAN = auto()  # `step` elements at a time, of one thread or each of a team, in order
    ENDS = auto()  # the ends of a peeled row, an element for each of the first threads of a team


class Team(Enum):
    """The threads of a GPU that do a row together."""

    WARP = auto()  # a warp, or a power of two of its lanes, along x; neighbouring rows lie along y
    BLOCK = auto()  # a block, or several where the grid has a second dimension
    COLUMN = auto()  # threads of a block along y; neighbouring rows lie along x
    GRID = auto()  # all there are, for the only row
