"""Running sums along the rows and along the columns of a matrix, and their gradient."""

from __future__ import annotations

import torch
from case import Goals, Kind, Scratch, Tensors

from fuser import FusionDefinition
from fuser.frontend.handles import Handle


def cumsum_kind(words: str, dim: int) -> Kind:
    """Running sums along `dim`."""

    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.cumsum(x, dim)

    def sums(x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, dim)

    def sums_into(outs: Tensors, scratch: Scratch, x: torch.Tensor) -> None:
        torch.cumsum(x, dim, out=outs[0])

    return Kind(
        name=f"cumsum {words}",
        define=define,
        inputs=lambda make: [make.normal()],
        written=sums,
        eager={"cumsum": sums},
        into={"cumsum": sums_into},
        exact=sums,
        goals=Goals(cpu=1.0),
    )


ALONG_ROWS = cumsum_kind("along rows", 1)
ALONG_COLUMNS = cumsum_kind("along columns", 0)


def define_backward(fd: FusionDefinition, g: Handle) -> Handle:
    return fd.ops.flip(fd.ops.cumsum(fd.ops.flip(g, [1]), 1), [1])


def backward(g: torch.Tensor) -> torch.Tensor:
    """As autograd runs it."""
    return g.flip(1).cumsum(1).flip(1)


def backward_into(outs: Tensors, scratch: Scratch, g: torch.Tensor) -> None:
    outs[0].copy_(torch.cumsum(g.flip(1), 1, out=scratch.like(g, "scanned")).flip(1))


BACKWARD = Kind(
    name="cumsum along rows backward",
    define=define_backward,
    inputs=lambda make: [make.normal()],
    written=backward,
    eager={"as autograd": backward},
    into={"as autograd": backward_into},
    exact=backward,
)
