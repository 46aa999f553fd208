"""Bytes that a plan moves, against those of no fusion at all and those that nothing can save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fuser.ir.nodes import Cast, CheckIndex, Fusion, MetadataOperation, Statement, Value, operands
from fuser.runtime.plans.plan import Plan
from fuser.segmenter import (
    SegmentedFusion,
    bytes_moved,
    bytes_written,
    elements_of,
    elements_read,
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of device memory, read and written.

    moved: by the plan. alone: if each operation of the definition were a kernel of its own, views
    being free, and a cast part of the operation that it stands beside. least: if of every input
    what is needed were read once, and every output written once.
    """

    moved: int = 0
    alone: int = 0
    least: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.moved + other.moved, self.alone + other.alone, self.least + other.least)


def traffic_of(plan: Plan) -> Traffic:
    """The traffic of one execution."""
    return Traffic(plan.bytes_moved, _bytes_alone(plan.definition), _bytes_least(plan.segmented))


def _bytes_alone(fusion: Fusion) -> int:
    definitions, uses = fusion.definitions(), fusion.uses()
    outputs = frozenset(fusion.output_values)
    total = 0
    for statement in fusion.statements:
        if not statement.outs[0].is_tensor or _is_free(statement):
            continue
        if isinstance(statement.op, Cast) and not _converts_only(statement, definitions, uses):
            continue
        made = max(out.elements for out in statement.outs)
        for operand in dict.fromkeys(operands(statement.op)):
            if operand.is_tensor:
                source = _source(operand, definitions)
                count = min(source.elements, elements_of(statement, operand, made))
                total += count * source.dtype.itemsize
        total += sum(out.elements * _stored_size(out, uses, outputs) for out in statement.outs)
    return total


def _bytes_least(segmented: SegmentedFusion) -> int:
    fusion, memory = segmented.fusion, segmented.memory
    stored = tuple(
        output
        for output in fusion.outputs
        if output.alias_of is not None or memory[output.value].base not in fusion.inputs
    )
    loads = elements_read(replace(fusion, outputs=stored))
    return bytes_moved(loads, memory) + bytes_written([o.value for o in stored], memory)


def _is_free(statement: Statement) -> bool:
    """Whether a statement is no kernel of its own: metadata, and checks, which torch has too."""
    return isinstance(statement.op, MetadataOperation | CheckIndex)


def _converts_only(
    cast: Statement,
    definitions: Mapping[Value, Statement],
    uses: Mapping[Value, list[Statement]],
) -> bool:
    """Whether neither what makes a cast's operand nor what reads its result can do the cast."""
    maker = definitions.get(_source(next(operands(cast.op)), definitions))
    return maker is None and all(map(_is_free, uses.get(cast.out, ())))


def _source(value: Value, definitions: Mapping[Value, Statement]) -> Value:
    """What lies in memory where each operation is a kernel: a value before casts and metadata."""
    while (made := definitions.get(value)) is not None and (
        _is_free(made) or isinstance(made.op, Cast)
    ):
        value = next(operands(made.op))
    return value


def _stored_size(
    value: Value, uses: Mapping[Value, list[Statement]], outputs: frozenset[Value]
) -> int:
    """Bytes of an element as it is stored: that of a cast, if nothing else reads the value."""
    readers = uses.get(value, [])
    casts = [reader.out.dtype.itemsize for reader in readers if isinstance(reader.op, Cast)]
    if value in outputs or not casts or len(casts) < len(readers):
        return value.dtype.itemsize
    return min(casts)
