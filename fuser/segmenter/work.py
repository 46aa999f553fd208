"""What operations are to be done for, beside their instructions, as far as it has a price."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fuser.segmenter.atoms import AtomSet
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.places import ALL
from fuser.segmenter.profit import Machine, is_costly, is_divided, operation_cost


@dataclass(frozen=True, slots=True)
class Work:
    """What the price of operations depends on beside their instructions."""

    elements: int
    """How many each makes."""

    atoms: AtomSet
    """What these are indexed by."""

    share: int
    """Of the domain, of which `ALL` is all: what they are done for."""

    is_costly: bool
    """Whether they are functions of many instructions."""

    is_divided: bool
    """Whether they are divisions or roots."""


Arithmetic = Counter[Work]
"""Instructions for one element, by the work they are for."""


def arithmetic_of(
    operations: OperationGraph, member: int, machine: Machine, share: int = ALL
) -> Arithmetic:
    """That of one node, done for a share of the domain."""
    op, outs = operations.nodes[member].op, operations.nodes[member].outs
    indexed_by = frozenset[int]().union(*map(operations.atoms.of, outs))
    made = max(out.elements for out in outs)
    work = Work(made, indexed_by, share, is_costly(op), is_divided(op))
    return Counter({work: operation_cost(op, machine)})
