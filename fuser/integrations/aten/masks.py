"""Writes where a mask says so.

index_put(x, [None, mask], value)          a choice between the value and what `x` has, where the
                                           value is the same at all places of the mask
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fuser.frontend.handles import Handle
from fuser.integrations.aten.lowering import Lowering
from fuser.integrations.fx.nodes import is_one, same_numbers, tensor_of


def put_where(b: Lowering, self: Any, indices: Sequence[Any], values: Any, added: bool) -> Handle:
    """`x[..., mask, ...] = value`, or `+=`, of a value that `is_choice` allows."""
    x, value = b.exact(self), b.tensor(values)
    dim, mask = _mask_of(indices)
    chosen = b.tensor(mask)
    over, behind = chosen.ndim, x.ndim - dim - chosen.ndim
    if value.ndim > behind and over > 1:
        # Its dimension of one place stands for all those of the mask.
        at = value.ndim - behind
        value = b.ops.broadcast(
            value, [at <= d < at + over - 1 for d in range(value.ndim + over - 1)]
        )
    if behind:
        chosen = b.ops.broadcast(chosen, [d >= over for d in range(over + behind)])
    value = b.ops.add(x, value) if added else value
    return b.ops.where(chosen, b.ops.cast(value, b.dtype), x)


def is_choice(self: Any, indices: Sequence[Any], values: Any, added: bool) -> bool:
    """Whether there is one index, of truth values, and each of its places gets the same."""
    if sum(index is not None for index in indices) != 1:
        return False
    x, (dim, mask) = tensor_of(self), _mask_of(indices)
    if added and x.dtype is torch.bool:
        return False
    return gives_one_value(x, dim, tensor_of(mask), tensor_of(values))


def gives_one_value(x: torch.Tensor, before: int, mask: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether `x[..., mask, ...] = value` gives the same to all places of a mask that stands behind
    so many dimensions, `before`. A mask of another size than `x` is torch's to refuse, if not now
    then when it runs."""
    over = mask.dim()
    if mask.dtype is not torch.bool or not over:
        return False
    if not same_numbers(mask.shape, x.shape[before : before + over]):
        return False
    place = value.dim() - (x.dim() - before - over) - 1
    return place <= before and (place < 0 or is_one(value.shape[place]))


def _mask_of(indices: Sequence[Any]) -> tuple[int, Any]:
    """The first dimension that the mask covers, and the mask."""
    return next((dim, index) for dim, index in enumerate(indices) if index is not None)
