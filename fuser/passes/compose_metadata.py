"""Chains of views and permutes become one operation, or none.

T1 = fd.ops.reshape(T0, new_shape=[64, 128, 3072])          T0: Float[8192, 3072]
T2 = fd.ops.reshape(T1, new_shape=[8192, 3072])      ->     (T2 is T0)

T1 = fd.ops.permute(T0, dims=[0, 2, 1])
T2 = fd.ops.permute(T1, dims=[2, 0, 1])              ->     T2 = fd.ops.permute(T0, dims=[1, 0, 2])
"""

from __future__ import annotations

from fuser.ir.nodes import (
    Cast,
    Expand,
    Fusion,
    Operation,
    Permute,
    Squeeze,
    Statement,
    Value,
    View,
)
from fuser.passes.rewrite import Definitions, rewrite


def compose_metadata(fusion: Fusion) -> Fusion:
    """`fusion` with each view of a view and permute of a permute taken as one."""
    return rewrite(fusion, _compose)


def _compose(statement: Statement, definitions: Definitions) -> Operation | Value | None:
    op = statement.op
    match op:
        case View():
            source = _producer(op.arg, definitions)
            root = source.arg if isinstance(source, View) else op.arg
            if root.shape == statement.out.shape:
                return root
            return View(root, op.shape) if root is not op.arg else None
        case Permute():
            source = _producer(op.arg, definitions)
            dims, root = op.dims, op.arg
            if isinstance(source, Permute):
                dims, root = tuple(source.dims[dim] for dim in dims), source.arg
            if dims == tuple(range(len(dims))):
                return root
            return Permute(root, dims) if root is not op.arg else None
        case Expand() | Squeeze() if op.arg.shape == statement.out.shape:
            return op.arg
        case Cast() if op.arg.dtype is op.dtype:
            return op.arg
        case _:
            return None


def _producer(value: Value, definitions: Definitions) -> Operation | None:
    statement = definitions.get(value)
    return None if statement is None else statement.op
