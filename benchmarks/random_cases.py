"""Dropout before an addition and a layer norm, forward and backward.

Both are given the seed: the backward pass makes the mask again, where torch stores it. The right
results are those of the oracle's mask; peers draw masks of their own, so theirs are not compared.
"""

from __future__ import annotations

import torch
from case import Goals, Kind, Maker, Tensors
from norm_cases import (
    affine,
    define_layernorm,
    define_layernorm_backward,
    exact_layernorm_backward,
    layernorm,
    layernorm_backward,
    layernorm_gradients,
)
from torch.nn import functional

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret

DROPPED = 0.1
SCALE = 1 / (1 - DROPPED)
SEED, OFFSET = 2**40 + 17, 3


def define_kept(fd: FusionDefinition, like: Handle) -> Handle:
    """Which elements are not dropped."""
    sizes: list[int | Handle] = [*like.shape()]
    return fd.ops.uniform(0.0, 1.0, sizes, rng_seed=SEED, rng_offset=OFFSET) >= DROPPED


def exact_kept(like: torch.Tensor) -> torch.Tensor:
    """The same, by the oracle."""
    with FusionDefinition() as fd:
        sizes = list(like.shape)
        fd.add_output(fd.ops.uniform(0.0, 1.0, sizes, rng_seed=SEED, rng_offset=OFFSET))
    return interpret(fd.fusion, [], like.device)[0] >= DROPPED


# -- forward -------------------------------------------------------------------------------------


def define_dropped_layernorm(
    fd: FusionDefinition, x: Handle, residual: Handle, weight: Handle, bias: Handle
) -> tuple[Handle, Handle]:
    """The sum, which the next block adds to, and its layer norm."""
    total = fd.ops.where(define_kept(fd, x), x * SCALE, 0.0) + residual
    return total, define_layernorm(fd, total, weight, bias)


def dropped_layernorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = functional.dropout(x, DROPPED) + residual
    return total, layernorm(total, weight, bias)


def exact_dropped_layernorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = torch.where(exact_kept(x), x * SCALE, 0) + residual
    return total, layernorm(total, weight, bias)


DROPPED_LAYERNORM = Kind(
    name="dropout + add + layernorm",
    define=define_dropped_layernorm,
    inputs=lambda make: [make.normal(), *affine(make)],
    written=dropped_layernorm,
    eager={"F.dropout, F.layer_norm": dropped_layernorm},
    into={},
    exact=exact_dropped_layernorm,
    goals=Goals(cpu=2.0, copied=0.95, long_rows=True),
    drawn=True,
)


# -- backward ------------------------------------------------------------------------------------


def define_dropped_backward(
    fd: FusionDefinition, grad: Handle, total: Handle, mean: Handle, rstd: Handle, weight: Handle
) -> tuple[Handle, ...]:
    """The gradients of x, residual, weight and bias."""
    inner, *others = define_layernorm_backward(fd, grad, total, mean, rstd, weight)
    return fd.ops.where(define_kept(fd, grad), inner * SCALE, 0.0), inner, *others


def exact_backward(
    grad: torch.Tensor,
    total: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    inner, *others = exact_layernorm_backward(grad, total, mean, rstd, weight)
    return torch.where(exact_kept(grad), inner * SCALE, 0), inner, *others


_MASKS: dict[tuple[int, int, str], torch.Tensor] = {}
"""The masks that torch's forward pass would have stored, by rows, columns and device."""


def stored_backward(
    grad: torch.Tensor,
    total: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    """torch's two operations, with a mask that is there already."""
    inner, *others = layernorm_backward(grad, total, mean, rstd, weight)
    mask = _MASKS[grad.shape[0], grad.shape[1], grad.device.type]
    return torch.ops.aten.native_dropout_backward(inner, mask, SCALE), inner, *others


def gradients(make: Maker) -> Tensors:
    inputs = layernorm_gradients(make)
    grad = inputs[0]
    key = grad.shape[0], grad.shape[1], grad.device.type
    if key not in _MASKS and grad.device.type != "meta":
        _MASKS.clear()  # of the case before
        _MASKS[key] = exact_kept(grad)
    return inputs


DROPPED_BACKWARD = Kind(
    name="dropout + add + layernorm backward",
    define=define_dropped_backward,
    inputs=gradients,
    written=stored_backward,
    eager={"native backwards, stored mask": stored_backward},
    into={},
    exact=exact_backward,
    goals=Goals(cpu=1.5, copied=0.85, long_rows=True),
)
