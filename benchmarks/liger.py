"""Liger's operations, as peers; none where it is not installed.

They are imported when they are called: Liger needs triton, and a case can be defined without.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch

HAS_LIGER = all(importlib.util.find_spec(name) for name in ("liger_kernel", "triton"))
EPSILON = 1e-5
_IGNORED = -100


def _ops(module: str) -> Any:
    return importlib.import_module(f"liger_kernel.ops.{module}")


def liger_softmax(x: torch.Tensor) -> object:
    return _ops("softmax").LigerSoftmaxFunction.apply(x)


def liger_layernorm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> object:
    return _ops("layer_norm").layer_norm_forward(x, weight, bias, EPSILON)[0]


def liger_layernorm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> object:
    found = mean.view(-1), rstd.view(-1)
    return _ops("layer_norm").layer_norm_backward(grad, x, weight, weight, *found)


def liger_rmsnorm(x: torch.Tensor, weight: torch.Tensor) -> object:
    return _ops("rms_norm").rms_norm_forward(x, weight, EPSILON, 0.0, "gemma", None)[0]


def liger_rmsnorm_backward(
    grad: torch.Tensor, x: torch.Tensor, rstd: torch.Tensor, weight: torch.Tensor
) -> object:
    block, warps = _ops("utils").calculate_settings(x.shape[1])
    ops = _ops("rms_norm")
    gemma: int = ops._CASTING_MODE_GEMMA.value
    return ops.rms_norm_backward(
        grad, x, weight, rstd.view(-1), 0.0, gemma, block, warps, in_place=False, row_mode=None
    )


def liger_cross_entropy(x: torch.Tensor, target: torch.Tensor) -> object:
    """The loss alone: the gradient is made only if the logits require one."""
    return _cross_entropy(x.detach(), target)[0]


def liger_cross_entropy_both(x: torch.Tensor, target: torch.Tensor) -> object:
    """The loss and the gradient, which is written over the logits."""
    loss, *_, grad = _cross_entropy(x.detach().requires_grad_(), target)
    return loss, grad.detach()


def _cross_entropy(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, ...]:
    forward = _ops("cross_entropy").cross_entropy_forward
    return forward(x, target, None, _IGNORED, 0.0, 0.0, "mean", None, False)
