"""A cast of a cast is one cast, where the first keeps every number.

T1 = fd.ops.cast(T0, dtype=DataType.Float)              T0: BFloat16
T2 = fd.ops.cast(T1, dtype=DataType.Half)        ->     T2 = fd.ops.cast(T0, dtype=DataType.Half)
T3 = fd.ops.cast(T1, dtype=DataType.BFloat16)    ->     (T3 is T0)

Elements may be relabelled between the two:

T1 = fd.ops.cast(T0, dtype=DataType.Float)              T0: BFloat16
T2 = fd.ops.permute(T1, dims=[1, 0])
T3 = fd.ops.cast(T2, dtype=DataType.BFloat16)    ->     T3 = fd.ops.permute(T0, dims=[1, 0])
"""

from __future__ import annotations

import dataclasses

from fuser.ir.dtypes import NUMBERS, DataType
from fuser.ir.nodes import Cast, Fusion, MetadataOperation, Operation, Statement, Value
from fuser.passes.rewrite import Emitter, rewrite

_COMPLEX = frozenset({DataType.ComplexFloat, DataType.ComplexDouble})
_FROM_FLOAT = _COMPLEX | {DataType.Double}
_FROM_HALF = _FROM_FLOAT | {DataType.Float}
_FROM_FLOAT8 = _FROM_HALF | {DataType.Half, DataType.BFloat16}
_FROM_FLOAT4 = _FROM_FLOAT8 | {DataType.Float8_e4m3fn, DataType.Float8_e5m2}
_FROM_INT16 = _FROM_HALF | {DataType.Int32, DataType.Int}
_FROM_INT8 = _FROM_INT16 | {DataType.Half, DataType.BFloat16, DataType.Int16}

PRESERVED_BY: dict[DataType, frozenset[DataType]] = {
    DataType.Bool: frozenset(NUMBERS) - {DataType.Float8_e8m0fnu},
    DataType.UInt64: frozenset(),
    DataType.UInt8: _FROM_INT8 | {DataType.UInt64},
    DataType.Int8: _FROM_INT8,
    DataType.Int16: _FROM_INT16,
    DataType.Int32: frozenset({DataType.Int, DataType.Double, DataType.ComplexDouble}),
    DataType.Int: frozenset(),
    DataType.Half: _FROM_HALF,
    DataType.BFloat16: _FROM_HALF,
    DataType.Float8_e4m3fn: _FROM_FLOAT8,
    DataType.Float8_e5m2: _FROM_FLOAT8,
    DataType.Float8_e8m0fnu: _FROM_HALF | {DataType.BFloat16},
    DataType.Float4_e2m1fn: _FROM_FLOAT4,
    DataType.Float4_e2m1fn_x2: frozenset(),
    DataType.Float: _FROM_FLOAT,
    DataType.Double: frozenset({DataType.ComplexDouble}),
    DataType.ComplexFloat: frozenset({DataType.ComplexDouble}),
    DataType.ComplexDouble: frozenset(),
}
"""The wider types that hold every number of a type."""


def compose_casts(fusion: Fusion) -> Fusion:
    """`fusion` with casts of casts taken as one, and none to the type a value has."""
    return rewrite(fusion, _compose)


def _compose(statement: Statement, emit: Emitter) -> Operation | Value | None:
    op = statement.op
    if not isinstance(op, Cast):
        return None
    relabelled, below = _relabelled(op.arg, emit)
    source = emit.producer(below)
    root = op.arg
    if isinstance(source, Cast) and source.dtype in PRESERVED_BY[source.arg.dtype]:
        root = source.arg
        for step in reversed(relabelled):
            root = emit.add(dataclasses.replace(step, arg=root))
    if root.dtype is op.dtype:
        return root
    return None if root is op.arg else Cast(root, op.dtype)


def _relabelled(value: Value, emit: Emitter) -> tuple[list[MetadataOperation], Value]:
    """The metadata operations that make a value, the last first, and what they are done to."""
    steps: list[MetadataOperation] = []
    step = emit.producer(value)
    while isinstance(step, MetadataOperation):
        steps.append(step)
        value = step.arg
        step = emit.producer(value)
    return steps, value
