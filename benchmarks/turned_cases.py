"""What attention and images turn: norms and masks along one order of memory, results in another.

A layer norm over channels that come first, given with channels last, and its gradients; the
gradient of keys that several heads share, turned as a product leaves it; and weights of attention,
masked and dropped.
"""

from __future__ import annotations

import torch
from case import Goals, Kind, Maker, Shape, Tensors
from norm_cases import EPSILON, affine, exact_layernorm_backward
from random_cases import DROPPED, SCALE, define_kept, exact_kept
from torch.nn import functional

from fuser import FusionDefinition
from fuser.frontend.handles import Handle

# -- channels ------------------------------------------------------------------------------------


def define_channels_norm(fd: FusionDefinition, x: Handle, weight: Handle, bias: Handle) -> Handle:
    turned = fd.ops.permute(x, [0, 2, 1])
    variance, mean = fd.ops.var_mean(turned, [2], correction=0, keepdim=True)
    normed = (turned - mean) * fd.ops.rsqrt(variance + EPSILON) * weight + bias
    return fd.ops.stride_order(normed, [2, 1, 0])


def channels_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x.mT, weight.shape, weight, bias, EPSILON)


CHANNELS_NORM = Kind(
    name="layernorm over channels, to last",
    define=define_channels_norm,
    inputs=affine,
    written=channels_norm,
    eager={"F.layer_norm": channels_norm},
    into={},
    exact=channels_norm,
    goals=Goals(cpu=1.5),
)

# -- their gradients -----------------------------------------------------------------------------


Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def define_channels_norm_backward(
    fd: FusionDefinition, grad: Handle, x: Handle, mean: Handle, rstd: Handle, weight: Handle
) -> tuple[Handle, Handle, Handle]:
    """The gradients of x, weight and bias; that of the result comes with channels last."""
    turned = fd.ops.permute(grad, [0, 2, 1])
    normal = (x - mean) * rstd
    scaled = turned * fd.ops.broadcast(weight, [True, False, True])
    along = fd.ops.mean(scaled * normal, [1], keepdim=True)
    grad_x = (scaled - fd.ops.mean(scaled, [1], keepdim=True) - normal * along) * rstd
    return grad_x, fd.ops.sum(turned * normal, [0, 2]), fd.ops.sum(turned, [0, 2])


def channels_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> Gradients:
    grads = torch.ops.aten.native_layer_norm_backward(
        grad, x.mT, weight.shape, mean.mT, rstd.mT, weight, weight, [True, True, True]
    )
    return grads[0].mT.contiguous(), grads[1], grads[2]


def exact_channels_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> Gradients:
    """As of one matrix, which has the pixels of all images as rows."""
    rows, means, scales = (each.mT.flatten(0, 1) for each in (x, mean, rstd))
    grad_x, grad_weight, grad_bias = exact_layernorm_backward(
        grad.flatten(0, 1), rows, means, scales, weight
    )
    return grad_x.view_as(grad).mT, grad_weight, grad_bias


def images_gradients(make: Maker) -> Tensors:
    """[images, pixels, channels], the same with channels first, and statistics of each pixel."""
    images, channels, pixels = make.shape
    x = make.normal()
    variance, mean = torch.var_mean(x.float(), 1, correction=0, keepdim=True)
    found = [each.to(make.statistics) for each in (mean, torch.rsqrt(variance + EPSILON))]
    return [make.normal(images, pixels, channels), x, *found, make.normal(channels)]


CHANNELS_NORM_BACKWARD = Kind(
    name="layernorm over channels backward",
    define=define_channels_norm_backward,
    inputs=images_gradients,
    written=channels_norm_backward,
    eager={"native_layer_norm_backward": channels_norm_backward},
    into={},
    exact=exact_channels_norm_backward,
    goals=Goals(cpu=1.5),
)

# -- heads that share keys -----------------------------------------------------------------------


def define_shared_heads(fd: FusionDefinition, grads: Handle, other: Handle) -> Handle:
    turned = fd.ops.permute(grads, [0, 1, 2, 4, 3])
    total = fd.ops.sum(turned, [2]) + other
    return fd.ops.stride_order(fd.ops.permute(total, [0, 2, 1, 3]), [3, 2, 1, 0])


def shared_heads(grads: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (grads.mT.sum(2) + other).transpose(1, 2).contiguous()


def gradients(make: Maker) -> Tensors:
    """[batch, keys' heads, heads that share each, head, words], and [batch, heads, words, head]."""
    batch, heads, _, width, words = make.shape
    return [make.normal(), make.normal(batch, heads, words, width)]


SHARED_HEADS = Kind(
    name="gradient of shared heads",
    define=define_shared_heads,
    inputs=gradients,
    written=shared_heads,
    eager={"as written": shared_heads},
    into={},
    exact=shared_heads,
    goals=Goals(cpu=1.5),
)

# -- weights of attention ------------------------------------------------------------------------


Weights = tuple[torch.Tensor, torch.Tensor]


def define_dropped_weights(
    fd: FusionDefinition, scores: Handle, mask: Handle
) -> tuple[Handle, Handle]:
    """The weights, and what is left of them."""
    masked = fd.ops.where(mask, scores, float("-inf"))
    powers = fd.ops.exp(masked - fd.ops.max(masked, [3], keepdim=True))
    weights = powers / fd.ops.sum(powers, [3], keepdim=True)
    return weights, fd.ops.where(define_kept(fd, scores), weights * SCALE, 0.0)


def dropped_weights(scores: torch.Tensor, mask: torch.Tensor) -> Weights:
    weights = torch.where(mask, scores, -torch.inf).softmax(3)
    return weights, functional.dropout(weights, DROPPED)


def exact_dropped_weights(scores: torch.Tensor, mask: torch.Tensor) -> Weights:
    weights = torch.where(mask, scores, -torch.inf).softmax(3)
    return weights, torch.where(exact_kept(scores), weights * SCALE, 0)


def causal_scores(make: Maker) -> Tensors:
    scores = make.normal()
    words = make.shape[2:]
    return [scores, torch.ones(words, dtype=torch.bool, device=scores.device).tril()]


DROPPED_WEIGHTS = Kind(
    name="causal softmax + dropout",
    define=define_dropped_weights,
    inputs=causal_scores,
    written=dropped_weights,
    eager={"softmax, F.dropout": dropped_weights},
    into={},
    exact=exact_dropped_weights,
    goals=Goals(cpu=2.0),
    drawn=True,
)

SMALL: dict[str, Shape] = {
    CHANNELS_NORM.name: (2, 24, 16),
    CHANNELS_NORM_BACKWARD.name: (1, 24, 16),
    SHARED_HEADS.name: (2, 3, 2, 8, 16),
    DROPPED_WEIGHTS.name: (2, 3, 32, 32),
}
