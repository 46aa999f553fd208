"""Neighbours in memory that belong together: rotary embeddings of pairs, and an average pool."""

from __future__ import annotations

import torch
from case import Goals, Kind, Maker, Scratch, Shape, Tensors
from torch.nn import functional

from fuser import FusionDefinition
from fuser.frontend.handles import Handle

END = 2**63 - 1

# -- rotary embeddings ---------------------------------------------------------------------------


def define_turned_pairs(fd: FusionDefinition, x: Handle, cos: Handle, sin: Handle) -> Handle:
    even, odd = (fd.ops.slice(x, [0, 0, 0, start], [END] * 4, [1, 1, 1, 2]) for start in (0, 1))
    turned = (even * cos - odd * sin, even * sin + odd * cos)
    apart = [fd.ops.broadcast(half, [False] * 4 + [True]) for half in turned]
    return fd.ops.reshape(fd.ops.cat(apart, 4), fd.ops.shape(x))


def turned_pairs(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """As GPT-J has it."""
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def turned_pairs_into(outs: Tensors, scratch: Scratch, *inputs: torch.Tensor) -> None:
    x, cos, sin = inputs
    even, odd, product = x[..., ::2], x[..., 1::2], scratch.like(x, "product")[..., ::2]
    torch.mul(even, cos, out=outs[0][..., ::2]).sub_(torch.mul(odd, sin, out=product))
    torch.mul(even, sin, out=outs[0][..., 1::2]).add_(torch.mul(odd, cos, out=product))


def angles_of_pairs(make: Maker) -> Tensors:
    table = (1, 1, make.shape[2], make.shape[3] // 2)
    return [make.normal(), make.normal(*table), make.normal(*table)]


ROTARY = Kind(
    name="rotary embedding of pairs",
    define=define_turned_pairs,
    inputs=angles_of_pairs,
    written=turned_pairs,
    eager={"as written": turned_pairs},
    into={"by halves": turned_pairs_into},
    exact=turned_pairs,
)

# -- pooling -------------------------------------------------------------------------------------


def define_pool(fd: FusionDefinition, x: Handle) -> Handle:
    images, channels, rows, columns = fd.ops.shape(x)
    halves = [fd.ops.div(size, 2) for size in (rows, columns)]
    return fd.ops.mean(fd.ops.reshape(x, [images, channels, halves[0], 2, halves[1], 2]), [3, 5])


def pool(x: torch.Tensor) -> torch.Tensor:
    return functional.avg_pool2d(x, 2)


def pool_into(outs: Tensors, scratch: Scratch, x: torch.Tensor) -> None:
    torch.ops.aten.avg_pool2d.out(x, [2, 2], out=outs[0])


POOL = Kind(
    name="average pool",
    define=define_pool,
    inputs=lambda make: [make.normal()],
    written=pool,
    eager={"F.avg_pool2d": pool},
    into={"F.avg_pool2d": pool_into},
    exact=pool,
    goals=Goals(cpu=1.0),
)

SMALL: dict[str, Shape] = {ROTARY.name: (2, 3, 5, 16), POOL.name: (2, 3, 4, 6)}
