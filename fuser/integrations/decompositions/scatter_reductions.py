"""Scatters that join what goes to each place.

scatter_reduce(x, i, s, "mean")     sums over counts, each a scatter that adds
index_reduce(x, d, i, s, how)       scatter_reduce, the index of a slice for all its elements

Without what was there before, its places begin with what changes nothing. Other reductions than
sums and means are operations that partitions hold: see `aten/indexing.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

_aten: Any = torch.ops.aten
_EXTREMES = {"amax": -math.inf, "amin": math.inf}


def scatter_reduce(
    x: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    src: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    """`x`, and what goes to each place of it, joined as `reduce` says; or the latter alone, where
    something does."""
    if reduce in ("sum", "mean"):
        wide = torch.float32 if x.dtype in (torch.bfloat16, torch.float16) else x.dtype
        first = x if include_self else torch.scatter(x, dim, index, 0)
        total = torch.scatter_add(first.to(wide), dim, index, src.to(wide))
        if reduce == "mean":
            rounding = None if x.is_floating_point() else "floor"
            count = _count(total, dim, index, src, include_self)
            total = torch.div(total, count, rounding_mode=rounding)
        return total.to(x.dtype)
    if include_self or x.dtype is torch.bool:
        return NotImplemented
    first = torch.scatter(x, dim, index, _neutral(reduce, x.dtype))
    return torch.scatter_reduce(first, dim, index, src, reduce)


def index_reduce(
    x: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    """The same for slices along a dimension, each with one index."""
    if x.dim() == 0 or x.dtype is not source.dtype:
        return NotImplemented
    along = [1] * x.dim()
    along[dim] = -1
    places = index.view(along).expand(source.shape)
    return torch.scatter_reduce(x, dim, places, source, reduce, include_self=include_self)


def _count(
    total: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, include_self: bool
) -> torch.Tensor:
    """How many numbers went to each place. What was there counts as one; and so does nothing."""
    there = torch.full(total.shape, 1, dtype=total.dtype, device=total.device)
    there = there if include_self else torch.scatter(there, dim, index, 0)
    each = torch.full(src.shape, 1, dtype=total.dtype, device=total.device)
    return torch.scatter_add(there, dim, index, each)


def _neutral(reduce: str, dtype: torch.dtype) -> float:
    """What changes nothing that is joined to it."""
    if reduce == "prod":
        return 1
    if dtype.is_floating_point:
        return _EXTREMES[reduce]
    limits = torch.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


SCATTER_REDUCTIONS: dict[Any, Callable[..., Any]] = {
    _aten.scatter_reduce.two: scatter_reduce,
    _aten.index_reduce.default: index_reduce,
}
"""The decompositions."""
