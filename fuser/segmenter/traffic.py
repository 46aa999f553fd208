"""What a kernel reads and stores: elements of each tensor, and bytes of device memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from fuser.ir.nodes import (
    Extern,
    Fusion,
    Gather,
    Reduce,
    Scan,
    Scatter,
    ScatterForm,
    Statement,
    Value,
    operands,
)
from fuser.ir.strided import Strided


def elements_read(fusion: Fusion) -> dict[Value, int]:
    """How many elements of each input are needed to compute the outputs.

    A gather, a slice and what cuts in other ways need no more of an operand than they make.
    """
    wanted: dict[Value, int] = {value: value.elements for value in fusion.output_values}
    for statement in reversed(fusion.statements):
        made = max(wanted.get(out, 0) for out in statement.outs)
        for operand in dict.fromkeys(operands(statement.op)):
            read = elements_of(statement, operand, made)
            wanted[operand] = min(operand.elements, wanted.get(operand, 0) + read)
    return {value: wanted.get(value, 0) for value in fusion.inputs if value.is_tensor}


def elements_of(reader: Statement, operand: Value, made: int) -> int:
    """How many elements of an operand are read to make `made` elements of the result, at most.

    What torch runs reads all of its operands, but of a table the rows that are looked up.
    """
    op = reader.op
    if made == 0:
        return 0
    if isinstance(op, Reduce | Scan):
        return operand.elements
    if isinstance(op, Gather) and operand is op.index and op.mode == "index_select":
        return operand.elements
    if isinstance(op, Scatter):
        return _scattered_from(op, operand)
    if isinstance(op, Extern):
        is_table = op.function == "embedding_fwd" and operand is op.args[1]
        return min(operand.elements, reader.out.elements) if is_table else operand.elements
    return min(operand.elements, made)


def _scattered_from(op: Scatter, operand: Value) -> int:
    """How many elements of an operand a scatter reads; in place, of `arg` what it changes."""
    points = math.prod(op.points)
    if operand is not op.arg:
        return min(operand.elements, points)
    if op.form is not ScatterForm.IN_PLACE:
        return operand.elements
    return 0 if op.joins is None else min(operand.elements, points)


def elements_written(fusion: Fusion) -> dict[Value, int]:
    """How many elements of each output are stored: of one that a scatter changes, its points."""
    written = {value: value.elements for value in fusion.output_values}
    for statement in fusion.statements:
        op, out = statement.op, statement.outs[0]
        if isinstance(op, Scatter) and op.form is ScatterForm.IN_PLACE and out in written:
            written[out] = min(out.elements, math.prod(op.points))
    return written


def bytes_moved(elements: Mapping[Value, int], memory: Mapping[Value, Strided]) -> int:
    """Bytes moved to read, or to store, so many elements of each tensor.

    Tensors that lie in the same place are moved once; other views of one buffer are taken to be
    disjoint as far as the buffer has room for it. What `memory` does not place has its own buffer.
    """
    by_place: dict[Strided, int] = {}
    touched: dict[Value, int] = {}
    for value, count in elements.items():
        lies, nbytes = memory.get(value), count * value.dtype.itemsize
        if lies is None:
            touched[value] = touched.get(value, 0) + nbytes
        else:
            by_place[lies] = max(min(lies.bytes_touched, nbytes), by_place.get(lies, 0))
    for lies, nbytes in by_place.items():
        touched[lies.base] = touched.get(lies.base, 0) + nbytes
    return sum(min(found, base.elements * base.dtype.itemsize) for base, found in touched.items())


def bytes_written(stores: Iterable[Value], memory: Mapping[Value, Strided]) -> int:
    """Bytes moved to store tensors whole."""
    return bytes_moved({value: value.elements for value in stores}, memory)


def byte_count(count: int) -> str:
    """Bytes for a person: `805.3 MB`."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
