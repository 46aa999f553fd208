"""Layer norm and RMS norm: forward, after an addition, and backward.

On the processor, what torch has with `out=` of these is the same with a copy at the end, so it is
not among the ways `into` given tensors.
"""

from __future__ import annotations

import torch
from case import Goals, Kind, Maker, Scratch, Tensors
from liger import (
    EPSILON,
    liger_layernorm,
    liger_layernorm_backward,
    liger_rmsnorm,
    liger_rmsnorm_backward,
)
from torch.nn import functional

from fuser import FusionDefinition
from fuser.frontend.handles import Handle

FORWARD = Goals(cpu=1.5, copied=0.95, long_rows=True)
BACKWARD = Goals(cpu=1.5, copied=0.85, long_rows=True)


# -- layer norm ----------------------------------------------------------------------------------


def define_layernorm(fd: FusionDefinition, x: Handle, weight: Handle, bias: Handle) -> Handle:
    variance, mean = fd.ops.var_mean(x, [1], correction=0, keepdim=True)
    return (x - mean) * fd.ops.rsqrt(variance + EPSILON) * weight + bias


def layernorm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[1:], weight, bias, EPSILON)


def affine(make: Maker) -> Tensors:
    """What is normalized, and a number of each column, or channel, twice."""
    columns = make.shape[1]
    return [make.normal(), make.normal(columns), make.normal(columns)]


LAYERNORM = Kind(
    name="layernorm",
    define=define_layernorm,
    inputs=affine,
    written=layernorm,
    eager={"F.layer_norm": layernorm},
    into={},
    exact=layernorm,
    goals=FORWARD,
    liger=liger_layernorm,
)


# -- after an addition ---------------------------------------------------------------------------


def define_added_layernorm(
    fd: FusionDefinition, x: Handle, residual: Handle, weight: Handle, bias: Handle
) -> tuple[Handle, Handle]:
    """The sum, which the next block adds to, and its layer norm."""
    total = x + residual
    return total, define_layernorm(fd, total, weight, bias)


def added_layernorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return total, layernorm(total, weight, bias)


ADDED_LAYERNORM = Kind(
    name="add + layernorm",
    define=define_added_layernorm,
    inputs=lambda make: [make.normal(), *affine(make)],
    written=added_layernorm,
    eager={"F.layer_norm": added_layernorm},
    into={},
    exact=added_layernorm,
    goals=Goals(cpu=1.0, copied=0.95, long_rows=True),
)


# -- its backward --------------------------------------------------------------------------------


def define_layernorm_backward(
    fd: FusionDefinition, grad: Handle, x: Handle, mean: Handle, rstd: Handle, weight: Handle
) -> tuple[Handle, Handle, Handle]:
    """The gradients of x, weight and bias."""
    normal = (x - mean) * rstd
    scaled = grad * weight
    along = fd.ops.mean(scaled * normal, [1], keepdim=True)
    grad_x = (scaled - fd.ops.mean(scaled, [1], keepdim=True) - normal * along) * rstd
    return grad_x, fd.ops.sum(grad * normal, [0]), fd.ops.sum(grad, [0])


def layernorm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.ops.aten.native_layer_norm_backward(
        grad, x, x.shape[1:], mean, rstd, weight, weight, [True, True, True]
    )


def exact_layernorm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    normal, scaled = (x - mean) * rstd, grad * weight
    along = (scaled * normal).mean(1, keepdim=True)
    grad_x = (scaled - scaled.mean(1, keepdim=True) - normal * along) * rstd
    return grad_x, (grad * normal).sum(0), grad.sum(0)


def layernorm_gradients(make: Maker) -> Tensors:
    x, weight = make.normal(), make.normal(make.shape[1])
    variance, mean = torch.var_mean(x.float(), 1, correction=0, keepdim=True)
    rows = [mean, torch.rsqrt(variance + EPSILON)]
    return [make.normal(), x, *(found.to(make.statistics) for found in rows), weight]


