"""Reductions, scans and what sorts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fuser.frontend.handles import Handle
from fuser.integrations.aten.lowering import Lowering
from fuser.integrations.aten.moves import along
from fuser.integrations.aten.row import Lower, Row, row
from fuser.integrations.fx.nodes import tensor_of
from fuser.ir.dtypes import DataType

_aten: Any = torch.ops.aten
Dims = int | Sequence[int] | None


def _dims(dims: Dims) -> list[int] | None:
    """The dimensions; none given means all."""
    if dims is None:
        return None
    return [dims] if isinstance(dims, int) else list(dims) or None


def _in(b: Lowering, self: Any, dtype: Any) -> Handle:
    """The operand in the type of the result where that is asked for."""
    x = b.tensor(self)
    return x if dtype is None or x.dtype() is b.dtype.compute else b.ops.cast(x, b.dtype)


def _reduced(name: str) -> Lower:
    def lower(
        b: Lowering, self: Any, dim: Dims = None, keepdim: bool = False, dtype: Any = None
    ) -> Handle:
        return getattr(b.ops, name)(_in(b, self, dtype), _dims(dim), keepdim)

    return lower


def _variance(name: str) -> Lower:
    def lower(b: Lowering, self: Any, dim: Dims, correction: Any, keepdim: bool) -> Any:
        less = 1 if correction is None else int(correction)
        return getattr(b.ops, name)(b.tensor(self), _dims(dim), less, keepdim)

    return lower


def _whole_correction(node: Any, **given: Any) -> str | None:
    less = given["correction"]
    if isinstance(less, Node):
        return "correction is not known before the call"
    return None if less is None or less == int(less) else f"correction={less} is no whole number"


def _made_of_complex(node: Node, **given: Any) -> str | None:
    """A definition would have torch run it too, by more calls."""
    complex_ = tensor_of(given["self"]).is_complex() or tensor_of(node).is_complex()
    return "it is of complex numbers" if complex_ else None


def _place(name: str) -> Lower:
    def lower(b: Lowering, self: Any, dim: int | None, keepdim: bool) -> Handle:
        return getattr(b.ops, name)(b.tensor(self), dim, keepdim)

    return lower


def _extreme(name: str) -> Lower:
    def lower(b: Lowering, self: Any, dim: int, keepdim: bool) -> tuple[Handle, Handle]:
        x = b.tensor(self)
        ordered = b.ops.cast(x, DataType.Int32) if x.dtype() is DataType.Bool else x
        place = getattr(b.ops, f"arg{name}")(ordered, dim, keepdim)
        return getattr(b.ops, name)(x, [dim], keepdim), place

    return lower


def _scanned(name: str) -> Lower:
    def lower(b: Lowering, self: Any, dim: int, dtype: Any) -> Handle:
        x = _in(b, self, dtype)
        return getattr(b.ops, name)(x, dim) if x.ndim else b.ops.cast(x, b.dtype)

    return lower


def _running_extreme(name: str, meets: str) -> Lower:
    """Values and places: of equal ones the last, and of NaN, from the first on."""

    def lower(b: Lowering, self: Any, dim: int) -> tuple[Handle, Handle]:
        x = b.tensor(self)
        if not x.ndim:
            return b.ops.set(x), b.ops.full([], 0, DataType.Int)
        ordered = b.ops.cast(x, DataType.Int32) if x.dtype() is DataType.Bool else x
        values = getattr(b.ops, name)(ordered, dim)
        # Where the value is its own, the extreme so far is there.
        own = getattr(b.ops, meets)(ordered, values)
        if x.dtype().is_floating:
            own = b.ops.logical_or(own, b.ops.isnan(x))
        place = along(b, b.ops.iota(b.size(x, dim % x.ndim)), dim % x.ndim, x.ndim)
        return values, b.ops.cummax(b.ops.where(own, place, 0), dim)

    return lower


def _topk(b: Lowering, self: Any, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    return b.ops.topk(b.exact(self), k, dim, largest, sorted)


ROWS: tuple[Row, ...] = (
    row(_aten.sum.default, _reduced("sum")),
    row(_aten.sum.dim_IntList, _reduced("sum")),
    row(_aten.prod.default, _reduced("prod"), refuse=_made_of_complex),
    row(_aten.prod.dim_int, _reduced("prod"), refuse=_made_of_complex),
    row(_aten.mean.default, _reduced("mean")),
    row(_aten.mean.dim, _reduced("mean")),
    row(_aten.amax.default, _reduced("max")),
    row(_aten.amin.default, _reduced("min")),
    row(_aten.max.default, _reduced("max")),
    row(_aten.min.default, _reduced("min")),
    row(_aten.any.default, _reduced("any")),
    row(_aten.any.dim, _reduced("any")),
    row(_aten.any.dims, _reduced("any")),
    row(_aten.all.default, _reduced("all")),
    row(_aten.all.dim, _reduced("all")),
    row(_aten.all.dims, _reduced("all")),
    row(_aten.var.correction, _variance("var"), refuse=_whole_correction),
    row(_aten.var_mean.correction, _variance("var_mean"), refuse=_whole_correction),
    row(_aten.argmax.default, _place("argmax")),
    row(_aten.argmin.default, _place("argmin")),
    row(_aten.max.dim, _extreme("max")),
    row(_aten.min.dim, _extreme("min")),
    row(_aten.cumsum.default, _scanned("cumsum"), refuse=_made_of_complex),
    row(_aten.cumprod.default, _scanned("cumprod"), refuse=_made_of_complex),
    row(_aten.cummax.default, _running_extreme("cummax", "ge")),
    row(_aten.cummin.default, _running_extreme("cummin", "le")),
    row(_aten.topk.default, _topk),
)
