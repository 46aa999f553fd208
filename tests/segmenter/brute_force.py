"""The best way to divide a small fusion into kernels, by trying all.

A division is a sequence of kernels, each after what it reads, so it has no cycle. Whether
operations may share a kernel is asked of the same rules as the segmenter's, for every subset of
them; which subsets to choose is what is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import networkx as nx

from fuser.ir.nodes import Fusion, Value, operands
from fuser.ir.strided import Strided, row_major
from fuser.segmenter import SegmentedFusion
from fuser.segmenter.bookends import (
    eager_memories,
    input_aliases,
    output_chains,
    place_chains,
    shown_memories,
    stride_orders,
)
from fuser.segmenter.graph import OperationGraph, build_graph, is_extern
from fuser.segmenter.groups import Group, GroupMaker
from fuser.segmenter.machine import Machine
from fuser.segmenter.prices import Prices
from fuser.segmenter.refusal import Refusal


class BruteForce:
    """All divisions of one concretized fusion."""

    def __init__(self, fusion: Fusion, memory: dict[Value, Strided], machine: Machine) -> None:
        externs = [s for s in fusion.statements if is_extern(s)]
        results = {out: row_major(out) for s in externs for out in s.outs}
        free, _ = input_aliases(fusion, {**memory, **results})
        demanded = [v for v in fusion.output_values if v.is_tensor]
        demanded += [v for s in externs for v in operands(s.op) if v.is_tensor]
        eager = eager_memories(fusion, memory)
        shown = shown_memories(fusion, eager)
        chains = output_chains(fusion, demanded, free)
        placed, _, _ = place_chains(chains, stride_orders(eager), shown)
        stored = [v for v, lies in placed.items() if lies.base is v]
        self.operations: OperationGraph = build_graph(fusion, free, stored)
        self._maker = GroupMaker(self.operations, stored, machine)
        self._prices = Prices(self._maker)
        self.count = len(self.operations.nodes)
        self._group = cache(self._legal_group)

    def check(self, segmented: SegmentedFusion) -> None:
        """Bytes within 5 % of the best division's, and no more launches."""
        moved, launches = self.best()
        ours = sum(s.bytes_read + s.bytes_written for s in segmented.segments)
        assert ours <= 1.05 * moved, f"{ours} bytes are moved, {moved} would do"
        assert len(segmented.segments) <= launches, f"{launches} launches would do"

    def best(self) -> tuple[int, int]:
        """(bytes moved, launches) of a division of least cost."""
        total = self.count + len(self.operations.externs)
        before = [0] * total
        for first, second in self.operations.graph.edges:
            before[second] |= 1 << first
        everything = (1 << total) - 1

        @cache
        def cheapest(done: int) -> tuple[int, int, int]:
            """(cost, bytes, launches) of what is left when the nodes of `done` are done."""
            if done == everything:
                return 0, 0, 0
            left = everything & ~done
            for extern in range(self.count, total):
                if left >> extern & 1 and not before[extern] & ~done:
                    return cheapest(done | 1 << extern)
            found: list[tuple[int, int, int]] = []
            kernels = left & ((1 << self.count) - 1)
            subset = kernels
            while subset:
                members = [n for n in range(self.count) if subset >> n & 1]
                ready = all(not before[n] & ~(done | subset) for n in members)
                group = self._group(tuple(members)) if ready else None
                if group is not None:
                    cost, moved, launches = cheapest(done | subset)
                    own = self._prices.cost(group)
                    found.append((cost + own, moved + group.moved, launches + 1))
                subset = (subset - 1) & kernels
            return min(found)

        _, moved, launches = cheapest(0)
        return moved, launches

    def _legal_group(self, members: Sequence[int]) -> Group | None:
        """These nodes as a kernel; None where the rules refuse it."""
        group = self._maker.of_nodes(members)
        if self._maker.boundary_asked_inside(group):
            return None
        joined = nx.is_connected(nx.Graph(self.operations.graph.subgraph(members)))
        checked = self._maker.checked(group, related=joined)
        if isinstance(checked, Refusal) or (checked.rows and not self._related(members)):
            return None
        return checked

    def _related(self, members: Sequence[int]) -> bool:
        """Whether edges or shared memory lead from every operation to every other."""
        graph = nx.Graph(self.operations.graph.subgraph(members))
        for member in members:
            for read in self.operations.reads[member]:
                lies = self.operations.free.get(read.value)
                graph.add_edge(member, f"{read.value if lies is None else lies.base}")
        return nx.is_connected(graph)
