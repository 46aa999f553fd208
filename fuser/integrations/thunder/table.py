"""The Thunder table: for each of Thunder's primitives, the torch function it means.

Whether a definition can hold a primitive is asked of what the function traces to: see `forms.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from fuser.integrations.thunder.library import ltorch, prims

Meaning = Callable[..., Any]
Tensor = torch.Tensor
_aten: Any = torch.ops.aten
_torch: Any = torch
_ids: Any = prims.PrimIDs

_SAME_NAME = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos"),
    *("cosh", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "isfinite"),
    *("lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt"),
    *("signbit", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
    *("add", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "fmod", "ge", "gt", "le"),
    *("lt", "maximum", "minimum", "mul", "ne", "nextafter", "pow", "remainder", "sub"),
    *("bitwise_left_shift", "bitwise_right_shift", "lerp", "where"),
    *("amax", "amin", "argmax", "argmin", "topk", "var", "var_mean", "std"),
    *("full", "randn", "reshape", "squeeze", "cat", "flip", "clone"),
)
"""Primitives that take what the torch function of their name takes."""


def _div(a: Any, b: Any) -> Any:
    floating = any(isinstance(x, float) or _is_inexact(x) for x in (a, b))
    return torch.div(a, b, rounding_mode=None if floating else "trunc")


def _is_inexact(x: object) -> bool:
    return isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())


# -- casts and factories -------------------------------------------------------------------------


def _convert(a: Tensor, dtype: torch.dtype) -> Tensor:
    return a.to(dtype)


def _iota(length: int, *, start: int, step: int, device: Any, dtype: torch.dtype) -> Tensor:
    return torch.arange(start, start + length * step, step, device=device, dtype=dtype)


def _uniform(
    shape: Sequence[int], minval: float, maxval: float, *, device: Any, dtype: torch.dtype
) -> Tensor:
    numbers = torch.rand(shape, device=device, dtype=dtype)
    scaled = numbers if maxval - minval == 1 else numbers * (maxval - minval)
    return scaled + minval if minval else scaled


# -- shapes --------------------------------------------------------------------------------------


def _broadcast_in_dim(a: Tensor, shape: Sequence[int], dims: Sequence[int]) -> Tensor:
    for dim in range(len(shape)):
        if dim not in dims:
            a = a.unsqueeze(dim)
    return a if tuple(a.shape) == tuple(shape) else a.expand(shape)


def _pad(a: Tensor, value: Any, config: Sequence[tuple[int, int, int]]) -> Tensor:
    if any(dilation for _, _, dilation in config):
        raise NotImplementedError("a pad between elements")
    return functional.pad(
        a, [width for low, high, _ in config[::-1] for width in (low, high)], value=value
    )


def _slice(
    a: Tensor, starts: Sequence[int], ends: Sequence[int], strides: Sequence[int] | None = None
) -> Tensor:
    steps = strides or [1] * a.dim()
    return a[tuple(map(slice, starts, ends, steps))]


def _transpose(a: Tensor, permutation: Sequence[int]) -> Tensor:
    return a.permute(*permutation) if permutation else _aten.alias(a)


# -- reductions ----------------------------------------------------------------------------------


def _sum(a: Tensor, dims: Sequence[int]) -> Tensor:
    return torch.sum(a, tuple(dims), dtype=a.dtype)


def _prod(a: Tensor, dims: Sequence[int]) -> Tensor:
    for dim in sorted(dims, reverse=True):
        a = torch.prod(a, dim, dtype=a.dtype)
    return a


# -- gathers and scatters ------------------------------------------------------------------------


def _gather(a: Tensor, index: Tensor, dim: int) -> Tensor:
    return torch.gather(a, dim, index)


def _take_along_axis(a: Tensor, index: Tensor, dim: int) -> Tensor:
    return torch.take_along_dim(a, _widened(index), dim)


def _widened(index: Tensor) -> Tensor:
    """The index as torch takes it; Thunder makes indices of targets of any integers."""
    return index.long()


def _take(a: Tensor, index: Tensor, dim: int) -> Tensor:
    return torch.index_select(a, dim, index)


def _scatter(a: Tensor, index: Tensor, src: Any, dim: int) -> Tensor:
    return torch.scatter(a, dim, index, src)


def _scatter_add(a: Tensor, index: Tensor, value: Tensor, dim: int) -> Tensor:
    return torch.scatter_add(a, dim, index, value)


def _index_add(a: Tensor, index: Tensor, value: Tensor, dim: int) -> Tensor:
    return torch.index_add(a, dim, index, value)


def _index_copy(a: Tensor, index: Tensor, value: Tensor, dim: int) -> Tensor:
    return torch.index_copy(a, dim, index, value)


def _index_put(a: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool) -> Tensor:
    return torch.index_put(a, tuple(indices), values, accumulate)


def _embedding(
    a: Tensor,
    weight: Tensor,
    *,
    padding_idx: int | None = -1,
    max_norm: object = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    return _aten.embedding(weight, a)


def _nll_loss_backward(
    g: Tensor,
    a: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    total_weight: Tensor | None,
) -> Tensor:
    which = {"none": 0, "mean": 1, "sum": 2}[reduction]
    total = a.new_zeros(()) if total_weight is None else total_weight.to(a.dtype)
    target, rest = _widened(target), (weight, which, ignore_index, total)
    if a.dim() <= 2:
        return _aten.nll_loss_backward(g, a, target, *rest)
    batch, classes = a.shape[:2]  # torch takes images only
    g = g.reshape(batch, 1, -1) if g.dim() else g
    images = a.reshape(batch, classes, 1, -1)
    gradient = _aten.nll_loss2d_backward(g, images, target.reshape(batch, 1, -1), *rest)
    return gradient.reshape(a.shape)


ROWS: Mapping[Hashable, Meaning] = {
    **{_ids[name.upper()]: getattr(_torch, name) for name in _SAME_NAME},
    _ids.SIGN: _torch.sgn,
    _ids.DIV: _div,
    _ids.CONVERT_ELEMENT_TYPE: _convert,
    _ids.IOTA: _iota,
    _ids.UNIFORM: _uniform,
    _ids.BROADCAST_IN_DIM: _broadcast_in_dim,
    prims.pad.id: _pad,
    _ids.VIEW: _torch.reshape,
    _ids.SLICE: _slice,
    _ids.TRANSPOSE: _transpose,
    _ids.SHALLOW_COPY: _aten.alias,
    _ids.SUM: _sum,
    _ids.PROD: _prod,
    _ids.GATHER: _gather,
    _ids.TAKE: _take,
    _ids.TAKE_ALONG_AXIS: _take_along_axis,
    _ids.SCATTER: _scatter,
    _ids.SCATTER_ADD: _scatter_add,
    _ids.INDEX_ADD: _index_add,
    _ids.INDEX_COPY: _index_copy,
    _ids.INDEX_PUT: _index_put,
    _ids.EMBEDDING: _embedding,
    _ids.EMBEDDING_BACKWARD: _aten.embedding_backward,
    ltorch.cumsum.id: _torch.cumsum,
    ltorch.nll_loss_backward.id: _nll_loss_backward,
}
"""By the identifier of Thunder's symbol."""
