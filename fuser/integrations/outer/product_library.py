"""Which library multiplies float32 matrices on a processor: the one that torch asks, or oneDNN.

    a [1024, 768] @ w.t() of w [3072, 768]      oneDNN
    g.t() of g [1024, 30522] @ x [1024, 768]    torch's

torch asks MKL. On AMD's processors with 512-bit vectors, oneDNN, which torch carries for other
dtypes, takes less time for most products: `benchmarks/product_library.py` has both, and the limits
here are read off its table. On other processors nothing was measured, and torch chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch.fx import Node

from fuser.integrations.fx.nodes import hint, hints, is_one, tensor_of
from fuser.runtime.cpu.processor import is_amd_with_avx512

_aten: Any = torch.ops.aten
_mkldnn: Any = torch.ops.mkldnn
_OPERATION = "_linear_pointwise"
Product = Callable[..., torch.Tensor]

LEAST_WORK, LEAST_RIGHT = 1 << 21, 1 << 19
"""Multiplications, and elements of the right operand, from which on oneDNN is worth a call."""

LONGEST_SUM = 1 << 14
"""Of a right operand that lies row by row; one of column by column suits oneDNN at any length."""

LONGEST_SUM_OF_COLUMNS, LEAST_COLUMNS, MOST_ROWS = 1 << 11, 1 << 11, 1 << 12
"""Of a left operand that lies column by column, as a weight's gradient has it: the length of its
columns, and the columns and rows of the product."""


def runs_in_onednn(node: Node) -> bool:
    """Whether a node of a graph is a product that oneDNN should make."""
    if node.target not in (_aten.mm.default, _aten.addmm.default) or node.kwargs:
        return False
    *bias, left, right = (tensor_of(cast("Node", operand)) for operand in node.args)
    if left.device.type != "cpu" or left.dtype != torch.float32 or not _is_faster():
        return False
    (rows, length), columns = hints(left.shape), hint(right.shape[1])
    if not all(_is_row(added, columns) for added in bias):
        return False
    if length * columns < LEAST_RIGHT or rows * length * columns < LEAST_WORK:
        return False
    if not (_lies_by_rows(right) or _lies_by_rows(right.t())):
        return False
    if _lies_by_rows(left):
        return _lies_by_rows(right.t()) or (rows > 1 and length <= LONGEST_SUM)
    wide = columns >= LEAST_COLUMNS and rows <= MOST_ROWS
    return _lies_by_rows(left.t()) and wide and length <= LONGEST_SUM_OF_COLUMNS


def _is_row(bias: torch.Tensor, columns: int) -> bool:
    """Whether a bias is a number for each column, one after the other: oneDNN looks at no more."""
    return bias.dim() == 1 and hint(bias.shape[0]) == columns and is_one(bias.stride(0))


def _lies_by_rows(matrix: torch.Tensor) -> bool:
    """Whether the elements of a row lie side by side, and those of no two rows in one place."""
    return is_one(matrix.stride(1)) and hint(matrix.stride(0)) >= hint(matrix.shape[1])


def _is_faster() -> bool:
    """Whether this is a machine on which it is, and torch computes float32 products in float32."""
    in_full = torch.get_float32_matmul_precision() == "highest"
    usable = torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled
    return is_amd_with_avx512() and in_full and bool(usable) and hasattr(_mkldnn, _OPERATION)


class OneDnnProduct:
    """A product by oneDNN, or `otherwise` where it turns out small, or autograd watches it."""

    def __init__(self, otherwise: Product) -> None:
        self._otherwise = otherwise
        self._linear: Any = getattr(_mkldnn, _OPERATION).default
        self.__name__ = self.__qualname__ = f"onednn_{getattr(otherwise, '__name__', 'product')}"

    def __call__(self, *given: torch.Tensor) -> torch.Tensor:
        *bias, left, right = given
        rows = left.shape[0]
        small = rows * right.numel() < LEAST_WORK or (rows == 1 and right.stride(0) != 1)
        if small or torch.is_grad_enabled():
            return self._otherwise(*given)
        return self._linear(left, right.t(), bias[0] if bias else None, "none", [], "")
