"""Reductions, normalizations and cross entropy: each definition, its peers and the exact result."""

from __future__ import annotations

from collections.abc import Callable

import torch
from cases import Case, Tensors, random
from torch.nn import functional

from fuser import DataType, FusionDefinition

REUSED = "no page faults"
COMPILED = "torch.compile"


# -- along rows ----------------------------------------------------------------------------------


def define_softmax(fd: FusionDefinition) -> None:
    x = fd.define_tensor(shape=[-1, -1], contiguity=True)
    e = fd.ops.exp(x - fd.ops.max(x, [1], keepdim=True))
    fd.add_output(e / fd.ops.sum(e, [1], keepdim=True))


def softmax_into(out: torch.Tensor, scratch: torch.Tensor, x: torch.Tensor) -> None:
    torch.ops.aten._softmax.out(x, 1, False, out=out)


def define_layernorm(fd: FusionDefinition) -> None:
    x = fd.define_tensor(shape=[-1, -1], contiguity=True)
    weight, bias = (fd.define_tensor(shape=[-1], contiguity=True) for _ in range(2))
    variance, mean = fd.ops.var_mean(x, [1], correction=0, keepdim=True)
    fd.add_output((x - mean) * fd.ops.rsqrt(variance + 1e-5) * weight + bias)


def layernorm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[1:], weight, bias)


def layernorm_into(
    out: torch.Tensor, scratch: torch.Tensor, x: torch.Tensor, *affine: torch.Tensor
) -> None:
    rows = torch.empty(x.shape[0], 1), torch.empty(x.shape[0], 1)
    torch.ops.aten.native_layer_norm.out(
        x, x.shape[1:], *affine, 1e-5, out0=out, out1=rows[0], out2=rows[1]
    )


def define_rmsnorm(fd: FusionDefinition) -> None:
    x = fd.define_tensor(shape=[-1, -1], contiguity=True)
    weight = fd.define_tensor(shape=[-1], contiguity=True)
    mean = fd.ops.mean(x * x, [1], keepdim=True)
    fd.add_output(x * fd.ops.rsqrt(mean + 1e-5) * weight)


def rmsnorm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5) * weight


def rmsnorm_into(
    out: torch.Tensor, scratch: torch.Tensor, x: torch.Tensor, weight: torch.Tensor
) -> None:
    torch.mul(x, x, out=scratch)
    torch.mul(x, torch.rsqrt(scratch.mean(1, keepdim=True) + 1e-5), out=out).mul_(weight)


# -- cross entropy -------------------------------------------------------------------------------


def define_cross_entropy(fd: FusionDefinition) -> None:
    """The mean loss from logits and targets, as torch.compile's graph has it."""
    x = fd.define_tensor(shape=[-1, -1], contiguity=True)
    target = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Int)
    ops = fd.ops
    shifted = x - ops.max(x, [1], keepdim=True)
    logs = shifted - ops.log(ops.sum(ops.exp(shifted), [1], keepdim=True))
    kept = ops.ne(target, -100)
    index = ops.broadcast(ops.where(kept, target, 0), [False, True])
    picked = ops.squeeze(ops.gather(logs, index, 1), [1])
    losses = ops.where(kept, ops.neg(picked), 0.0)
    fd.add_output(ops.sum(losses) / ops.cast(ops.sum(kept), DataType.Float))


def define_cross_entropy_backward(fd: FusionDefinition) -> None:
    """The gradient of the logits from the log-probabilities, as torch.compile's graph has it."""
    logs = fd.define_tensor(shape=[-1, -1], contiguity=True)
    target = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Int)
    ops = fd.ops
    index = ops.broadcast(target, [False, True])
    kept = ops.ne(index, -100)
    rows = ops.size(logs, 0)
    zeros = ops.full([rows, ops.size(logs, 1)], 0.0, DataType.Float)
    hot = ops.scatter(zeros, ops.where(kept, index, 0), -1.0, 1)
    grad = hot * ops.where(kept, 1.0 / ops.cast(rows, DataType.Float), 0.0)
    fd.add_output(grad - ops.exp(logs) * ops.sum(grad, [1], keepdim=True))


