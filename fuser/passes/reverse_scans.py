"""Scans between two flips go the other way.

T1 = fd.ops.flip(T0, dims=[1])
T2 = fd.ops.cumsum(T1, dim=1)
T3 = fd.ops.flip(T2, dims=[1])
->
T3 = fd.ops.cumsum(T0, dim=1, reverse=True)

The gradient of a running sum is such: what reads it then shares its kernel.
"""

from __future__ import annotations

from fuser.ir.nodes import Flip, Fusion, Operation, Pointwise, Scan, Statement, Value
from fuser.passes.rewrite import Emitter, rewrite


def scan_in_reverse(fusion: Fusion) -> Fusion:
    """`fusion` without flips on both sides of a scan, copies of them included."""
    return rewrite(fusion, _reversed, may_copy=True)


def _reversed(statement: Statement, emit: Emitter) -> Operation | None:
    outer = statement.op
    if not isinstance(outer, Flip) or len(outer.dims) != 1:
        return None
    scan = _copied(outer.arg, emit)
    if not isinstance(scan, Scan) or (scan.dim,) != outer.dims:
        return None
    inner = _copied(scan.arg, emit)
    if not isinstance(inner, Flip) or inner.dims != outer.dims:
        return None
    return Scan(scan.op, inner.arg, scan.dim, not scan.reverse)


def _copied(value: Value, emit: Emitter) -> Operation | None:
    """What makes a value, or what it is a copy of."""
    op = emit.producer(value)
    while isinstance(op, Pointwise) and op.op == "set":
        op = emit.producer(op.args[0])
    return op
