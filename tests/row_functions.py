"""Functions of rows that definitions of many tests have: along `dims`, the last one by default."""

from __future__ import annotations

from collections.abc import Sequence

from fuser import FusionDefinition
from fuser.frontend.handles import Handle

Dims = int | Sequence[int]


def powers(fd: FusionDefinition, x: Handle, dims: Dims = -1) -> tuple[Handle, Handle, Handle]:
    """The largest of each row, e to the differences from it, and their sum."""
    largest = fd.ops.max(x, dims, keepdim=True)
    made = fd.ops.exp(x - largest)
    return largest, made, fd.ops.sum(made, dims, keepdim=True)


def softmax(fd: FusionDefinition, x: Handle, dims: Dims = -1) -> Handle:
    _, made, total = powers(fd, x, dims)
    return made / total


def softmax_of_columns(fd: FusionDefinition, x: Handle) -> Handle:
    return softmax(fd, x, 0)


def log_softmax(fd: FusionDefinition, x: Handle, dims: Dims = -1) -> Handle:
    moved = x - fd.ops.max(x, dims, keepdim=True)
    return moved - fd.ops.log(fd.ops.sum(fd.ops.exp(moved), dims, keepdim=True))


def log_sum_of_columns(fd: FusionDefinition, x: Handle) -> Handle:
    """The logarithm of the sum of each column's powers."""
    largest, _, total = powers(fd, x, 0)
    return fd.ops.log(total) + largest


def layernorm(fd: FusionDefinition, x: Handle, dims: Dims = -1) -> Handle:
    return normalized(fd, x, dims)[0]


def normalized(fd: FusionDefinition, x: Handle, dims: Dims = -1) -> tuple[Handle, Handle]:
    """And what the distances from the mean are multiplied by."""
    variance, mean = fd.ops.var_mean(x, dims, correction=0, keepdim=True)
    scale = fd.ops.rsqrt(variance + 1e-5)
    return (x - mean) * scale, scale
