"""Functions of rows that definitions of many tests have: along `dims`, the last one by default."""

from __future__ import annotations

from collections.abc import Sequence

from fuser import FusionDefinition
from fuser.frontend.handles import Handle

Dims = int | Sequence[int]


def softmax(fd: FusionDefinition, x: Handle, dims: Dims = -1) -> Handle:
    powers = fd.ops.exp(x - fd.ops.max(x, dims, keepdim=True))
    return powers / fd.ops.sum(powers, dims, keepdim=True)


def softmax_of_columns(fd: FusionDefinition, x: Handle) -> Handle:
    return softmax(fd, x, 0)


def log_softmax(fd: FusionDefinition, x: Handle, dims: Dims = -1) -> Handle:
    moved = x - fd.ops.max(x, dims, keepdim=True)
    return moved - fd.ops.log(fd.ops.sum(fd.ops.exp(moved), dims, keepdim=True))


def log_sum_of_columns(fd: FusionDefinition, x: Handle) -> Handle:
    """The logarithm of the sum of each column's powers."""
    largest = fd.ops.max(x, [0], keepdim=True)
    return fd.ops.log(fd.ops.sum(fd.ops.exp(x - largest), [0], keepdim=True)) + largest


def layernorm(fd: FusionDefinition, x: Handle, dims: Dims = -1) -> Handle:
    return normalized(fd, x, dims)[0]


def normalized(fd: FusionDefinition, x: Handle, dims: Dims = -1) -> tuple[Handle, Handle]:
    """And what the distances from the mean are multiplied by."""
    variance, mean = fd.ops.var_mean(x, dims, correction=0, keepdim=True)
    scale = fd.ops.rsqrt(variance + 1e-5)
    return (x - mean) * scale, scale
