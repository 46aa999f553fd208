"""Which operations are tried in one kernel: one reads the other, or both read the same memory."""

from __future__ import annotations

import itertools

from fuser.ir.nodes import Value
from fuser.segmenter.graph import OperationGraph

SHARING = 4
"""How many later readers of a buffer a reader is tried with."""


def neighbouring_nodes(operations: OperationGraph) -> list[tuple[int, int]]:
    """Pairs of nodes, each once."""
    count = len(operations.nodes)
    edges: list[tuple[int, int]] = list(operations.graph.edges)
    pairs = dict.fromkeys(pair for pair in sorted(edges) if max(pair) < count)
    readers: dict[Value, dict[int, None]] = {}
    for node, reads in enumerate(operations.reads):
        for read in reads:
            lies = operations.free.get(read.value)
            base = read.value if lies is None else lies.base
            readers.setdefault(base, {})[node] = None
    for nodes in readers.values():
        for distance in range(1, SHARING + 1):
            pairs.update(dict.fromkeys(zip(nodes, itertools.islice(nodes, distance, None))))  # noqa: B905
    return list(pairs)
