"""What surrounds a node of a kernel of the CPU target while it is printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from fuser.codegen.printer import Surroundings
from fuser.schedule.indices.index import Axis
from fuser.schedule.tree.loop_tree import Loop, Peel


class Stored(Enum):
    """What is stored of a chunk."""

    WHOLE = auto()
    """All of it."""
    PART = auto()
    """What is between `first` and `last`."""
    MOVED = auto()
    """Of one that was moved into range, what no other chunk has."""
    AGAIN = auto()
    """All of it, also what was done before."""
    COUNTED = auto()
    """Its first `count` elements."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Elements along `axis` that are done side by side, and what is stored of them."""

    axis: Axis
    stored: Stored
    turned: bool = False
    """Whether lanes are from the last point to the first."""
    peel: Peel | None = None
    """Where chunks begin, if not with the row."""


@dataclass(frozen=True, slots=True)
class CpuSurroundings(Surroundings):
    """What the loops and regions around a node say of it."""

    threads_started: bool = False
    """Whether a parallel region is open, so that loops only share out their iterations."""
    divided: bool = False
    """Whether loops are one thread's: an outer one is shared out, or there is one thread only."""
    chunk: Chunk | None = None
    """The chunk at hand."""
    lanes_used: str = ""
    """How many lanes have a point, of a strip or of a chunk, if not all may."""
    batch: Loop | None = None
    """The loop over batches of rows of which one is at hand."""
    row_of_batch: bool = False
    """Whether one row of the batch is, or each of them side by side."""
    largest: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of indices that are checked side by side: where the largest of each is held."""
    own_parts: frozenset[str] = frozenset()
    """Folds over the rows that one thread keeps for itself."""
