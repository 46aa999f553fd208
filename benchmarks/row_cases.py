"""Softmax, log-softmax and sums."""

from __future__ import annotations

import torch
from case import Goals, Kind, Scratch, Tensors
from liger import liger_softmax

from fuser import FusionDefinition
from fuser.frontend.handles import Handle


def define_softmax(fd: FusionDefinition, x: Handle) -> Handle:
    e = fd.ops.exp(x - fd.ops.max(x, [1], keepdim=True))
    return e / fd.ops.sum(e, [1], keepdim=True)


def softmax_into(outs: Tensors, scratch: Scratch, x: torch.Tensor) -> None:
    torch.ops.aten._softmax.out(x, 1, False, out=outs[0])


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, 1)


SOFTMAX = Kind(
    name="softmax",
    define=define_softmax,
    inputs=lambda make: [make.normal()],
    written=softmax,
    eager={"F.softmax": softmax},
    into={"F.softmax": softmax_into},
    exact=softmax,
    goals=Goals(cpu=1.5, copied=0.95, long_rows=True),
    liger=liger_softmax,
)


def define_log_softmax(fd: FusionDefinition, x: Handle) -> Handle:
    shifted = x - fd.ops.max(x, [1], keepdim=True)
    return shifted - fd.ops.log(fd.ops.sum(fd.ops.exp(shifted), [1], keepdim=True))


def log_softmax_into(outs: Tensors, scratch: Scratch, x: torch.Tensor) -> None:
    torch.ops.aten._log_softmax.out(x, 1, False, out=outs[0])


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(x, 1)


LOG_SOFTMAX = Kind(
    name="log_softmax",
    define=define_log_softmax,
    inputs=lambda make: [make.normal()],
    written=log_softmax,
    eager={"F.log_softmax": log_softmax},
    into={"F.log_softmax": log_softmax_into},
    exact=log_softmax,
    goals=Goals(cpu=1.0, copied=0.95, long_rows=True),
)


# -- sums ----------------------------------------------------------------------------------------


def sum_kind(name: str, *each_dims: list[int], goal: float = 1.0) -> Kind:
    """A sum over each of these dimensions."""

    def define(fd: FusionDefinition, x: Handle) -> tuple[Handle, ...]:
        return tuple(fd.ops.sum(x, dims) for dims in each_dims)

    def sums(x: torch.Tensor) -> Tensors:
        return [x.sum(dims) for dims in each_dims]

    def sums_into(outs: Tensors, scratch: Scratch, x: torch.Tensor) -> None:
        for out, dims in zip(outs, each_dims, strict=True):
            torch.sum(x, dims, out=out)

    return Kind(
        name=name,
        define=define,
        inputs=lambda make: [make.normal()],
        written=sums,
        eager={"sum": sums},
        into={"sum": sums_into},
        exact=sums,
        goals=Goals(cpu=goal),
    )


SUM_INNER = sum_kind("sum inner", [1])
SUM_OUTER = sum_kind("sum outer", [0], goal=2.0)
SUM_ALL = sum_kind("sum all", [0, 1])
SUMS = sum_kind("sums inner, outer and all", [1], [0], [0, 1])
