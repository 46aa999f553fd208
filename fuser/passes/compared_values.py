"""Values that are compared with others are made in one way, in whichever kernels make them.

    T1 = fd.ops.gelu(T0)
    T2 = fd.ops.max(T1, dims=[1])         a result: a fusion to come may look where T1 equals it
    T3 = fd.ops.eq(T1, T2)

Kernels have several functions of one name, for a vector and for a number, exact for 32 bits and for
16, and compilers contract a product and a sum to one operation that rounds once where both are in
one expression. If T1 were made in two ways, no element would equal the largest one, and a gradient
that is shared out over those that do would be 0 / 0. So what T1 is made of, back to what is read
or summed, is marked `alike`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from fuser.ir.nodes import (
    Cast,
    Constant,
    Extern,
    Full,
    Fusion,
    Gather,
    MetadataOperation,
    Pointwise,
    Reduce,
    Scan,
    Scatter,
    Statement,
    StrideOrder,
    Value,
    operands,
)
from fuser.ir.pointwise import COMPARISONS, EQUALITIES, EXACT_ROWS

_EXTREMES = ("max", "min", "cummax", "cummin")

_Definitions = Mapping[Value, Statement]


def make_compared_alike(fusion: Fusion) -> Fusion:
    """`fusion` with every operation marked that makes what is compared with an extreme, or for
    equality with what is no constant."""
    wanted = set(_compared(fusion))
    statements: list[Statement] = []
    for statement in reversed(fusion.statements):
        is_marked = not wanted.isdisjoint(statement.outs) and _is_repeated(statement)
        if is_marked:
            wanted.update(operands(statement.op))
        statements.append(_marked(statement) if is_marked else statement)
    return dataclasses.replace(fusion, statements=tuple(reversed(statements)))


def has_compared_values(fusion: Fusion) -> bool:
    """Whether an operation is marked, so that no compiler may contract it."""
    return any(isinstance(s.op, Pointwise) and s.op.alike for s in fusion.statements)


def _compared(fusion: Fusion) -> Iterator[Value]:
    """What is compared, and what a result is the extreme of."""
    definitions = fusion.definitions()
    for value in fusion.output_values:
        if (extreme := _extreme(value, definitions)) is not None:
            yield extreme
    for statement in fusion.statements:
        match statement.op:
            case Pointwise(op, args) if op in COMPARISONS and args[0] != args[1]:
                floats = all(arg.dtype.is_floating for arg in args)
                if floats and _is_exact(op, args, definitions):
                    yield from args
            case _:
                pass


def _is_exact(op: str, args: tuple[Value, ...], definitions: _Definitions) -> bool:
    """Whether the outcome of a comparison shows how its operands are rounded."""
    if any(_extreme(arg, definitions) is not None for arg in args):
        return True
    return op in EQUALITIES and not any(_is_constant(arg, definitions) for arg in args)


def _extreme(value: Value, definitions: _Definitions) -> Value | None:
    """Of what a value is the largest or smallest element, perhaps in another type or shape."""
    statement = _source(value, definitions)
    match statement and statement.op:
        case Reduce(op, arg) | Scan(op, arg) if op in _EXTREMES and arg.dtype.is_floating:
            return arg
        case Scatter(src=src, joins="maximum" | "minimum") if src.dtype.is_floating:
            return src
        case _:
            return None


def _is_constant(value: Value, definitions: _Definitions) -> bool:
    statement = _source(value, definitions)
    is_made = statement is not None and isinstance(statement.op, Constant | Full)
    return is_made or not value.is_tensor


def _source(value: Value, definitions: _Definitions) -> Statement | None:
    """What makes the numbers of a value, which may have another type or shape, or be looked up."""
    statement = definitions.get(value)
    while statement is not None and isinstance(
        statement.op, Cast | StrideOrder | MetadataOperation | Gather
    ):
        statement = definitions.get(statement.op.arg)
    return statement


def _is_repeated(statement: Statement) -> bool:
    """Whether what is made of the same operands is the same in any kernel: no sum is, whose terms
    kernels add in different orders, and torch's operations and scatters are made once."""
    match statement.op:
        case Reduce(op) | Scan(op):
            return op in _EXTREMES
        case Extern() | Scatter():
            return False
        case _:
            return True


def _marked(statement: Statement) -> Statement:
    op = statement.op
    if not isinstance(op, Pointwise) or op.op in EXACT_ROWS:
        return statement
    return dataclasses.replace(statement, op=dataclasses.replace(op, alike=True))
