"""A transposition, and a matrix with its transposition added."""

from __future__ import annotations

import torch
from case import Goals, Kind, Scratch, Tensors

from fuser import FusionDefinition
from fuser.frontend.handles import Handle

# -- transpose -----------------------------------------------------------------------------------


def define_transpose(fd: FusionDefinition, x: Handle) -> Handle:
    """The rows of the result are consecutive in memory."""
    return fd.ops.stride_order(fd.ops.permute(x, dims=[1, 0]), stride_order=[1, 0])


def transposed(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous()


def transposed_into(outs: Tensors, scratch: Scratch, x: torch.Tensor) -> None:
    outs[0].copy_(x.t())


TRANSPOSE = Kind(
    name="transpose",
    define=define_transpose,
    inputs=lambda make: [make.normal()],
    written=transposed,
    eager={"contiguous": transposed},
    into={"copy_": transposed_into},
    exact=transposed,
    goals=Goals(cpu=1.3, copied=0.9),
    unrounded=True,
)


# -- x + x.T -------------------------------------------------------------------------------------


def define_symmetric(fd: FusionDefinition, x: Handle) -> Handle:
    return x + fd.ops.permute(x, dims=[1, 0])


def symmetric(x: torch.Tensor) -> torch.Tensor:
    return x + x.t()


def symmetric_into(outs: Tensors, scratch: Scratch, x: torch.Tensor) -> None:
    torch.add(x, x.t(), out=outs[0])


SYMMETRIC = Kind(
    name="x + x.T",
    define=define_symmetric,
    inputs=lambda make: [make.normal(make.shape[0], make.shape[0])],
    written=symmetric,
    eager={"as written": symmetric},
    into={"as written": symmetric_into},
    exact=symmetric,
)
