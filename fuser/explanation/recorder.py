"""Collects what is compiled, and makes the report of it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from fuser.explanation.dynamo_state import BreakLog
from fuser.explanation.model import Coverage, Graph, Partition
from fuser.explanation.report import Report
from fuser.integrations import dynamo
from fuser.integrations.partitions import coverage
from fuser.integrations.partitions.partition_call import PartitionCall
from fuser.ir.nodes import Fusion
from fuser.ir.printer import print_fusion
from fuser.locks import forkable_lock
from fuser.runtime.plans.plan import Plan
from fuser.runtime.plans.watching import PLANS


class Recorder:
    """Takes graphs as they are compiled, and plans as they are made. Threads may share it."""

    def __init__(self) -> None:
        self._graphs: list[coverage.Coverage] = []
        self._plans: dict[int, tuple[Fusion, dict[int, Plan]]] = {}
        self._breaks = BreakLog()
        self._lock = forkable_lock()

    def add_graph(self, found: coverage.Coverage) -> None:
        """A graph that torch.compile made."""
        with self._lock:
            self._graphs.append(found)
            self._breaks.read()

    def add_plan(self, fusion: Fusion, plan: Plan) -> None:
        """A plan of a definition, perhaps of a partition's."""
        with self._lock:
            self._plans.setdefault(id(fusion), (fusion, {}))[1].setdefault(id(plan), plan)

    def forget_breaks(self) -> None:
        """Leave Dynamo's own list of graph breaks as it was."""
        with self._lock:
            self._breaks.read()
            self._breaks.drop()

    def report(self, title: str, notes: tuple[str, ...] = ()) -> Report:
        """Everything so far: definitions first, then graphs."""
        with self._lock:
            compiled, planned = list(self._graphs), list(self._plans.values())
            breaks = self._breaks.read()
        of_partitions = {
            id(call.definition.fusion)
            for found in compiled
            for call in found.partitions
            if call.definition is not None
        }
        alone = [(fusion, plans) for fusion, plans in planned if id(fusion) not in of_partitions]
        graphs = [
            definition_graph(f"definition {number}", fusion, list(plans.values()))
            for number, (fusion, plans) in enumerate(alone)
        ]
        return Report(title, (*graphs, *map(_graph, compiled)), breaks, notes)


@contextmanager
def recording() -> Generator[Recorder]:
    """A recorder of all that is compiled meanwhile in this process."""
    recorder = Recorder()
    with dynamo.watching_reports(recorder.add_graph), PLANS.watching(recorder.add_plan):
        yield recorder


def definition_graph(name: str, fusion: Fusion, plans: list[Plan]) -> Graph:
    """A definition that a script wrote, with the plans that were made of it."""
    text = print_fusion(fusion)
    parts = [
        Partition(f"{name}, plan {number}" if len(plans) > 1 else name, text, plan)
        for number, plan in enumerate(plans)
    ]
    return Graph(name, None, tuple(parts))


def _graph(found: coverage.Coverage) -> Graph:
    covered = Coverage(found.compute_nodes, found.covered, found.products, found.uncovered)
    return Graph(found.graph, covered, tuple(map(_partition, found.partitions)))


def _partition(call: PartitionCall) -> Partition:
    if call.definition is None:
        return Partition(call.__name__, call.module.code, None, call.failure)
    text = repr(call.definition)
    try:
        plan = call.plan()
    except Exception as error:  # as where it is run: our failure is told, and is not the model's
        told = call.failure or f"{type(error).__name__}: {error}"
        return Partition(call.__name__, text, None, told)
    return Partition(call.__name__, text, plan, call.failure)
