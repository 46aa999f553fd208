"""Where torch's own results lie, for operations whose decompositions have them lie otherwise.

Tracing asks a decomposition, or a formula that torch makes of one, how a result lies; without
tracing it lies as torch's kernel has it. These differ where operands are turned: many kernels write
rows, or have the channels last, whatever their formula would do, and a kernel for elements goes by
all of its operands at once, a formula by those of each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch._prims_common import (
    compute_elementwise_output_logical_to_physical_perm as order_of_elements,  # pyright: ignore[reportUnknownVariableType]
)
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

Decomposition = Callable[..., Any]
Order = Callable[..., torch.memory_format]
"""How results lie in memory, by the operands."""

_aten: Any = torch.ops.aten


def as_torchs(found: dict[Any, Decomposition]) -> dict[Any, Decomposition]:
    """The decompositions with results that lie as those of torch's kernels."""
    laid = {operation: _lying(found[operation], order) for operation, order in _ORDERS.items()}
    return found | laid | {operation: _by_operands(found[operation]) for operation in _OF_ELEMENTS}


# -- as one operand, or in rows ------------------------------------------------------------------


def _contiguous(*operands: Any) -> torch.memory_format:
    return torch.contiguous_format


def _first(x: torch.Tensor, *others: Any) -> torch.memory_format:
    return suggest_memory_format(x)


def _second(grad: torch.Tensor, x: torch.Tensor, *others: Any) -> torch.memory_format:
    return suggest_memory_format(x)


_ORDERS: dict[Any, Order] = {
    **dict.fromkeys(
        (
            _aten._adaptive_avg_pool3d.default,
            _aten._adaptive_avg_pool3d_backward.default,
            _aten._log_softmax_backward_data.default,
            _aten._softmax_backward_data.default,
            _aten.adaptive_max_pool3d.default,
            _aten.adaptive_max_pool3d_backward.default,
            _aten.angle.default,
            _aten.avg_pool3d.default,
            _aten.avg_pool3d_backward.default,
            _aten.baddbmm.default,
            _aten.diag_embed.default,
            _aten.glu_backward.default,
            _aten.huber_loss_backward.default,
            _aten.log_sigmoid_forward.default,
            _aten.masked_scatter.default,
            _aten.mse_loss_backward.default,
            _aten.nll_loss2d_forward.default,
            _aten.smooth_l1_loss_backward.default,
        ),
        _contiguous,
    ),
    **dict.fromkeys(
        (
            _aten._adaptive_avg_pool2d.default,
            _aten._batch_norm_no_update.default,
            _aten._batch_norm_with_update_functional.default,
            _aten._native_batch_norm_legit.no_stats,
            _aten._native_batch_norm_legit_functional.default,
            _aten._native_batch_norm_legit_no_training.default,
            _aten.adaptive_max_pool2d.default,
            _aten.avg_pool2d.default,
            _aten.channel_shuffle.default,
            _aten.max_pool2d_with_indices.default,
            _aten.max_pool3d_with_indices.default,
            _aten.max_unpool2d.default,
            _aten.native_batch_norm.default,
        ),
        _first,
    ),
    **dict.fromkeys(
        (
            _aten._adaptive_avg_pool2d_backward.default,
            _aten.adaptive_max_pool2d_backward.default,
            _aten.avg_pool2d_backward.default,
            _aten.batch_norm_backward.default,
            _aten.max_pool2d_with_indices_backward.default,
            _aten.max_pool3d_with_indices_backward.default,
            _aten.native_batch_norm_backward.default,
            _aten.reflection_pad2d_backward.default,
            _aten.replication_pad2d_backward.default,
        ),
        _second,
    ),
}
"""Operations whose results lie so, whatever their decompositions would do."""


def _lying(decomposition: Decomposition, order: Order) -> Decomposition:
    def decomposed(*operands: Any, **options: Any) -> Any:
        made = decomposition(*operands, **options)
        if isinstance(made, tuple):
            results = cast("tuple[Any, ...]", made)
            return tuple(_laid(each, order(*operands)) for each in results)
        return _laid(made, order(*operands))

    return decomposed


def _laid(made: Any, order: torch.memory_format) -> Any:
    """A result in an order; those without channels, as statistics of each, are in rows anyway."""
    if not isinstance(made, torch.Tensor) or made.dim() not in _RANKS.get(order, (made.dim(),)):
        return made
    return made.contiguous(memory_format=order)


_RANKS = {torch.channels_last: (4,), torch.channels_last_3d: (5,)}


# -- as all operands -----------------------------------------------------------------------------

_OF_ELEMENTS = (
    _aten.copysign.Tensor,
    _aten.hardswish_backward.default,
    _aten.hardtanh_backward.default,
    _aten.heaviside.default,
    _aten.hypot.default,
    _aten.ldexp.Tensor,
    _aten.logaddexp.default,
    _aten.logaddexp2.default,
    _aten.special_xlog1py.default,
    _aten.xlogy.Tensor,
)
"""Operations whose results lie by all of their operands, the first before the next."""


def _by_operands(decomposition: Decomposition) -> Decomposition:
    def decomposed(*operands: Any, **options: Any) -> Any:
        made = decomposition(*operands, **options)
        read = [each for each in operands if isinstance(each, torch.Tensor) and each.dim()]
        if not isinstance(made, torch.Tensor) or not _is_mixed(read):
            return made
        with disable_proxy_modes_tracing():
            there = [each.expand(made.shape) for each in read]
            order, _ = order_of_elements(*there)
            if made.permute(order).is_contiguous():
                return made
        back = [order.index(dim) for dim in range(made.dim())]
        return made.permute(order).contiguous().permute(back)

    return decomposed


def _is_mixed(read: Iterable[torch.Tensor]) -> bool:
    """Whether some operands lie otherwise than others."""
    strides = [each.stride() for each in read]
    return any(each != strides[0] for each in strides)
