"""The graph that is grouped: kernel operations as nodes, the tensors between them as edges.

Metadata operations inside are not nodes: they cost nothing, and a group repeats those it reads
through. Grouping contracts a copy of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import networkx as nx

from fuser.ir.nodes import (
    Cast,
    Full,
    Fusion,
    Iota,
    Pointwise,
    Statement,
    StrideOrder,
    Value,
    operands,
)
from fuser.ir.strided import Strided, is_metadata


@dataclass(frozen=True, slots=True)
class OperationGraph:
    """`nodes[i]` is a statement; `graph` has an edge i -> j where j reads, through metadata, i.

    Numbers from `len(nodes)` on stand for `externs`, so that paths through torch are seen.
    `reads[j]` lists the values that reach node j from outside its own statement: results of other
    nodes, and free values (inputs, extern results and aliases of them).
    """

    nodes: tuple[Statement, ...]
    externs: tuple[Statement, ...]
    graph: nx.DiGraph[int]
    reads: tuple[tuple[Value, ...], ...]
    owner: dict[Value, int]
    free: Mapping[Value, Strided]


def runs_in_kernel(statement: Statement) -> bool:
    """Whether generated code can compute a statement; torch runs the others."""
    return isinstance(statement.op, Pointwise | Cast | StrideOrder | Full | Iota) or is_metadata(
        statement.op
    )


def is_extern(statement: Statement) -> bool:
    """Whether torch runs a statement."""
    return not runs_in_kernel(statement) and any(out.is_tensor for out in statement.outs)


def build_graph(
    fusion: Fusion, free: Mapping[Value, Strided], stored: Collection[Value]
) -> OperationGraph:
    """The graph of what kernels must compute to store `stored`, given the `free` values."""
    definitions = fusion.definitions()
    needed = _needed(definitions, free, stored)
    nodes = tuple(
        statement
        for statement in fusion.statements
        if statement.outs[0] in needed
        and runs_in_kernel(statement)
        and statement.outs[0].is_tensor
        and (not is_metadata(statement.op) or statement.outs[0] in stored)
    )
    externs = tuple(statement for statement in fusion.statements if is_extern(statement))
    owner = {statement.out: index for index, statement in enumerate(nodes)}
    makers = {out: number for number, s in enumerate((*nodes, *externs)) for out in s.outs}
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(nodes) + len(externs)))
    reads: list[tuple[Value, ...]] = []
    for number, statement in enumerate((*nodes, *externs)):
        sources = _sources(statement, definitions, free, owner)
        reads.append(tuple(sources))
        origins = (free[value].base if value in free else value for value in sources)
        graph.add_edges_from((makers[value], number) for value in origins if value in makers)
    return OperationGraph(nodes, externs, graph, tuple(reads[: len(nodes)]), owner, free)


def has_detour(graph: nx.DiGraph[int], first: int, second: int) -> bool:
    """Whether a path leads from `first` to `second` through a third node."""
    return any(
        successor != second and nx.has_path(graph, successor, second)
        for successor in graph.successors(first)
    )


def contract(graph: nx.DiGraph[int], kept: int, gone: int) -> None:
    """Move the edges of `gone` to `kept` and remove it."""
    graph.add_edges_from((before, kept) for before in graph.predecessors(gone) if before != kept)
    graph.add_edges_from((kept, after) for after in graph.successors(gone) if after != kept)
    graph.remove_node(gone)


def execution_order(graph: nx.DiGraph[int]) -> list[int]:
    """Nodes in dependency order; of several that are ready, the lowest number first."""
    return list(nx.lexicographical_topological_sort(graph))


def _needed(
    definitions: Mapping[Value, Statement],
    free: Mapping[Value, Strided],
    stored: Collection[Value],
) -> set[Value]:
    needed: set[Value] = set()
    pending = list(stored)
    while pending:
        value = pending.pop()
        if value in needed or value in free or value not in definitions:
            continue
        needed.add(value)
        pending += operands(definitions[value].op)
    return needed


def _sources(
    statement: Statement,
    definitions: Mapping[Value, Statement],
    free: Mapping[Value, Strided],
    owner: Mapping[Value, int],
) -> list[Value]:
    """Tensors a statement reads, looking through metadata operations that are not nodes."""
    sources: dict[Value, None] = {}
    pending = list(operands(statement.op))[::-1]
    while pending:
        value = pending.pop()
        if not value.is_tensor:
            continue
        if value in free or value in owner:
            sources[value] = None
        else:
            pending += list(operands(definitions[value].op))[::-1]
    return list(sources)
