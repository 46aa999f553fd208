"""What of a graph ran where."""

from __future__ import annotations

import operator
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from torch.fx import Node

from fuser.integrations.partitions.partition import Partition
from fuser.integrations.partitions.partition_call import PartitionCall
from fuser.integrations.partitions.support import Role, Support
from fuser.locks import forkable_lock
from fuser.runtime.plans.watching import Watchers

KEPT_REPORTS = 256


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Nodes of one overload that torch computes, and why."""

    overload: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """One compiled graph. Products, views and updates of inputs are no compute nodes."""

    graph: str
    compute_nodes: int
    covered: int
    products: int
    partitions: tuple[PartitionCall, ...]
    uncovered: tuple[Uncovered, ...]

    @property
    def failed(self) -> tuple[PartitionCall, ...]:
        """Partitions that torch runs because our compiler failed."""
        return tuple(call for call in self.partitions if call.failure is not None)

    @property
    def percent(self) -> float:
        """Compute nodes in partitions, of all."""
        return 100.0 * self.covered / self.compute_nodes if self.compute_nodes else 100.0

    def __str__(self) -> str:
        lines = [
            f"{self.graph}: {self.covered} of {self.compute_nodes} compute nodes "
            f"({self.percent:.1f} %) in {len(self.partitions)} partition(s); "
            f"{self.products} product(s) by torch"
        ]
        for entry in self.uncovered:
            lines.append(f"  torch: {entry.count} x {entry.overload}: {entry.reason}")
        for call in self.failed:
            lines.append(f"  torch: {call.__name__}, which failed: {call.failure}")
        return "\n".join(lines)


def coverage(
    graph: str, roles: Mapping[Node, Support], parts: Mapping[Partition, PartitionCall]
) -> Coverage:
    """The coverage of a graph that was divided into `parts`."""
    inside = {node for part in parts for node in part.nodes}
    computed = [
        node
        for node, found in roles.items()
        if found.role in (Role.COMPUTE, Role.FACTORY, Role.TORCH)
        and node.users
        and node.target is not operator.getitem
    ]
    covered = sum(node in inside for node in computed)
    products = sum(found.role is Role.PRODUCT for found in roles.values())
    missing = Counter(
        (str(node.target), roles[node].reason) for node in computed if node not in inside
    )
    uncovered = [Uncovered(name, count, why) for (name, why), count in missing.items()]
    calls = tuple(parts.values())
    return Coverage(graph, len(computed), covered, products, calls, tuple(uncovered))


class Reports:
    """The coverage of the graphs compiled last, by any thread."""

    def __init__(self) -> None:
        self._reports: deque[Coverage] = deque(maxlen=KEPT_REPORTS)
        self._lock = forkable_lock()
        self.watchers: Watchers[[Coverage]] = Watchers()
        """Told of every report that is added."""

    def add(self, report: Coverage) -> None:
        """Keep a report, and show it to those who watch."""
        with self._lock:
            self._reports.append(report)
        self.watchers.tell(report)

    def all(self) -> tuple[Coverage, ...]:
        """Oldest first."""
        with self._lock:
            return tuple(self._reports)

    def clear(self) -> None:
        with self._lock:
            self._reports.clear()
