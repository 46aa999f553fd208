"""At how many places a kernel reads what it loads, for each element it stores.

    T2 = T1[:-2] + T1[1:-1] + T1[2:]                     T1 at three places
    T3 = T2[:, :-2] + T2[:, 1:-1] + T2[:, 2:]            T2 at three, T1 at nine

Each place is code of its own: sums of slices one after the other, as in the gradient of an image
that was resized in three dimensions, would be thousands of loads, and steps of a simulation that
each read the neighbours of the last would compute the first of them at hundreds of places.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from fuser.ir.nodes import Value
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.profit import Machine, size_in_text
from fuser.segmenter.rows import Refusal

MOST_PLACES = 128
"""Loads of one kernel. Of two passes over an image, each of ten reads, there are 100."""

_HERE = 0
"""The place at which the kernel stores."""


def places_refusal(operations: OperationGraph, members: Sequence[int]) -> Refusal | None:
    """Why nodes, in the fusion's order, are no kernel: they read at too many places."""
    inside = frozenset(members)
    loaded = 0
    for _, _, reads in _from_the_last(operations, members):
        for value, places, more in reads:
            if operations.node_of(value) not in inside:
                loaded += more
            if max(loaded, places) > MOST_PLACES:
                return Refusal(f"with {value} it would read at more than {MOST_PLACES} places")
    return None


def operations_at_all_places(
    operations: OperationGraph, members: Sequence[int], machine: Machine
) -> int:
    """The operations of a kernel's text, as `size_in_text` counts them: what is read at several
    places is computed at each."""
    return sum(
        places * size_in_text(operations.nodes[member].op, machine)
        for member, places, _ in _from_the_last(operations, members)
    )


def _from_the_last(
    operations: OperationGraph, members: Sequence[int]
) -> Iterator[tuple[int, int, list[tuple[Value, int, int]]]]:
    """Each member with the number of places at which it is computed, and what it reads: the value,
    at how many places it and those after it read that, and how many of these are new."""
    numbers = defaultdict[tuple[int, int], int](itertools.count(1).__next__)
    places: dict[Value, set[int]] = {}
    for member in reversed(members):
        own = set[int]().union(*(places.get(out, ()) for out in operations.nodes[member].outs))
        own = own or {_HERE}
        reads = list[tuple[Value, int, int]]()
        for read in operations.reads[member]:
            at = places.setdefault(read.value, set())
            before = len(at)
            moved = (numbers[by, place] for by in read.through for place in own)
            at.update(moved if read.misplaced else own)
            reads.append((read.value, len(at), len(at) - before))
        yield member, len(own), reads
