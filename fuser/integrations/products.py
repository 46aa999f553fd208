"""Products between partitions, with large results on the processor in memory from the pool.

torch would page their memory in anew at each call: see `output_pool`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node

from fuser.integrations.fx_types import is_static, nbytes, tensor_of
from fuser.ir.types import dense_strides, row_major_order
from fuser.runtime.output_pool import POOL, POOLED_BYTES

_aten: Any = torch.ops.aten
Product = Callable[..., torch.Tensor]


def product_of(node: Node) -> Product:
    """What runs a product of a graph: torch's overload, or that into memory from the pool."""
    into = _INTO.get(node.target)
    return node.target if into is None or not _is_large(node) else into  # pyright: ignore


def _is_large(node: Node) -> bool:
    """Whether its result comes from the pool; where sizes are open, the call decides."""
    result = tensor_of(node)
    if result.device.type != "cpu" or not result.is_contiguous():
        return False
    return not all(map(is_static, result.shape)) or nbytes(node) >= POOLED_BYTES


def _mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _into(_aten.mm, (a.shape[0], b.shape[1]), a, b)


def _bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _into(_aten.bmm, (*a.shape[:2], b.shape[2]), a, b)


def _addmm(bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **scales: Any) -> torch.Tensor:
    return _into(_aten.addmm, (a.shape[0], b.shape[1]), bias, a, b, **scales)


def _baddbmm(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **scales: Any) -> torch.Tensor:
    return _into(_aten.baddbmm, (*a.shape[:2], b.shape[2]), x, a, b, **scales)


def _into(packet: Any, sizes: tuple[int, ...], *given: torch.Tensor, **scales: Any) -> torch.Tensor:
    size = math.prod(sizes) * given[0].element_size()
    if size < POOLED_BYTES or torch.is_grad_enabled():
        return packet.default(*given, **scales)
    strides = dense_strides(sizes, row_major_order(len(sizes)))
    made = POOL.empty_strided(sizes, strides, given[0].dtype, size)
    return packet.out(*given, **scales, out=made)


_INTO: Mapping[Any, Product] = {
    _aten.mm.default: _mm,
    _aten.bmm.default: _bmm,
    _aten.addmm.default: _addmm,
    _aten.baddbmm.default: _baddbmm,
}
