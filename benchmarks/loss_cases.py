"""Cross entropy with ignored targets: the loss, its gradient, and both at once."""

from __future__ import annotations

from dataclasses import replace

import torch
from case import Goals, Kind, Maker, Scratch, Tensors
from liger import liger_cross_entropy, liger_cross_entropy_both
from torch.nn import functional

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle

IGNORED = -100


# -- the loss ------------------------------------------------------------------------------------


def define_forward(fd: FusionDefinition, x: Handle, target: Handle) -> Handle:
    """The mean loss from logits and targets, classes along the second dimension, as torch.compile's
    graph has it."""
    ops = fd.ops
    shifted = x - ops.max(x, [1], keepdim=True)
    logs = shifted - ops.log(ops.sum(ops.exp(shifted), [1], keepdim=True))
    kept = ops.ne(target, IGNORED)
    return _mean_loss(fd, logs, target, kept, ops.cast(ops.sum(kept), DataType.Float))


def _mean_loss(
    fd: FusionDefinition, logs: Handle, target: Handle, kept: Handle, count: Handle
) -> Handle:
    beside_classes = [dim == 1 for dim in range(len(fd.ops.shape(logs)))]
    index = fd.ops.broadcast(fd.ops.where(kept, target, 0), beside_classes)
    picked = fd.ops.squeeze(fd.ops.gather(logs, index, 1), [1])
    return fd.ops.sum(fd.ops.where(kept, fd.ops.neg(picked), 0.0)) / count


def forward_into(outs: Tensors, scratch: Scratch, x: torch.Tensor, target: torch.Tensor) -> None:
    logs = scratch.like(x, "logs")
    torch.ops.aten._log_softmax.out(x, 1, False, out=logs)
    outs[0].copy_(functional.nll_loss(logs, target))


def logits(make: Maker) -> Tensors:
    return [make.normal(), make.targets(IGNORED)]


FORWARD = Kind(
    name="cross entropy forward",
    define=define_forward,
    inputs=logits,
    written=functional.cross_entropy,
    eager={"F.cross_entropy": functional.cross_entropy},
    into={"F.cross_entropy": forward_into},
    exact=functional.cross_entropy,
    goals=Goals(cpu=2.0, copied=0.95, long_rows=True),
    liger=liger_cross_entropy,
)

PIXELS = replace(FORWARD, name="cross entropy of pixels", liger=None)


# -- its gradient --------------------------------------------------------------------------------


def define_backward(fd: FusionDefinition, logs: Handle, target: Handle, count: Handle) -> Handle:
    """The logits' gradient from the log-probabilities and how many targets are not ignored."""
    ops = fd.ops
    index = ops.broadcast(target, [False, True])
    kept = ops.ne(index, IGNORED)
    zeros = ops.full(ops.shape(logs), 0.0, DataType.Float)
    hot = ops.scatter(zeros, ops.where(kept, index, 0), -1.0, 1)
    grad = hot * ops.where(kept, 1.0 / count, 0.0)
    return grad - ops.exp(logs) * ops.sum(grad, [1], keepdim=True)


