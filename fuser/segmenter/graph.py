"""The graph that is grouped: kernel operations as nodes, the tensors between them as edges.

Metadata operations inside are not nodes: they cost nothing, and a group repeats those it reads
through.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Cat,
    CheckIndex,
    Expand,
    Full,
    Fusion,
    Gather,
    Iota,
    MetadataOperation,
    Pad,
    Permute,
    Pointwise,
    Random,
    Reduce,
    Scan,
    Scatter,
    Slice,
    Squeeze,
    Statement,
    StrideOrder,
    Value,
    operands,
)
from fuser.ir.strided import Strided, address_of
from fuser.segmenter.atoms import NONE, Atoms, AtomSet, Dimension
from fuser.segmenter.moves import Path, moves_of

POINT_OPERATIONS = Pointwise | Cast | StrideOrder | Full | Iota | Random
"""What is computed point by point, from operands at the same point or from none."""

KERNEL_OPERATIONS = POINT_OPERATIONS | CheckIndex | Reduce | Scan | Gather | Pad | Cat
"""What a kernel computes, beside metadata operations and scatters; torch runs the others."""

MOST_JOINED = 128
"""Tensors that a kernel joins: of 300, compilers take half a minute, and torch moves as much."""


@dataclass(frozen=True, slots=True)
class Read:
    """A value that reaches a node, the atoms at which it is read out of place, and the paths it is
    read on, each once."""

    value: Value
    misplaced: AtomSet
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class OperationGraph:
    """`nodes[i]` is a statement; `graph` has an edge i -> j where j reads, through metadata, i.

    Numbers from `len(nodes)` on stand for `externs`, so that paths through torch are seen.
    `reads[j]` lists what reaches node j from outside its own statement: results of other nodes, and
    free values (inputs, extern results and aliases of them). `kept[j]` are the atoms that a
    reduction or a scan keeps, and `scanned[j]` those along which a scan goes, outermost first.
    `positions` are sums and multiples of positions, which kernels have as coordinates.
    `maker` numbers the node or extern that makes a value. `orders` has the
    atoms of free values, neighbours in memory first: what kernels make of these lies alike.
    """

    nodes: tuple[Statement, ...]
    externs: tuple[Statement, ...]
    graph: nx.DiGraph[int]
    reads: tuple[tuple[Read, ...], ...]
    kept: Mapping[int, AtomSet]
    scanned: Mapping[int, tuple[int, ...]]
    positions: frozenset[Value]
    maker: Mapping[Value, int]
    free: Mapping[Value, Strided]
    atoms: Atoms
    orders: Mapping[AtomSet, Sequence[int]]

    def innermost(self, loads: Iterable[Value], like: Value) -> int | None:
        """The atom of neighbours in memory of a value, in the order of `in_memory`; None for one
        element."""
        return next(iter(self.in_memory(loads, like)), None)

    def in_memory(self, loads: Iterable[Value], like: Value) -> Sequence[int]:
        """The atoms of a value, neighbours in memory first, in the order of a load that has the
        same ones, as channels of images may be the last there, or else of any free value."""
        held = self.atoms.of(like)
        for value in loads:
            memory = self.free.get(value)
            if memory is not None and self.atoms.of(value) == held:
                return _from_innermost(self.atoms.factors(value), memory.strides)
        dims = self.atoms.factors(like)
        return self.orders.get(held) or _from_innermost(dims, range(len(dims), 0, -1))

    def node_of(self, value: Value) -> int | None:
        """The node that makes a value; None for one that is free."""
        return None if value in self.free else self.maker.get(value)

    def address_count(self, values: Iterable[Value]) -> int:
        """From how many addresses a kernel reads values."""
        return len({address_of(value, self.free) for value in values})


def runs_in_kernel(statement: Statement) -> bool:
    """Whether a kernel can compute a statement; torch runs the others."""
    op = statement.op
    if isinstance(op, Scatter):
        return op.in_kernel
    if isinstance(op, Cat):
        return len(op.args) <= MOST_JOINED
    return isinstance(op, KERNEL_OPERATIONS | MetadataOperation)


def is_extern(statement: Statement) -> bool:
    """Whether torch runs a statement."""
    return not runs_in_kernel(statement) and any(out.is_tensor for out in statement.outs)


def build_graph(
    fusion: Fusion, free: Mapping[Value, Strided], stored: Collection[Value]
) -> OperationGraph:
    """The graph of what kernels must compute to store `stored`, given the `free` values."""
    definitions = fusion.definitions()
    nodes = _nodes(fusion, _needed(definitions, free, stored), stored)
    externs = tuple(statement for statement in fusion.statements if is_extern(statement))
    maker = {out: number for number, s in enumerate((*nodes, *externs)) for out in s.outs}
    atoms = Atoms(fusion)
    _match_domains(nodes, atoms)
    reads = [_reads(s, definitions, free, maker, atoms) for s in (*nodes, *externs)]
    graph = _edges(reads, free, maker)
    scanned = {n: along for n, node in enumerate(nodes) if (along := _scanned(node, atoms))}
    kept = {
        number: atoms.of(node.outs[0]).difference(scanned.get(number, ()))
        for number, node in enumerate(nodes)
        if isinstance(node.op, Reduce) or number in scanned
    }
    own_reads = tuple(reads[: len(nodes)])
    orders = _orders(free, atoms)
    positions = _positions(fusion)
    return OperationGraph(
        nodes, externs, graph, own_reads, kept, scanned, positions, maker, free, atoms, orders
    )


def _positions(fusion: Fusion) -> frozenset[Value]:
    """Positions, their sums, and multiples by numbers, also as metadata operations show them."""
    found = set[Value]()
    for statement in fusion.statements:
        op, out = statement.op, statement.outs[0]
        match op:
            case Iota():
                is_position = True
            case Broadcast() | Expand() | Permute() | Squeeze() | Slice():
                is_position = op.arg in found
            case Pointwise(op="add" | "sub" | "mul" | "neg") if out.dtype.is_integral:
                tensors = [arg for arg in op.args if arg.is_tensor]
                squared = op.op == "mul" and len(tensors) > 1
                is_position = bool(tensors) and found.issuperset(tensors) and not squared
            case _:
                is_position = False
        if is_position:
            found.add(out)
    return frozenset(found)


def _orders(free: Mapping[Value, Strided], atoms: Atoms) -> dict[AtomSet, Sequence[int]]:
    """The atoms of tensors in the order of memory; of several that have these, the first one's."""
    found: dict[AtomSet, Sequence[int]] = {}
    for value, memory in free.items():
        if atoms.of(value) not in found:
            found[atoms.of(value)] = _from_innermost(atoms.factors(value), memory.strides)
    return found


