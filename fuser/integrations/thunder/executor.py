"""The executor: which symbols it takes, and how a trace is fused.

t3 = prims.mul(t1, t2)              [t5] = fuserFusion0(t1, t2)
t4 = prims.exp(t3)           ->       # t3 = prims.mul(t1, t2)
t5 = prims.sum(t4, (1,))              # t4 = prims.exp(t3)
                                      # t5 = prims.sum(t4, (1,))
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch.fx import Node

from fuser import debug
from fuser.integrations.outer.graph import Unit
from fuser.integrations.partitions.coverage import Reports, coverage
from fuser.integrations.partitions.partition import Partition
from fuser.integrations.partitions.partition_call import PartitionCall, compile_ahead
from fuser.integrations.partitions.support import Role, Support
from fuser.integrations.thunder.forms import BoundSymbol, graph_of, trial_of
from fuser.integrations.thunder.library import (
    compile_data,
    extend,
    proxies,
    traces,
    transforms,
)
from fuser.integrations.thunder.saved import saving_less
from fuser.integrations.thunder.stretches import (
    Step,
    StretchGraph,
    step_of,
    stretch_graphs,
)
from fuser.integrations.thunder.table import ROWS
from fuser.runtime.target_name import resolve_target

PREFIX = "fuserFusion"
REPORTS = Reports()
_ids = itertools.count()


@dataclass(frozen=True, slots=True)
class Region:
    """Bound symbols that are run together, what they read and what others read of theirs."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    bound_symbols: tuple[BoundSymbol, ...]


_Base: Any = extend.FusionExecutor


class FuserExecutor(_Base):
    """Thunder's executor named "fuser"."""

    def __init__(self) -> None:
        _Base.__init__(self, "fuser", version=_version())
        self._fuel: Any = extend.FUEL_LEVEL.UNLIMITED
        for identifier in ROWS:
            self.register_supported(identifier, functools.partial(_is_taken, identifier))

    # -- fuel ------------------------------------------------------------------------------------

    def get_fuel(self, amount: int = 1, /) -> bool:
        """Whether another `amount` of fusions may be made; takes it if so."""
        if self._fuel is extend.FUEL_LEVEL.UNLIMITED:
            return True
        if self._fuel < amount:
            return False
        self._fuel -= amount
        return True

    def set_fuel(self, value: Any) -> None:
        """How many fusions may be made from now on: a number, or FUEL_LEVEL.UNLIMITED."""
        if isinstance(value, int) and value < 0:
            raise ValueError(f"optimization_fuel must be non-negative: {value}")
        self._fuel = value

    # -- fusions ---------------------------------------------------------------------------------

    def fusion_pass(self, trace: Any) -> Any:
        """The trace with its partitions as fusions, and nothing kept that is cheap to repeat."""
        debug.check()
        started = time.perf_counter_ns()
        fused = traces.from_trace(trace)
        with traces.tracectx(fused):
            steps = saving_less([step_of(leaf) for leaf in self._leaves(trace.bound_symbols)])
        fused.bound_symbols = self._fused(steps)
        fused = transforms.dce(fused)
        took = (time.perf_counter_ns() - started) // 1_000_000
        fused.set_provenance(traces.TraceProvenance(f"Fusion by fuser (took {took} milliseconds)"))
        return fused

    def fuse(self, region: Any, fusion_counter: int) -> BoundSymbol:
        """The bound symbol that runs a region, which has what `Region` has."""
        inputs, outputs = (
            [proxies.unvariableify(variable) for variable in variables]
            for variables in (region.inputs, region.outputs)
        )
        name = f"{PREFIX}{fusion_counter}"
        target = compile_data.get_compile_option("fuser_target", "The target of fuser's kernels")
        if target is not None:
            resolve_target(target, torch.device("meta"))  # a name that is none is not our failure
        call = PartitionCall(graph_of(region.bound_symbols, inputs, outputs), name, target)
        return self.register_temporary_operation(
            name, call, inputs=inputs, outputs=outputs, bsyms=list(region.bound_symbols)
        )

    def _leaves(self, bsyms: Sequence[BoundSymbol]) -> Iterator[BoundSymbol]:
        """Symbols with rows, in place of those that are made of them."""
        for bsym in bsyms:
            if self.can_fuse(bsym) and not self.can_execute(bsym):
                yield from self._leaves(bsym.subsymbols)
            else:
                yield bsym

    def _fused(self, steps: Sequence[Step]) -> list[BoundSymbol]:
        symbols: list[BoundSymbol] = []
        roles: dict[Node, Support] = {}
        calls: dict[Partition, PartitionCall] = {}
        for graph in stretch_graphs(steps):
            roles |= graph.roles
            parts = [part for part in graph.partitions() if self.get_fuel()]
            made: dict[Unit, BoundSymbol] = {}
            for part in parts:
                made[part] = self.fuse(_region(graph, part), len(calls))
                (calls[part],) = made[part]._call_ctx.values()
            for unit in graph.in_order(parts):
                if unit in made:
                    symbols.append(made[unit])
                elif unit in graph.steps:
                    symbols.append(graph.steps[unit].bsym)
        compile_ahead(list(calls.values()))
        REPORTS.add(coverage(f"trace {next(_ids)}", roles, calls))
        return symbols


def _region(graph: StretchGraph, part: Partition) -> Region:
    def variables(nodes: Sequence[Node]) -> tuple[Any, ...]:
        return tuple(proxies.variableify(graph.proxies[node]) for node in nodes)

    symbols = tuple(graph.steps[node].bsym for node in part.nodes if node in graph.steps)
    return Region(variables(part.inputs), variables(part.outputs), symbols)


def _is_taken(identifier: Hashable, *args: Any, **kwargs: Any) -> bool:
    return trial_of(identifier, args, kwargs).support.role not in (Role.TORCH, Role.PRODUCT)


def _version() -> str:
    try:
        return version("fuser")
    except PackageNotFoundError:  # run from its sources
        return "unknown"
