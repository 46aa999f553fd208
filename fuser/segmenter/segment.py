"""The segmenter: fusion and memory in, steps in execution order out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from fuser.ir.nodes import Extern, Fusion, GeneratorState, Output, Statement, Value, operands
from fuser.ir.printer import operation_name
from fuser.ir.strided import Order, Strided, row_major
from fuser.segmenter.bookends import (
    Chain,
    eager_memories,
    inner_orders,
    input_aliases,
    output_chains,
    place_chains,
    shown_memories,
    stride_orders,
)
from fuser.segmenter.current_groups import CurrentGroups
from fuser.segmenter.graph import build_graph, is_extern
from fuser.segmenter.grouping import Grouping
from fuser.segmenter.machine import GPU, Machine
from fuser.segmenter.plan import AliasStep, Boundary, ExternStep, Segment, SegmentedFusion, Step
from fuser.segmenter.recompute import Recomputation
from fuser.segmenter.sampled_variances import sample_variances
from fuser.segmenter.scatters import place_scattered, scattered_into


def segment(
    fusion: Fusion, memory: Mapping[Value, Strided], machine: Machine = GPU
) -> SegmentedFusion:
    """Divide a concretized fusion into kernels, torch operations and host aliases.

    `memory` says where each tensor input lies, `machine` what kernels cost.
    """
    found = _Segmenter(fusion, memory, machine).run()
    sampled, notes = sample_variances(found)
    if not notes:
        return found
    again = _Segmenter(sampled, memory, machine).run()
    if again.cost >= found.cost:
        return found
    return dataclasses.replace(again, log=(*notes, *again.log))


class _Segmenter:
    """The stages in order, and what each leaves for the next."""

    def __init__(self, fusion: Fusion, memory: Mapping[Value, Strided], machine: Machine) -> None:
        self._fusion = fusion
        self._memory = memory
        self._machine = machine
        self._definitions = fusion.definitions()
        self._numbers = {s.outs[0]: number for number, s in enumerate(fusion.statements)}
        self._log: list[str] = []
        self._externs = [s for s in fusion.statements if is_extern(s)]
        self._torch_reads: dict[Value, list[str]] = {}
        """The names of the torch operations that read each value."""
        for statement in self._externs:
            for value in operands(statement.op):
                self._torch_reads.setdefault(value, []).append(operation_name(statement.op))
        eager = eager_memories(fusion, memory)
        results = {
            out: eager[out] if isinstance(s.op, Extern) else row_major(out)
            for s in self._externs
            for out in s.outs
        }
        self._free, log = input_aliases(fusion, {**memory, **results})
        self._log += log
        self._orders = stride_orders(eager)
        self._shown = shown_memories(fusion, eager)
        self._scattered_into = scattered_into(fusion)
        self._placed: dict[Value, Strided] = dict(self._free)
        self._chains: list[Chain] = []

    def run(self) -> SegmentedFusion:
        demanded = [v for v in self._fusion.output_values if v.is_tensor]
        demanded += [v for s in self._externs for v in operands(s.op) if v.is_tensor]
        demanded += [v for v in self._scattered_into.values() if v not in self._scattered_into]
        self._place(demanded, self._orders)
        place_scattered(self._scattered_into, self._placed)
        stored = [v for v in self._placed if v not in self._free and self._is_stored(v)]
        operations = build_graph(self._fusion, self._free, stored)
        grouping = Grouping(operations, stored, self._machine)
        grouping.run()
        recomputation = Recomputation(grouping.groups, stored)
        recomputation.run()
        self._log += grouping.log + recomputation.log
        # What crosses from one group to another is stored too, through metadata where it is free.
        if crossing := recomputation.crossing():
            self._place(crossing, inner_orders(self._fusion, self._memory))
        empty = [key for key, stores in recomputation.stores.items() if not stores]
        steps, boundaries = self._ordered_steps(grouping, empty)
        steps += self._alias_steps()
        log, placed = tuple(self._log), self._placed
        cost = sum(map(grouping.groups.cost, grouping.groups.by_key))
        return SegmentedFusion(
            self._fusion, tuple(steps), placed, boundaries, log, self._machine, cost
        )

    def _place(self, demanded: Collection[Value], orders: Mapping[Value, Order]) -> None:
        chains = output_chains(self._fusion, demanded, self._placed)
        placed, chains, log = place_chains(chains, orders, self._shown)
        self._placed.update(placed)
        self._chains += chains
        self._log += log

    def _ordered_steps(
        self, grouping: Grouping, empty: Collection[int]
    ) -> tuple[list[Step], tuple[Boundary, ...]]:
        """Kernels and torch operations, each after what it reads, and why the kernels are apart.

        Groups that are `empty` have nothing left to do.
        """
        operations = grouping.groups.operations
        first_extern = len(operations.nodes)
        in_definition = self._definition_order(grouping.groups)
        in_order = grouping.order.execution_order(in_definition.__getitem__)
        order = [key for key in in_order if key not in empty]
        kernels = [key for key in order if key < first_extern]
        self._log += grouping.relate(kernels)
        names = {key: f"kernel{number}" for number, key in enumerate(kernels)}
        boundaries = tuple(
            Boundary(names[first], names[second], reason)
            for (first, second), reason in grouping.boundaries.items()
            if first in names and second in names
        )
        made = {key: self._segment(grouping.groups, key) for key in kernels}
        refusals = _refusals(grouping, {key: words for key, (*_, words) in made.items()})
        steps: list[Step] = []
        for key in order:
            if key >= first_extern:
                steps.append(self._extern_step(self._externs[key - first_extern]))
                continue
            group = grouping.groups.by_key[key]
            kept = None if group.rows is None else group.rows.kept
            sub, memory, leaves, _ = made[key]
            reason = "; ".join(dict.fromkeys([*leaves, *refusals[key]]))
            again = grouping.groups.prices.read_again(group)
            atoms = operations.atoms
            steps.append(Segment(names[key], sub, memory, reason, atoms, kept, again, leaves))
        return steps, boundaries

    def _definition_order(self, groups: CurrentGroups) -> dict[int, int]:
        """Where each step is in the definition: where its last operation is.

        Whoever wrote it used most values soon after they were made. Running all kernels that are
        ready before any product would hold the operands of all products at once.
        """
        made_at = {v: n for n, s in enumerate(self._fusion.statements) for v in s.outs}
        last: dict[int, int] = {}
        operations = groups.operations
        for number, statement in enumerate((*operations.nodes, *operations.externs)):
            key = groups.step_of(number)
            last[key] = max(last.get(key, 0), made_at[statement.outs[0]])
        return last

    def _segment(
        self, groups: CurrentGroups, key: int
    ) -> tuple[Fusion, dict[Value, Strided], tuple[str, ...], str]:
        """The fusion of a segment, where its values lie, how they leave, and what it is called:
        without what only others make again."""
        operations, members = groups.operations, groups.by_key[key].members
        outs = [out for member in members for out in operations.nodes[member].outs]
        own = frozenset(outs)
        stores = [v for v in outs if self._is_stored(v)]
        sub = self._subfusion(stores, stop=lambda v: self._is_read_from_memory(v, own))
        memory = {v: self._placed[v] for v in (*sub.inputs, *stores) if v.is_tensor}
        made = {out for statement in sub.statements for out in statement.outs}
        named = [m for m in members if not made.isdisjoint(operations.nodes[m].outs)]
        return sub, memory, tuple(self._ends(stores)), groups.maker.listed(named)

    def _is_stored(self, value: Value) -> bool:
        """Whether a value has a buffer of its own, or is what a scatter changes in its buffer."""
        lies = self._placed.get(value)
        return lies is not None and (lies.base is value or value in self._scattered_into)

    def _is_read_from_memory(self, value: Value, own: Collection[Value]) -> bool:
        """Whether a segment that makes `own` reads a value, rather than making it."""
        lies = self._placed.get(value)
        return lies is not None and (lies.base not in own or value in self._scattered_into)

    def _subfusion(self, results: Sequence[Value], stop: Callable[[Value], bool]) -> Fusion:
        """The statements that compute `results`, reading every value for which `stop` is true."""
        needed: dict[int, Statement] = {}
        loads: set[Value] = set()
        seen = set(results)
        pending = list(results)
        while pending:
            value = pending.pop()
            statement = self._definitions.get(value)
            if (
                statement is None
                or isinstance(statement.op, GeneratorState)
                or (value not in results and stop(value))
            ):
                loads.add(value)
                continue
            needed[self._numbers[statement.outs[0]]] = statement
            unseen = [v for v in operands(statement.op) if v not in seen]
            seen.update(unseen)
            pending += unseen
        statements = tuple(needed[number] for number in sorted(needed))
        inputs = tuple(sorted(loads, key=lambda value: value.id))
        return Fusion(inputs, statements, tuple(map(Output, results)))

    def _extern_step(self, statement: Statement) -> ExternStep:
        sub = self._subfusion(statement.outs, stop=lambda v: v.is_tensor)
        memory = {v: self._placed[v] for v in (*sub.inputs, *statement.outs) if v.is_tensor}
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

    def _ends(self, stores: list[Value]) -> list[str]:
        """How stored values leave a segment, if not for another segment."""
        outputs = set(self._fusion.output_values)
        words: list[str] = []
        for value in stores:
            chains = [c for c in self._chains if c.root is value and c.statements]
            ends = [chain.end for chain in chains]
            if value in outputs:
                words.append(f"{value} is an output")
            words += [
                f"{value} leaves through {' -> '.join(chain.operations)}, metadata"
                for chain in chains
                if chain.end in outputs and self._placed[chain.end].base is not chain.end
            ]
            readers = {r: None for end in (value, *ends) for r in self._torch_reads.get(end, ())}
            words += [f"{value} is read by {reader}, which torch runs" for reader in readers]
        return words


def _refusals(grouping: Grouping, kernels: Mapping[int, str]) -> dict[int, list[str]]:
    """Why each of the kernels, which are given with their names, is not one with others."""
    refusals: dict[int, list[str]] = {key: [] for key in kernels}
    for ends, reason in grouping.boundaries.items():
        if all(key in refusals for key in ends):
            for own, other in (ends, ends[::-1]):
                refusals[own].append(f"not merged with [{kernels[other]}]: {reason}")
    return refusals
