"""Batch norm while training, of channels that are apart in memory, or beside each other, and its
gradient: a channel is too long to be kept, so that nobody reads it once only. Group norm of images
whose channels are beside each other: a group of an image is kept.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from case import Kind, Maker, Tensors
from norm_cases import EPSILON, affine
from torch.nn import functional

from fuser import FusionDefinition
from fuser.frontend.handles import Handle

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

APART, BESIDE = (0, 2), (0,)
"""What is summed for a channel: of [images, channels, pixels], and of [pixels, channels]."""


def define_norm(
    fd: FusionDefinition, x: Handle, weight: Handle, bias: Handle, *, dims: tuple[int, ...]
) -> Handle:
    variance, mean = fd.ops.var_mean(x, list(dims), correction=0, keepdim=True)
    normed = (x - mean) * fd.ops.rsqrt(variance + EPSILON)
    return normed * _of_channels(fd, weight, dims) + _of_channels(fd, bias, dims)


def _of_channels(fd: FusionDefinition, number: Handle, dims: tuple[int, ...]) -> Handle:
    """A number of each channel, as a tensor of the images' dimensions."""
    return fd.ops.broadcast(number, [dim in dims for dim in range(len(dims) + 1)])


def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(x, None, None, weight, bias, training=True, eps=EPSILON)


NORM = Kind(
    name="batch norm",
    define=partial(define_norm, dims=APART),
    inputs=affine,
    written=norm,
    eager={"F.batch_norm": norm},
    into={},
    exact=norm,
    gpu_kernels=3,
    gpu_reads=2 + 1 / 16,
)

CHANNELS_LAST = replace(
    NORM, name="batch norm, channels last", define=partial(define_norm, dims=BESIDE)
)


# -- groups --------------------------------------------------------------------------------------

GROUPS = 32
PIXELS = (0, 2, 3)
"""What is not a channel of [images, channels, height, width]."""


def define_groups(fd: FusionDefinition, x: Handle, weight: Handle, bias: Handle) -> Handle:
    images, channels, height, width = x.shape()
    groups = fd.ops.reshape(x, [images, GROUPS, channels / GROUPS, height, width])
    variance, mean = fd.ops.var_mean(groups, [2, 3, 4], correction=0, keepdim=True)
    normed = (groups - mean) * fd.ops.rsqrt(variance + EPSILON)
    scaled = fd.ops.reshape(normed, x.shape()) * _of_channels(fd, weight, PIXELS)
    return fd.ops.stride_order(scaled + _of_channels(fd, bias, PIXELS), [3, 0, 2, 1])


def group_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.group_norm(x, GROUPS, weight, bias, EPSILON)


def channels_last(make: Maker) -> Tensors:
    x, weight, bias = affine(make)
    return [x.contiguous(memory_format=torch.channels_last), weight, bias]


GROUPS_LAST = Kind(
    name="group norm, channels last",
    define=define_groups,
    inputs=channels_last,
    written=group_norm,
    eager={"F.group_norm": group_norm},
    into={},
    exact=group_norm,
)


# -- backward ------------------------------------------------------------------------------------


def define_backward(
    fd: FusionDefinition, grad: Handle, x: Handle, mean: Handle, rstd: Handle, weight: Handle
) -> tuple[Handle, Handle, Handle]:
    """The gradients of x, weight and bias; statistics are [1, channels, 1]."""
    normal = (x - mean) * rstd
    along = fd.ops.mean(grad * normal, list(APART), keepdim=True)
    rest = grad - fd.ops.mean(grad, list(APART), keepdim=True) - normal * along
    grad_x = rest * rstd * _of_channels(fd, weight, APART)
    return grad_x, fd.ops.sum(grad * normal, list(APART)), fd.ops.sum(grad, list(APART))


def backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> Gradients:
    saved = mean.flatten(), rstd.flatten()
    return torch.ops.aten.native_batch_norm_backward(
        grad, x, weight, None, None, *saved, True, EPSILON, [True, True, True]
    )


def exact_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> Gradients:
    normal = (x - mean) * rstd
    along = (grad * normal).mean(APART, keepdim=True)
    rest = grad - grad.mean(APART, keepdim=True) - normal * along
    return rest * rstd * weight[:, None], (grad * normal).sum(APART), grad.sum(APART)


def written_backward(grad: torch.Tensor, *others: torch.Tensor) -> Gradients:
    """The same as someone writes it; statistics may have more bits than the images."""
    grad_x, grad_weight, grad_bias = exact_backward(grad, *others)
    return grad_x.to(grad.dtype), grad_weight.to(grad.dtype), grad_bias


def gradients(make: Maker) -> Tensors:
    x, weight = make.normal(), make.normal(make.shape[1])
    variance, mean = torch.var_mean(x.float(), APART, correction=0, keepdim=True)
    found = [each.to(make.statistics) for each in (mean, torch.rsqrt(variance + EPSILON))]
    return [make.normal(), x, *found, weight]


BACKWARD = Kind(
    name="batch norm backward",
    define=define_backward,
    inputs=gradients,
    written=written_backward,
    eager={"native_batch_norm_backward": backward},
    into={},
    exact=exact_backward,
    gpu_kernels=2,
    gpu_reads=2.0,
)

SMALL = {NORM.name: (6, 5, 48), BACKWARD.name: (6, 5, 48), GROUPS_LAST.name: (3, 64, 4, 5)}
