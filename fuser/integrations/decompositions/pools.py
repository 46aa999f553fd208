"""Pools of images as operations on elements, [..., height, width] or [..., depth, height, width].

Elements of windows, and windows of elements, are slices (`image_windows.py`). So neither direction
reads an index, and both are fused with what is around. Pools along one dimension come as those of
images of one row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.fx import Node

from fuser.integrations.decompositions.image_windows import MOST_ALONG, MOST_ELEMENTS
from fuser.integrations.decompositions.pool_maxima import (
    MOST_OF_16_BITS,
    MOST_SHARED,
    MOST_STRIDE,
    MOST_WINDOWS,
    adaptive_max_pool,
    adaptive_max_pool_backward,
    max_pool_with_indices,
    max_pool_with_indices_backward,
)
from fuser.integrations.decompositions.pool_means import (
    adaptive_avg_pool,
    adaptive_avg_pool_backward,
    avg_pool,
    avg_pool_backward,
)
from fuser.integrations.fx.nodes import is_static, meta_of

_aten: Any = torch.ops.aten


@dataclass(frozen=True, slots=True)
class _Pool:
    """A decomposition by the number of dimensions, which argument is the image, and what windows
    are that it leaves to torch."""

    decomposition: Callable[..., Any]
    image: int
    left: str


_MANY = (
    f"have more than {MOST_ALONG} elements along all dimensions together, or, with strides of 3 or "
    f"more, {MOST_ELEMENTS} elements"
)
_OVERLAPPING = f"its windows overlap and {_MANY}"
_LARGE = f"its windows {_MANY} (of 16 bits in volumes, {MOST_OF_16_BITS} with strides of 2 or more)"
_SHARED = (
    f"{_LARGE}, or have gaps, or, with channels innermost or strides above {MOST_STRIDE}, its "
    f"elements are in more than {MOST_WINDOWS} of them"
)
_UNEQUAL = "its windows are not of one size, or there are none"
_NOT_FEW = f"its windows are not of one size, or are several of more than {MOST_SHARED} elements"

_NAMED = {
    "avg_pool{}d": _Pool(avg_pool, 0, _OVERLAPPING),
    "avg_pool{}d_backward": _Pool(avg_pool_backward, 1, _OVERLAPPING),
    "_adaptive_avg_pool{}d": _Pool(adaptive_avg_pool, 0, _UNEQUAL),
    "_adaptive_avg_pool{}d_backward": _Pool(adaptive_avg_pool_backward, 1, _UNEQUAL),
    "adaptive_max_pool{}d": _Pool(adaptive_max_pool, 0, _NOT_FEW),
    "adaptive_max_pool{}d_backward": _Pool(adaptive_max_pool_backward, 1, _NOT_FEW),
    "max_pool{}d_with_indices": _Pool(max_pool_with_indices, 0, _LARGE),
    "max_pool{}d_with_indices_backward": _Pool(max_pool_with_indices_backward, 1, _SHARED),
}
_POOLS: dict[Any, tuple[int, _Pool]] = {
    getattr(_aten, name.format(rank)).default: (rank, pool)
    for name, pool in _NAMED.items()
    for rank in (2, 3)
}
POOLS: dict[Any, Callable[..., Any]] = {
    operation: functools.partial(pool.decomposition, rank)
    for operation, (rank, pool) in _POOLS.items()
}
"""The decompositions."""


def refusal(node: Node) -> str | None:
    """Why tracing left a pool; None of other nodes."""
    if node.target not in _POOLS:
        return None
    rank, pool = _POOLS[node.target]
    image = cast(torch.Tensor, meta_of(cast(Node, node.args[pool.image])))
    if pool.left in (_UNEQUAL, _NOT_FEW) and not all(map(is_static, image.shape[-rank:])):
        return "its image's size is not known before the call, nor that of its windows"
    return pool.left if image.is_floating_point() else "its image is of integers"
