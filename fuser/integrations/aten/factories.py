"""Tensors made of numbers: constants, ranges, random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fuser.frontend.handles import Handle
from fuser.integrations.aten.row import Kind, Row, row
from fuser.integrations.fx_types import is_static
from fuser.integrations.lowering import Lowering

_aten: Any = torch.ops.aten
_prims: Any = torch.ops.prims


def _full(b: Lowering, size: Sequence[Any], fill_value: Any) -> Handle:
    return b.ops.full(b.extents(size), b.operand(fill_value), b.dtype)


def _full_like(b: Lowering, self: Any, fill_value: Any) -> Handle:
    return b.ops.full(b.sizes(b.tensor(self)), b.operand(fill_value), b.dtype)


def _scalar_tensor(b: Lowering, s: Any) -> Handle:
    return b.ops.full([], b.operand(s), b.dtype)


def _arange(b: Lowering, start: Any, end: Any, step: Any) -> Handle:
    first, last = b.operand(start), b.operand(end)
    known = b.out.shape[0]
    if is_static(known):
        return b.ops.iota(int(known), first, b.operand(step), b.dtype)
    span = b.ops.sub(last, first) if step > 0 else b.ops.sub(first, last)
    pace = abs(int(step))
    if pace > 1:
        span = b.ops.div(b.ops.add(span, pace - 1), pace)
    return b.ops.iota(b.ops.maximum(span, 0), first, b.operand(step), b.dtype)


def _arange_to(b: Lowering, end: Any) -> Handle:
    return _arange(b, 0, end, 1)


def _arange_between(b: Lowering, start: Any, end: Any) -> Handle:
    return _arange(b, start, end, 1)


def _open_length(node: Any, **given: Any) -> str | None:
    step, ends = given.get("step", 1), (given.get("start", 0), given["end"])
    whole = [end for end in ends if not isinstance(end, float)]
    counted = isinstance(step, int | float) and step == int(step) != 0 and len(whole) == 2
    if isinstance(node.meta["val"].shape[0], int) or counted:
        return None
    return "its length does not follow from whole numbers"


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
    row(_aten.arange.default, _arange_to, Kind.FACTORY, _open_length),
    row(_aten.arange.start, _arange_between, Kind.FACTORY, _open_length),
    row(_aten.arange.start_step, _arange, Kind.FACTORY, _open_length),
    row(_prims.iota.default, _iota, Kind.FACTORY),
    row(_aten.rand.default, _rand),
    row(_aten.randn.default, _randn),
    row(_aten.rand_like.default, _rand_like),
    row(_aten.randn_like.default, _randn_like),
)
RANDOM = frozenset(r.overload for r in ROWS if "rand" in str(r.overload))
"""Overloads that give other numbers when they are run again."""
