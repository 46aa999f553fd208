"""Products between partitions, with large results on the processor in memory from the pool.

torch would page their memory in anew at each call: see `output_pool`. Rows lie as `product_rows`
has decided, and `product_library` says what computes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch.fx import Node

from fuser.integrations.fx.nodes import is_static, nbytes, tensor_of
from fuser.integrations.outer.product_library import OneDnnProduct, Product, runs_in_onednn
from fuser.integrations.outer.product_rows import has_lines
from fuser.ir.shapes import row_major_strides
from fuser.runtime.calls.output_pool import POOL, POOLED_BYTES

_aten: Any = torch.ops.aten


def product_of(node: Node, *, onednn: bool = False) -> Product:
    """What runs a product of a graph: torch's function, or that into memory from the pool; with
    `onednn`, oneDNN where `runs_in_onednn`. What has been given rows of whole lines is torch's."""
    made = _QUICKEST.get(node.target) or cast("Product", node.target)
    if node.target in _PACKETS and _is_large(node):
        result = tensor_of(node)
        row = 0 if result.is_contiguous() else result.stride(0)
        made = PooledProduct(_PACKETS[node.target], row)
    by_onednn = onednn and runs_in_onednn(node) and tensor_of(node).is_contiguous()
    return OneDnnProduct(made) if by_onednn else made


def _is_large(node: Node) -> bool:
    """Whether its result comes from the pool; where sizes are open, the call decides."""
    result = tensor_of(node)
    if result.device.type != "cpu" or not (result.is_contiguous() or has_lines(result)):
        return False
    return not all(map(is_static, result.shape)) or nbytes(node) >= POOLED_BYTES


class PooledProduct:
    """A product into memory of the pool, its rows `row` elements apart; 0: as long as they are.

    A small result, and one that autograd watches, is torch's.
    """

    def __init__(self, packet: Any, row: int) -> None:
        self._packet, self._row = packet, row
        self.__name__ = self.__qualname__ = f"pooled_{packet.__name__}"

    def of_result(self, sizes: Sequence[int], itemsize: int) -> Product:
        """What makes results of these sizes: torch's own function where they are small."""
        size = math.prod(self._held(sizes)) * itemsize
        return _QUICKEST.get(self._packet.default, self) if size < POOLED_BYTES else self

    def _held(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The sizes, with rows as they lie."""
        *outer, length = sizes
        return (*outer, max(self._row, length))

    def __call__(self, *given: torch.Tensor, **scales: Any) -> torch.Tensor:
        *_, left, right = given
        *outer, length = *left.shape[:-1], right.shape[-1]
        held = self._held((*outer, length))
        size = math.prod(held) * left.element_size()
        if size < POOLED_BYTES or torch.is_grad_enabled():
            return self._packet.default(*given, **scales)
        strides = row_major_strides(held)
        made = POOL.empty_strided((*outer, length), strides, left.dtype, size)
        return self._packet.out(*given, **scales, out=made)


_PACKETS: Mapping[Any, Any] = {
    packet.default: packet for packet in (_aten.mm, _aten.bmm, _aten.addmm, _aten.baddbmm)
}

_QUICKEST: Mapping[Any, Product] = {
    getattr(_aten, made.__name__).default: made
    for made in (torch.mm, torch.bmm, torch.addmm, torch.baddbmm)
}
"""torch's own functions, whose arguments are read in C, where overloads are called by Python."""
