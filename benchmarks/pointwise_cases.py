"""gelu, gelu with a bias, and a permute between views."""

from __future__ import annotations

import torch
from case import Goals, Kind, Maker, Scratch, Tensors
from torch.nn import functional

from fuser import FusionDefinition
from fuser.frontend.handles import Handle

HALF_SQRT = 0.7071067811865476


# -- gelu ----------------------------------------------------------------------------------------


def define_gelu(fd: FusionDefinition, given: Handle) -> Handle:
    """Between two views, the second undoing the first."""
    rows, columns = fd.ops.shape(given)
    x = fd.ops.reshape(given, new_shape=[-1, 8, columns])
    result = x * 0.5 * (fd.ops.erf(x * HALF_SQRT) + 1.0)
    return fd.ops.reshape(result, new_shape=[rows, columns])


def gelu(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5 * (torch.erf(x * HALF_SQRT) + 1.0)


def viewed_gelu(x: torch.Tensor) -> torch.Tensor:
    return gelu(x.view(-1, 8, x.shape[1])).view(x.shape)


def gelu_into(outs: Tensors, scratch: Scratch, x: torch.Tensor) -> None:
    torch.ops.aten.gelu.out(x, out=outs[0])


GELU = Kind(
    name="gelu",
    define=define_gelu,
    inputs=lambda make: [make.normal()],
    written=viewed_gelu,
    eager={"F.gelu": functional.gelu},
    into={"F.gelu": gelu_into},
    exact=functional.gelu,
    goals=Goals(
        cpu=2.0,
        called={
            (torch.float32, "torch.compile"): 5.0,
            (torch.float32, "eager"): 4.0,
            (torch.bfloat16, "torch.compile"): 3.0,
            (torch.bfloat16, "eager"): 2.0,
        },
        copied=0.95,
    ),
)


# -- with a bias ---------------------------------------------------------------------------------


def define_biased_gelu(fd: FusionDefinition, given: Handle, bias: Handle) -> Handle:
    x = given + bias
    return x * 0.5 * (fd.ops.erf(x * HALF_SQRT) + 1.0)


def biased_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return gelu(x + bias)


def library_biased_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.gelu(x + bias)


def biased_gelu_in_place(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.gelu_(x + bias)


def biased_gelu_into(outs: Tensors, scratch: Scratch, x: torch.Tensor, bias: torch.Tensor) -> None:
    torch.add(x, bias, out=outs[0])
    torch.ops.aten.gelu_(outs[0])


BIASED_GELU = Kind(
    name="bias + gelu",
    define=define_biased_gelu,
    inputs=lambda make: [make.normal(), make.normal(make.shape[-1])],
    written=biased_gelu,
    eager={
        "F.gelu": library_biased_gelu,
        "in place": biased_gelu_in_place,
    },
    into={"in place": biased_gelu_into},
    exact=library_biased_gelu,
    goals=Goals(cpu=2.0, copied=0.95),
)


# -- permute -------------------------------------------------------------------------------------

HEADS = 12


def define_permute(fd: FusionDefinition, given: Handle) -> Handle:
    """[batch * heads, rows, size] -> [batch * rows, heads * size]."""
    _, rows, size = fd.ops.shape(given)
    heads = fd.ops.reshape(given, new_shape=[-1, HEADS, rows, size])
    moved = fd.ops.set(fd.ops.permute(heads, dims=[0, 2, 1, 3]))
    return fd.ops.reshape(moved, new_shape=[-1, HEADS * size])


def permuted(x: torch.Tensor) -> torch.Tensor:
    _, rows, size = x.shape
    moved = x.view(-1, HEADS, rows, size).permute(0, 2, 1, 3)
    return moved.contiguous().view(-1, HEADS * size)


def permuted_into(outs: Tensors, scratch: Scratch, x: torch.Tensor) -> None:
    _, rows, size = x.shape
    moved = x.view(-1, HEADS, rows, size).permute(0, 2, 1, 3)
    outs[0].view(moved.shape).copy_(moved)


PERMUTE = Kind(
    name="permute",
    define=define_permute,
    inputs=lambda make: [make.normal()],
    written=permuted,
    eager={"contiguous": permuted},
    into={"copy_": permuted_into},
    exact=permuted,
    goals=Goals(cpu=1.5, called={(torch.float32, "torch.compile"): 1.5}, copied=0.9),
    unrounded=True,
)


# -- one whose time is the host's ----------------------------------------------------------------


def define_plain_gelu(fd: FusionDefinition, x: Handle) -> Handle:
    return x * 0.5 * (fd.ops.erf(x * HALF_SQRT) + 1.0)


def vector(make: Maker) -> Tensors:
    return [make.normal()]


PLAIN_GELU = Kind(
    name="gelu",
    define=define_plain_gelu,
    inputs=vector,
    written=gelu,
    eager={"as written": gelu, "F.gelu": functional.gelu},
    into={},
    exact=functional.gelu,
)
