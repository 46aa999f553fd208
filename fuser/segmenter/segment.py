"""The segmenter: fusion and memory in, steps in execution order out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import networkx as nx

from fuser.ir.nodes import Fusion, Output, Statement, Value, operands
from fuser.ir.printer import operation_name
from fuser.ir.strided import Strided, row_major
from fuser.segmenter.bookends import (
    Chain,
    input_aliases,
    output_chains,
    place_chains,
    stride_orders,
)
from fuser.segmenter.graph import build_graph, execution_order, is_extern
from fuser.segmenter.grouping import Group, Grouping
from fuser.segmenter.plan import AliasStep, ExternStep, Segment, SegmentedFusion, Step


def segment(fusion: Fusion, memory: Mapping[Value, Strided]) -> SegmentedFusion:
    """Divide a concretized fusion into kernels, torch operations and host aliases.

    `memory` says where each tensor input lies.
    """
    return _Segmenter(fusion, memory).run()


class _Segmenter:
    """The stages in order, and what each leaves for the next."""

    def __init__(self, fusion: Fusion, memory: Mapping[Value, Strided]) -> None:
        self._fusion = fusion
        self._definitions = fusion.definitions()
        self._log: list[str] = []
        self._externs = [s for s in fusion.statements if is_extern(s)]
        results = {out: row_major(out) for s in self._externs for out in s.outs}
        self._free, log = input_aliases(fusion, {**memory, **results})
        self._log += log
        self._orders = stride_orders(fusion, memory)
        self._placed: dict[Value, Strided] = dict(self._free)
        self._chains: list[Chain] = []

    def run(self) -> SegmentedFusion:
        demanded = [v for v in self._fusion.output_values if v.is_tensor]
        demanded += [v for s in self._externs for v in operands(s.op) if v.is_tensor]
        self._place(demanded)
        stored = [v for v in self._placed if v not in self._free and self._placed[v].base is v]
        operations = build_graph(self._fusion, self._free, stored)
        grouping = Grouping(operations, stored)
        groups, graph = grouping.run()
        self._log += grouping.log
        # What crosses from one group to another is stored too, through metadata where it is free.
        crossing = self._crossing(groups, grouping)
        self._place(crossing)
        steps = self._ordered_steps(groups, grouping, graph)
        steps += self._alias_steps()
        return SegmentedFusion(self._fusion, tuple(steps), self._placed, tuple(self._log))

    def _place(self, demanded: Collection[Value]) -> None:
        chains = output_chains(self._fusion, demanded, self._placed)
        placed, log = place_chains(chains, self._orders)
        self._placed.update(placed)
        self._chains += chains
        self._log += log

    def _crossing(self, groups: list[Group], grouping: Grouping) -> list[Value]:
        owner = grouping.operations.owner
        found: dict[Value, None] = {}
        for group in groups:
            inside = set(group.members)
            for member in group.members:
                reads = grouping.operations.reads[member]
                found.update((v, None) for v in reads if v in owner and owner[v] not in inside)
        return list(found)

    def _ordered_steps(
        self, groups: list[Group], grouping: Grouping, graph: nx.DiGraph[int]
    ) -> list[Step]:
        """Kernels and torch operations, each after what it reads."""
        by_key = {grouping.key_of(group): group for group in groups}
        first = len(grouping.operations.nodes)
        steps: list[Step] = []
        for number in execution_order(graph):
            if number >= first:
                steps.append(self._extern_step(self._externs[number - first]))
            else:
                steps.append(self._segment(by_key[number], grouping, len(steps)))
        return steps

    def _segment(self, group: Group, grouping: Grouping, number: int) -> Segment:
        nodes = [grouping.operations.nodes[member] for member in group.members]
        outs = [node.out for node in nodes]
        stores = [v for v in outs if v in self._placed and self._placed[v].base is v]
        sub = self._subfusion(
            stores, stop=lambda v: v in self._placed and self._placed[v].base not in outs
        )
        memory = {v: self._placed[v] for v in (*sub.inputs, *stores) if v.is_tensor}
        reason = "; ".join(grouping.boundaries(group)) or self._end_reason(stores)
        return Segment(f"kernel{number}", sub, memory, reason)

    def _subfusion(self, stores: list[Value], stop: Callable[[Value], bool]) -> Fusion:
        """The statements that compute `stores`, reading every value for which `stop` is true."""
        needed: set[Value] = set()
        loads: set[Value] = set()
        pending = list(stores)
        while pending:
            value = pending.pop()
            if value in needed or value in loads:
                continue
            if value not in self._definitions or stop(value):
                loads.add(value)
                continue
            needed.add(value)
            pending += operands(self._definitions[value].op)
        statements = tuple(s for s in self._fusion.statements if s.outs[0] in needed)
        inputs = tuple(sorted(loads, key=lambda value: value.id))
        return Fusion(inputs, statements, tuple(map(Output, stores)))

    def _extern_step(self, statement: Statement) -> ExternStep:
        scalars = {value: None for value in operands(statement.op) if not value.is_tensor}
        own = [statement]
        pending = list(scalars)
        seen: set[Value] = set()
        while pending:
            value = pending.pop()
            if value in seen or value not in self._definitions:
                continue
            seen.add(value)
            own.append(self._definitions[value])
            pending += operands(self._definitions[value].op)
        statements = tuple(sorted(own, key=lambda s: s.outs[0].id))
        defined = {out for s in statements for out in s.outs}
        read = {v for s in statements for v in operands(s.op) if v not in defined}
        inputs = tuple(sorted(read, key=lambda value: value.id))
        sub = Fusion(inputs, statements, tuple(map(Output, statement.outs)))
        memory = {v: self._placed[v] for v in (*inputs, *statement.outs) if v.is_tensor}
        name = operation_name(statement.op)
        return ExternStep(name, sub, memory, f"{name} has no kernel here; torch runs it")

    def _alias_steps(self) -> list[AliasStep]:
        """Outputs that are memory of something else."""
        steps: list[AliasStep] = []
        for value in dict.fromkeys(self._fusion.output_values):
            lies = self._placed[value]
            if lies.base is value:
                continue
            operations: list[str] = []
            walk = value
            while walk is not lies.base and walk in self._definitions:
                statement = self._definitions[walk]
                operations.insert(0, operation_name(statement.op))
                walk = next(operands(statement.op))
            reason = f"an alias of {lies.base}: metadata only"
            steps.append(AliasStep(value, lies, tuple(operations), reason))
        return steps

    def _end_reason(self, stores: list[Value]) -> str:
        """Why a segment that was refused nothing ends at what it stores."""
        outputs = set(self._fusion.output_values)
        parts: list[str] = []
        for value in stores:
            chain = next((c for c in self._chains if c.root is value and c.statements), None)
            if chain is not None:
                parts.append(f"{value} leaves through {' -> '.join(chain.operations)}, metadata")
            elif value in outputs:
                parts.append(f"{value} is an output")
            else:
                parts.append(f"{value} is read by torch")
        return "; ".join(parts)