LAYERNORM_BACKWARD = Kind(
    name="layernorm backward",
    define=define_layernorm_backward,
    inputs=layernorm_gradients,
    written=layernorm_backward,
    eager={"native_layer_norm_backward": layernorm_backward},
    into={},
    exact=exact_layernorm_backward,
    goals=BACKWARD,
    liger=liger_layernorm_backward,
)


# -- RMS norm ------------------------------------------------------------------------------------


def define_rmsnorm(fd: FusionDefinition, x: Handle, weight: Handle) -> Handle:
    mean = fd.ops.mean(x * x, [1], keepdim=True)
    return x * fd.ops.rsqrt(mean + EPSILON) * weight


def rmsnorm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return functional.rms_norm(x, x.shape[1:], weight, EPSILON)


def written_rmsnorm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(1, keepdim=True) + EPSILON) * weight


def rmsnorm_into(outs: Tensors, scratch: Scratch, x: torch.Tensor, weight: torch.Tensor) -> None:
    squares = torch.mul(x, x, out=scratch.like(x, "squares"))
    torch.mul(x, torch.rsqrt(squares.mean(1, keepdim=True) + EPSILON), out=outs[0]).mul_(weight)


RMSNORM = Kind(
    name="rmsnorm",
    define=define_rmsnorm,
    inputs=lambda make: [make.normal(), make.normal(make.shape[1])],
    written=rmsnorm,
    eager={"F.rms_norm": rmsnorm, "as written": written_rmsnorm},
    into={"as written": rmsnorm_into},
    exact=rmsnorm,
    goals=FORWARD,
    liger=liger_rmsnorm,
)


# -- its backward --------------------------------------------------------------------------------


def define_rmsnorm_backward(
    fd: FusionDefinition, grad: Handle, x: Handle, rstd: Handle, weight: Handle
) -> tuple[Handle, Handle]:
    """The gradients of x and weight."""
    normal = x * rstd
    scaled = grad * weight
    along = fd.ops.mean(scaled * normal, [1], keepdim=True)
    return (scaled - normal * along) * rstd, fd.ops.sum(grad * normal, [0])


def rmsnorm_backward(
    grad: torch.Tensor, x: torch.Tensor, rstd: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    normal, scaled = x * rstd, grad * weight
    along = (scaled * normal).mean(1, keepdim=True)
    grad_x = (scaled - normal * along) * rstd
    return grad_x.to(x.dtype), (grad * normal).sum(0).to(x.dtype)


def fused_rmsnorm_backward(
    grad: torch.Tensor, x: torch.Tensor, rstd: torch.Tensor, weight: torch.Tensor
) -> object:
    return torch.ops.aten._fused_rms_norm_backward(grad, x, x.shape[1:], rstd, weight, [True, True])


def rmsnorm_backward_into(
    outs: Tensors,
    scratch: Scratch,
    grad: torch.Tensor,
    x: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> None:
    normal = torch.mul(x, rstd, out=scratch.like(x, "normal"))
    product = torch.mul(grad, normal, out=scratch.like(x, "product"))
    torch.sum(product, 0, out=outs[1])
    along = product.mul_(weight).mean(1, keepdim=True)
    torch.mul(grad, weight, out=outs[0]).sub_(normal.mul_(along)).mul_(rstd)


def rmsnorm_gradients(make: Maker) -> Tensors:
    x, weight = make.normal(), make.normal(make.shape[1])
    rstd = torch.rsqrt(x.float().square().mean(1, keepdim=True) + EPSILON)
    return [make.normal(), x, rstd.to(make.statistics), weight]


RMSNORM_BACKWARD = Kind(
    name="rmsnorm backward",
    define=define_rmsnorm_backward,
    inputs=rmsnorm_gradients,
    written=rmsnorm_backward,
    eager={"_fused_rms_norm_backward": fused_rmsnorm_backward, "as written": rmsnorm_backward},
    into={"as written": rmsnorm_backward_into},
    exact=rmsnorm_backward,
    goals=BACKWARD,
    liger=liger_rmsnorm_backward,
)