def cross_entropy_backward(logs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    hot = torch.zeros_like(logs).scatter(1, target[:, None], -1.0)
    grad = hot * (1.0 / logs.shape[0])
    return grad - torch.exp(logs) * grad.sum(1, keepdim=True)


def cross_entropy_backward_into(
    out: torch.Tensor, scratch: torch.Tensor, logs: torch.Tensor, target: torch.Tensor
) -> None:
    torch.exp(logs, out=out).mul_(1.0 / logs.shape[0])
    out.scatter_add_(1, target[:, None], torch.full((len(target), 1), -1.0 / logs.shape[0]))


def logits_and_targets(rows: int, columns: int, logs: bool = False) -> Callable[[str], Tensors]:
    def make(device: str) -> Tensors:
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn((rows, columns), generator=generator)
        target = torch.randint(0, columns, (rows,), generator=generator)
        return [torch.log_softmax(logits, 1).to(device) if logs else logits.to(device), target]

    return make


# -- sums ----------------------------------------------------------------------------------------


def define_sum(dims: list[int]) -> Callable[[FusionDefinition], None]:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True)
        fd.add_output(fd.ops.sum(x, dims))

    return define


def sum_case(words: str, dims: list[int], goal: float) -> Case:
    return Case(
        name=f"sum {words} float32 [8192, 3072]",
        define=define_sum(dims),
        inputs=random((8192, 3072)),
        peers={"eager": lambda x: x.sum(dims)},
        into={"eager": lambda out, scratch, x: torch.sum(x, dims, out=out)},
        exact=lambda x: x.sum(dims),
        tolerance=2e-2,
        goals={(REUSED, COMPILED): goal, (REUSED, "eager"): goal},
    )


def softmax_case(rows: int, columns: int) -> Case:
    return Case(
        name=f"softmax float32 [{rows}, {columns}]",
        define=define_softmax,
        inputs=random((rows, columns)),
        peers={"eager": lambda x: torch.softmax(x, 1)},
        into={"eager": softmax_into},
        exact=lambda x: torch.softmax(x, 1),
        tolerance=1e-6,
        goals={(REUSED, COMPILED): 1.5, (REUSED, "eager"): 1.5},
    )


LAYERNORM = Case(
    name="layernorm float32 [8192, 768]",
    define=define_layernorm,
    inputs=random((8192, 768), (768,), (768,)),
    peers={"eager": layernorm},
    into={"eager": layernorm_into},
    exact=layernorm,
    tolerance=1e-4,
    goals={(REUSED, COMPILED): 1.5, (REUSED, "eager"): 1.5},
)
RMSNORM = Case(
    name="rmsnorm float32 [8192, 768]",
    define=define_rmsnorm,
    inputs=random((8192, 768), (768,)),
    peers={"eager": rmsnorm},
    into={"eager": rmsnorm_into},
    exact=rmsnorm,
    tolerance=1e-4,
    goals={(REUSED, COMPILED): 1.5, (REUSED, "eager"): 1.5},
)
CROSS_ENTROPY = Case(
    name="cross entropy forward float32 [512, 32768]",
    define=define_cross_entropy,
    inputs=logits_and_targets(512, 32768),
    peers={"eager": functional.cross_entropy},
    into={"eager": lambda out, scratch, x, target: functional.cross_entropy(x, target)},
    exact=functional.cross_entropy,
    tolerance=1e-5,
    goals={(REUSED, COMPILED): 2, (REUSED, "eager"): 2},
)
CROSS_ENTROPY_BACKWARD = Case(
    name="cross entropy backward float32 [512, 32768]",
    define=define_cross_entropy_backward,
    inputs=logits_and_targets(512, 32768, logs=True),
    peers={"eager": cross_entropy_backward},
    into={"eager": cross_entropy_backward_into},
    exact=cross_entropy_backward,
    tolerance=1e-6,
    goals={(REUSED, COMPILED): 2, (REUSED, "eager"): 2},
)
ROWS = (
    softmax_case(8192, 768),
    softmax_case(512, 32768),
    LAYERNORM,
    RMSNORM,
    CROSS_ENTROPY,
    CROSS_ENTROPY_BACKWARD,
    sum_case("along rows", [1], 1.0),
    sum_case("over rows", [0], 2.0),
    sum_case("of all", [0, 1], 1.0),
)
