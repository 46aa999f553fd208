"""What operations take: instructions, and what they are done for, as far as that has a price."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Cast, Gather, Operation, Pointwise, Random, operands
from fuser.ir.pointwise import COMPARISONS, COSTLY, TABLE
from fuser.ir.random_numbers import COST
from fuser.segmenter.atoms import AtomSet
from fuser.segmenter.graph import OperationGraph
from fuser.segmenter.machine import WIDE, Machine
from fuser.segmenter.places import ALL

_LINE = 64
"""The least elements beside each other that are read as a line, whatever is chosen."""

_ROUNDINGS = {
    DataType.Half: 8,
    DataType.Float8_e4m3fn: 16,
    DataType.Float8_e5m2: 16,
    DataType.Float4_e2m1fn: 16,
}

_OF_POSITIONS = frozenset(("add", "sub", "mul", "neg", *COMPARISONS))
"""What, of positions, is a coordinate too, or is compared in 32 bits."""

_DIVISIONS = frozenset({"div", "reciprocal", "rsqrt", "sqrt", "truediv"})
"""What divides, or takes a root; a "div" of whole numbers is another function."""


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
    return Counter({work: operation_cost(operations, member, machine)})


def operation_cost(operations: OperationGraph, member: int, machine: Machine) -> int:
    """Instructions for one element, roughly. A position is a coordinate, which is there anyway, as
    are sums and multiples of positions, until they are computed with."""
    op = operations.nodes[member].op
    if operations.nodes[member].outs[0] in operations.positions:
        return 0
    if isinstance(op, Gather):
        alone = machine.gathered + (0 if op.in_range else machine.checked)
        return 1 if _reads_lines(op) else alone
    if isinstance(op, Random):
        return COST[op.distribution]
    if isinstance(op, Cast):
        return WIDE if _reads_wide(op) or op.dtype.itemsize > 4 else 1
    if not isinstance(op, Pointwise):
        return 1
    cost = TABLE[op.op].cost
    if op.op in _OF_POSITIONS or not _reads_wide(op):
        return cost
    return cost * (machine.wide if is_costly(op) else WIDE)


def is_costly(op: Operation) -> bool:
    """Whether an operation is a function of many instructions, of floats."""
    if not isinstance(op, Pointwise) or TABLE[op.op].cost < COSTLY:
        return False
    return not _of_whole_numbers(op)


def is_divided(op: Operation) -> bool:
    """Whether an operation divides floats or takes a root of them: one unit of a processor does
    so, for some lanes after others, whatever else is done meanwhile."""
    if not isinstance(op, Pointwise) or op.op not in _DIVISIONS:
        return False
    return op.op != "div" or not _of_whole_numbers(op)


def _of_whole_numbers(op: Pointwise) -> bool:
    return all(value.dtype.is_integral for value in operands(op))


def repeated_cost(operations: OperationGraph, member: int, machine: Machine) -> int:
    """`operation_cost` where it is done more often than there are elements."""
    longer = machine.functions if is_costly(operations.nodes[member].op) else 1
    return operation_cost(operations, member, machine) * longer


def size_in_text(op: Operation, machine: Machine) -> int:
    """The operations that one counts as where the size of a kernel is bounded.

    What g++ takes to combine the instructions of roundings grows with the square of their number:
    for 128 to Half, or 64 to 8 bits, 10 seconds and 0.9 GB.
    """
    if not machine.rounds_in_software or not isinstance(op, Cast):
        return 1
    return _ROUNDINGS.get(op.dtype, 1)


def _reads_lines(op: Gather) -> bool:
    """Whether an index chooses whole lines of neighbours, which are read as they lie: as they do
    where dimensions are in the order of memory."""
    one_index = op.mode in ("index_select", "select")
    return one_index and math.prod(op.arg.shape[op.dim + 1 :]) >= _LINE


def _reads_wide(op: Pointwise | Cast) -> bool:
    """Whether an operation reads tensors of 64-bit numbers."""
    return any(value.is_tensor and value.dtype.itemsize > 4 for value in operands(op))
