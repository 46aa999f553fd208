"""Guesses at the rows of a group.

    softmax of T0 [8192, 768]             8192                what every reduction keeps
    sums over columns, and over all       8192, or 768        what one sweeps, or what it keeps

A walk over the group's operations (`rows.py`) tells which of them are right.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.ir.nodes import Value, operands
from fuser.segmenter.atoms import NONE, AtomSet
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.machine import Machine


def row_guesses(
    operations: OperationGraph, members: Sequence[int], machine: Machine
) -> list[AtomSet]:
    """Guesses at the rows of a group with these reductions and scans, the best first.

    Where they keep different atoms, rows along the last dimension of the largest tensor come first:
    of the others, neighbours in memory are not neighbours in a row. No reduction need keep them:
    sums over columns and over everything are both sums over the rows. So are sums over columns
    alone where these are few. A machine that folds columns in strips rather takes columns for rows,
    unless something else than one number is folded over these.
    """
    atoms = operations.atoms
    all_kept = [operations.kept[member] for member in members]
    distinct = list(dict.fromkeys(all_kept))
    if len(distinct) == 1 and atoms.elements(distinct[0]) > machine.few_columns:
        return distinct
    largest = largest_value(operations, members)
    last = last_atoms(operations, members)

    def are_columns(kept: AtomSet) -> bool:
        return not kept.isdisjoint(last)

    def are_few(kept: AtomSet) -> bool:
        return are_columns(kept) and atoms.elements(kept) <= machine.few_columns

    def in_strips(kept: AtomSet) -> bool:
        others = {each for each in all_kept if each != kept}
        columns = machine.folds_in_strips and are_columns(kept) and not are_few(kept)
        return columns and kept in distinct and others <= {NONE}

    def rank(kept: AtomSet) -> tuple[bool, bool, int, list[int]]:
        return not in_strips(kept), are_columns(kept), -atoms.elements(kept), sorted(kept)

    if len(distinct) == 1 and not are_few(distinct[0]):
        return distinct
    complements = (atoms.of(largest) - kept for kept in distinct)
    return sorted(dict.fromkeys((*distinct, *complements)), key=rank)


def last_atoms(operations: OperationGraph, members: Sequence[int]) -> AtomSet:
    """The atoms of neighbours in memory, in the largest tensor."""
    largest = largest_value(operations, members)
    factors = [factor for factor in operations.atoms.factors(largest) if factor]
    return frozenset(factors[-1][-1:]) if factors else NONE


def largest_value(operations: OperationGraph, members: Sequence[int]) -> Value:
    """The largest tensor that these read or make."""
    atoms, nodes = operations.atoms, [operations.nodes[member] for member in members]
    values = dict.fromkeys(node.outs[0] for node in nodes)
    for node in nodes:
        values.update(dict.fromkeys(value for value in operands(node.op) if value.is_tensor))
    return max(values, key=lambda value: atoms.elements(atoms.of(value)))


def in_memory(operations: OperationGraph, members: Sequence[int]) -> Sequence[int]:
    """The atoms of the largest tensor, neighbours in memory first."""
    reads = (read.value for member in members for read in operations.reads[member])
    return operations.in_memory(reads, largest_value(operations, members))


def rows_alternate(
    operations: OperationGraph, members: Sequence[int], kept: AtomSet, machine: Machine
) -> bool:
    """Whether rows that number `kept` lie in memory in pieces that are too short to be swept one by
    one, a piece of each after the other, which together are long enough."""
    piece = 1
    for atom in in_memory(operations, members):
        size = operations.atoms.size(atom)
        if atom in kept:
            return piece * size >= machine.shortest_piece
        piece *= size
        if piece >= machine.shortest_piece:
            break
    return False