def _scale(target: torch.Tensor, count: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """One over the count in each row that is not ignored."""
    return torch.where(target != IGNORED, 1.0 / count, 0.0).to(dtype)[:, None]


def backward(logs: torch.Tensor, target: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """As torch.compile's graph has it."""
    index = torch.where(target != IGNORED, target, 0)[:, None]
    grad = torch.zeros_like(logs).scatter(1, index, -1.0) * _scale(target, count, logs.dtype)
    return grad - torch.exp(logs) * grad.sum(1, keepdim=True)


def _finish(grad: torch.Tensor, target: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """The gradient, in place of the log-probabilities."""
    scale = _scale(target, count, grad.dtype)
    index = torch.where(target != IGNORED, target, 0)[:, None]
    return grad.exp_().mul_(scale).scatter_add_(1, index, -scale)


def backward_in_place(
    logs: torch.Tensor, target: torch.Tensor, count: torch.Tensor
) -> torch.Tensor:
    return _finish(logs.clone(), target, count)


def library_backward(logs: torch.Tensor, target: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    one = torch.ones((), dtype=logs.dtype, device=logs.device)
    given = one, logs, target, None, 1, IGNORED, count.to(logs.dtype)
    return torch.ops.aten._log_softmax_backward_data(
        torch.ops.aten.nll_loss_backward(*given), logs, 1, logs.dtype
    )


def backward_into(
    outs: Tensors,
    scratch: Scratch,
    logs: torch.Tensor,
    target: torch.Tensor,
    count: torch.Tensor,
) -> None:
    scale = _scale(target, count, logs.dtype)
    index = torch.where(target != IGNORED, target, 0)[:, None]
    torch.exp(logs, out=outs[0]).mul_(scale).scatter_add_(1, index, -scale)


def library_backward_into(
    outs: Tensors,
    scratch: Scratch,
    logs: torch.Tensor,
    target: torch.Tensor,
    count: torch.Tensor,
) -> None:
    one = torch.ones((), dtype=logs.dtype, device=logs.device)
    given = one, logs, target, None, 1, IGNORED, count.to(logs.dtype)
    hot = scratch.like(logs, "hot")
    torch.ops.aten.nll_loss_backward.grad_input(*given, grad_input=hot)
    torch.ops.aten._log_softmax_backward_data.out(hot, logs, 1, logs.dtype, out=outs[0])


def log_probabilities(make: Maker) -> Tensors:
    x, target = logits(make)
    return [torch.log_softmax(x, 1), target, (target != IGNORED).sum().float()]


BACKWARD = Kind(
    name="cross entropy backward",
    define=define_backward,
    inputs=log_probabilities,
    written=backward,
    eager={"_log_softmax_backward_data": library_backward, "in place": backward_in_place},
    into={"_log_softmax_backward_data": library_backward_into, "in place": backward_into},
    exact=backward,
    goals=Goals(cpu=2.0, long_rows=True),
)


# -- both ----------------------------------------------------------------------------------------


def define_both(fd: FusionDefinition, x: Handle, target: Handle) -> tuple[Handle, Handle]:
    """The mean loss, and the logits' gradient: softmax less one at the target, over the count."""
    ops = fd.ops
    shifted = x - ops.max(x, [1], keepdim=True)
    powers = ops.exp(shifted)
    total = ops.sum(powers, [1], keepdim=True)
    kept = ops.ne(target, IGNORED)
    count = ops.cast(ops.sum(kept), DataType.Float)
    loss = _mean_loss(fd, shifted - ops.log(total), target, kept, count)
    columns = ops.broadcast(ops.iota(ops.size(x, 1)), [True, False])
    hot = ops.eq(columns, ops.broadcast(target, [False, True]))
    scale = ops.broadcast(ops.where(kept, 1.0 / count, 0.0), [False, True])
    return loss, (powers / total - ops.where(hot, 1.0, 0.0)) * scale


def both(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """With a comparison where eager would scatter: it is what torch.compile fuses best."""
    logs = torch.log_softmax(x, 1)
    loss = functional.nll_loss(logs, target)
    count = (target != IGNORED).sum()
    hot = torch.arange(x.shape[1], device=x.device) == target[:, None]
    grad = (torch.exp(logs) - hot.to(x.dtype)) * _scale(target, count, x.dtype)
    return loss, grad


def both_in_place(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    logs = torch.log_softmax(x, 1)
    loss = functional.nll_loss(logs, target)
    return loss, _finish(logs, target, (target != IGNORED).sum())


def library_both(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What F.cross_entropy and its backward call."""
    logs = torch.log_softmax(x, 1)
    loss, count = torch.ops.aten.nll_loss_forward(logs, target, None, 1, IGNORED)
    return loss, library_backward(logs, target, count)


def both_into(outs: Tensors, scratch: Scratch, x: torch.Tensor, target: torch.Tensor) -> None:
    loss, grad = outs
    torch.ops.aten._log_softmax.out(x, 1, False, out=grad)
    loss.copy_(functional.nll_loss(grad, target))
    _finish(grad, target, (target != IGNORED).sum())


BOTH = Kind(
    name="cross entropy both",
    define=define_both,
    inputs=logits,
    written=both,
    eager={"F.cross_entropy and backward": library_both, "in place": both_in_place},
    into={"in place": both_into},
    exact=both,
    goals=Goals(cpu=2.0, copied=0.95, long_rows=True),
    liger=liger_cross_entropy_both,
    consumes=True,
    kernels=2,  # the count of targets has to be known before the first row of the gradient
)
