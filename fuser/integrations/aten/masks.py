"""Writes where a mask says so.

index_put(x, [None, mask], value)          a choice between the value and what `x` has, where the
                                           value is the same at all places of the mask
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fuser.frontend.handles import Handle
from fuser.integrations.fx_types import is_one, same_numbers, tensor_of
from fuser.integrations.lowering import Lowering


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
    given = [index for index in indices if index is not None]
    if len(given) != 1 or tensor_of(given[0]).dtype is not torch.bool:
        return False
    x, value, (dim, mask) = tensor_of(self), tensor_of(values), _mask_of(indices)
    over = tensor_of(mask).dim()
    if not over or (added and x.dtype is torch.bool):
        return False
    if not same_numbers(tensor_of(mask).shape, x.shape[dim : dim + over]):
        return False  # torch refuses it
    place = value.dim() - (x.dim() - dim - over) - 1
    return place < 0 or is_one(value.shape[place])


def _mask_of(indices: Sequence[Any]) -> tuple[int, Any]:
    """The first dimension that the mask covers, and the mask."""
    return next((dim, index) for dim, index in enumerate(indices) if index is not None)
