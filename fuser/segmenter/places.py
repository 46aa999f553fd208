"""At how many places a kernel reads what it loads, for each element it stores.

    T2 = T1[:-2] + T1[1:-1] + T1[2:]                     T1 at three places
    T3 = T2[:, :-2] + T2[:, 1:-1] + T2[:, 2:]            T2 at three, T1 at nine

Each place is code of its own: sums of slices one after the other, as in the gradient of an image
that was resized in three dimensions, would be thousands of loads.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

from fuser.ir.nodes import Value
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.rows import Refusal

MOST_PLACES = 128
"""Loads of one kernel. Of two passes over an image, each of ten reads, there are 100."""

_HERE = 0
"""The place at which the kernel stores."""


def places_refusal(operations: OperationGraph, members: Sequence[int]) -> Refusal | None:
    """Why nodes, in the fusion's order, are no kernel: they read at too many places."""
    numbers = defaultdict[tuple[int, int], int](itertools.count(1).__next__)
    places: dict[Value, set[int]] = {}
    inside = frozenset(members)
    loaded = 0
    for member in reversed(members):
        own = set[int]().union(*(places.get(out, ()) for out in operations.nodes[member].outs))
        own = own or {_HERE}
        for read in operations.reads[member]:
            at = places.setdefault(read.value, set())
            before = len(at)
            moved = (numbers[by, place] for by in read.through for place in own)
            at.update(moved if read.misplaced else own)
            if operations.node_of(read.value) not in inside:
                loaded += len(at) - before
            if max(loaded, len(at)) > MOST_PLACES:
                return Refusal(f"with {read.value} it would read at more than {MOST_PLACES} places")
    return None
