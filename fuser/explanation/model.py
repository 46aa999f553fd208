"""What `explain` finds, as data: graphs and their partitions, each with the plan that runs it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fuser.explanation.traffic import Traffic, traffic_of
from fuser.integrations.partitions.coverage import Uncovered
from fuser.runtime.plans.plan import KernelStep, Plan


@dataclass(frozen=True, slots=True)
class Break:
    """A place at which Dynamo ended a graph: `file:line in function`, and its reason."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Partition:
    """Operations that one definition holds.

    `definition` is its text, which can be executed. There is no `plan` where ours failed, and torch
    runs the operations; `failure` says why.
    """

    name: str
    definition: str
    plan: Plan | None
    failure: str | None = None

    @property
    def traffic(self) -> Traffic:
        """Bytes moved by the plan, and what they are compared with."""
        return Traffic() if self.plan is None else traffic_of(self.plan)

    @property
    def kernels(self) -> tuple[KernelStep, ...]:
        return () if self.plan is None else self.plan.kernels

    def merges(self, number: int) -> tuple[str, ...]:
        """The lines of the plan's log that say how kernel `number` came to hold what it does."""
        if self.plan is None:
            return ()
        segment = self.plan.segmented.segments[number]
        own = {f"{out}=" for s in segment.fusion.statements for out in s.outs}
        return tuple(line for line in self.plan.log if _is_merge_of(line, own))


@dataclass(frozen=True, slots=True)
class Coverage:
    """Compute nodes of a traced graph, and how many of them partitions hold.

    Products, convolutions and attentions are torch's, and counted apart.
    """

    nodes: int
    covered: int
    products: int
    uncovered: tuple[Uncovered, ...]

    @property
    def percent(self) -> float:
        """Compute nodes in partitions, of all."""
        return 100.0 * self.covered / self.nodes if self.nodes else 100.0


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph that torch.compile made, or, without `coverage`, a definition that a script wrote.

    The partitions of a definition are itself, once for each set of inputs that needs its own plan.
    """

    name: str
    coverage: Coverage | None
    partitions: tuple[Partition, ...]

    @property
    def traffic(self) -> Traffic:
        """That of all partitions; what torch runs between them is not in it."""
        return total_traffic(part.traffic for part in self.partitions)

    @property
    def kernels(self) -> tuple[KernelStep, ...]:
        return tuple(kernel for part in self.partitions for kernel in part.kernels)


def total_traffic(parts: Iterable[Traffic]) -> Traffic:
    """The sum of several."""
    return sum(parts, Traffic())


def _is_merge_of(line: str, own: set[str]) -> bool:
    """Whether a log line is a merge of nothing but operations in `own`, each as `T1=`."""
    if not line.startswith(MERGE):
        return False
    named = [word.lstrip("[") for word in line.removeprefix(MERGE).split() if "=" in word]
    return all(word[: word.index("=") + 1] in own for word in named)


MERGE = "merge taken:"
"""How the lines of a plan's log begin that tell of merges."""