def _from_innermost(dims: Sequence[Dimension], strides: Sequence[int]) -> Sequence[int]:
    """The atoms of dimensions by how far apart neighbours lie; last, where all are one element."""
    steps = [abs(stride) or math.inf for stride in strides]
    return [atom for _, dim in sorted(zip(steps, dims, strict=True)) for atom in reversed(dim)]


def _nodes(
    fusion: Fusion, needed: Collection[Value], stored: Collection[Value]
) -> tuple[Statement, ...]:
    """What kernels compute of what is `needed`. Metadata alone is no node: who reads it reads what
    it is made of, unless it is `stored`."""
    return tuple(
        statement
        for statement in fusion.statements
        if any(out in needed for out in statement.outs)
        and runs_in_kernel(statement)
        and statement.outs[0].is_tensor
        and (not isinstance(statement.op, MetadataOperation) or statement.outs[0] in stored)
    )


def _edges(
    reads: Sequence[Sequence[Read]], free: Mapping[Value, Strided], maker: Mapping[Value, int]
) -> nx.DiGraph[int]:
    """From who makes a value, or the memory it is seen in, to each statement that reads it."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(reads)))
    for number, own in enumerate(reads):
        origins = (free[read.value].base if read.value in free else read.value for read in own)
        graph.add_edges_from((maker[value], number) for value in origins if value in maker)
    return graph


def _scanned(statement: Statement, atoms: Atoms) -> tuple[int, ...]:
    """The atoms along which a statement scans; none for a scan of one element."""
    op = statement.op
    return atoms.factors(statement.outs[0])[op.dim] if isinstance(op, Scan) else ()


def _match_domains(nodes: tuple[Statement, ...], atoms: Atoms) -> None:
    """Let reductions of one pattern, which nothing else relates, share their rows.

    So does a tensor full of one number: any element of it can be made anywhere.
    """
    first: dict[tuple[tuple[int, ...], tuple[int, ...]], Value] = {}
    for statement in nodes:
        if isinstance(statement.op, Reduce):
            arg = statement.op.arg
            other = first.setdefault((arg.shape, statement.op.dims), arg)
            if atoms.of(arg).isdisjoint(atoms.of(other)):
                atoms.match(arg, other)
    made = {s.outs[0].shape: s.outs[0] for s in nodes if isinstance(s.op, Reduce)}
    for statement in nodes:
        other = made.get(statement.outs[0].shape)
        if isinstance(statement.op, Full) and other is not None:
            atoms.match(statement.outs[0], other)


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


def _reads(
    statement: Statement,
    definitions: Mapping[Value, Statement],
    free: Mapping[Value, Strided],
    maker: Mapping[Value, int],
    atoms: Atoms,
) -> tuple[Read, ...]:
    """Tensors a statement reads, looking through metadata operations that are not nodes."""
    found: dict[Value, AtomSet] = {}
    paths: dict[Value, dict[Path, None]] = {}

    def reads(reader: Statement, outside: AtomSet, path: Path) -> list[tuple[Value, AtomSet, Path]]:
        """Its operands, last first."""
        each = enumerate(operands(reader.op))
        return [
            (
                value,
                outside | atoms.misplaced(reader.outs[0], value),
                (*path, *moves_of(reader, number, value, atoms)),
            )
            for number, value in each
            if value.is_tensor
        ][::-1]

    pending = reads(statement, NONE, ())
    while pending:
        value, outside, path = pending.pop()
        if value in free or value in maker:
            found[value] = found.get(value, NONE) | (outside & atoms.of(value))
            paths.setdefault(value, {})[path] = None
        else:
            pending += reads(definitions[value], outside, path)
    return tuple(Read(value, found[value], tuple(paths[value])) for value in found)
