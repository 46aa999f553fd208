"""Tensors made of numbers: constants, ranges, random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fuser.frontend.handles import Handle
from fuser.integrations.aten.lowering import Lowering
from fuser.integrations.aten.row import Kind, Row, row
from fuser.integrations.fx.nodes import is_floating, is_static, tensor_of
from fuser.ir.dtypes import DataType

_aten: Any = torch.ops.aten
_prims: Any = torch.ops.prims


def _full(b: Lowering, size: Sequence[Any], fill_value: Any) -> Handle:
    return b.ops.full(b.extents(size), b.operand(fill_value), b.dtype)


def _full_like(b: Lowering, self: Any, fill_value: Any) -> Handle:
    return b.ops.full(b.sizes(b.tensor(self)), b.operand(fill_value), b.dtype)


def _scalar_tensor(b: Lowering, s: Any) -> Handle:
    return b.ops.full([], b.operand(s), b.dtype)


def _arange(b: Lowering, end: Any, start: Any = 0, step: Any = 1) -> Handle:
    first, last, known = b.operand(start), b.operand(end), b.out.shape[0]
    if is_static(known):
        count: Any = int(known)
    elif _counts(start, end, step):
        count = _steps(b, first, last, int(step))
    else:
        span = b.ops.sub(b.ops.cast(last, DataType.Double), first)
        count = b.ops.cast(b.ops.ceil(b.ops.truediv(span, step)), DataType.Int)
    length = count if isinstance(count, int) else b.ops.maximum(count, 0)
    return b.ops.iota(length, first, b.operand(step), b.dtype)


def _steps(b: Lowering, first: Any, last: Any, step: int) -> Handle:
    """How many steps of a whole number there are between two."""
    span = b.ops.sub(last, first) if step > 0 else b.ops.sub(first, last)
    pace = abs(step)
    return b.ops.div(b.ops.add(span, pace - 1), pace) if pace > 1 else span


def _open_length(node: Any, **given: Any) -> str | None:
    result, step = tensor_of(node), given.get("step", 1)
    if is_static(result.shape[0]) or _counts(given.get("start", 0), given["end"], step):
        return None
    # torch cuts the ends of a range of integers before it counts.
    known = isinstance(step, int | float) and step != 0 and result.is_floating_point()
    return None if known else "its length does not follow from whole numbers"


def _counts(start: Any, end: Any, step: Any) -> bool:
    """Whether a range goes by a whole number between whole numbers."""
    whole = isinstance(step, int | float) and step != 0 and float(step).is_integer()
    return whole and not is_floating(start) and not is_floating(end)


def _iota(b: Lowering, length: Any, start: Any, step: Any) -> Handle:
    return b.ops.iota(b.extent(length), b.operand(start), b.operand(step), b.dtype)


def _rand(b: Lowering, size: Sequence[Any]) -> Handle:
    return b.ops.uniform(0.0, 1.0, b.extents(size), dtype=b.dtype)


def _randn(b: Lowering, size: Sequence[Any]) -> Handle:
    return b.ops.normal(0.0, 1.0, b.extents(size), dtype=b.dtype)


def _rand_like(b: Lowering, self: Any) -> Handle:
    return b.ops.uniform(0.0, 1.0, b.sizes(b.tensor(self)), dtype=b.dtype)


def _randn_like(b: Lowering, self: Any) -> Handle:
    return b.ops.normal(0.0, 1.0, b.sizes(b.tensor(self)), dtype=b.dtype)


ROWS: tuple[Row, ...] = (
    row(_aten.full.default, _full, Kind.FACTORY),
    row(_aten.full_like.default, _full_like, Kind.FACTORY),
    row(_aten.scalar_tensor.default, _scalar_tensor, Kind.FACTORY),
    row(_aten.arange.default, _arange, Kind.FACTORY, _open_length),
    row(_aten.arange.start, _arange, Kind.FACTORY, _open_length),
    row(_aten.arange.start_step, _arange, Kind.FACTORY, _open_length),
    row(_prims.iota.default, _iota, Kind.FACTORY),
    row(_aten.rand.default, _rand),
    row(_aten.randn.default, _randn),
    row(_aten.rand_like.default, _rand_like),
    row(_aten.randn_like.default, _randn_like),
)
RANDOM = frozenset(r.overload for r in ROWS if "rand" in str(r.overload))
"""Overloads that give other numbers when they are run again."""
