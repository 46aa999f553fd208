"""Dropout, an addition and a layer norm, forward and backward, with nothing stored but a seed.

torch's forward pass stores the mask for the backward pass: a byte an element, written and read.
Both definitions here are given a seed and an offset, and make the same mask where they need it:
each is one kernel that reads and writes its tensors once.
"""

from __future__ import annotations

import sys

import torch
from common import check, define, options, report, segments

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret

COLUMNS, DROPPED, EPSILON = 4096, 0.1, 1e-5
SCALE = 1 / (1 - DROPPED)


def kept(fd: FusionDefinition, like: Handle, seed: Handle, offset: Handle) -> Handle:
    """Which elements are not dropped: the same wherever seed and offset are."""
    return fd.ops.rand_like(like, rng_seed=seed, rng_offset=offset) >= DROPPED


def forward(fd: FusionDefinition) -> None:
    """x, residual, seed, offset -> their sum, its layer norm, the rows' mean and 1 / deviation."""
    x, residual = (fd.define_tensor(shape=[-1, -1], contiguity=True) for _ in range(2))
    seed, offset = fd.define_scalar(DataType.Int), fd.define_scalar(DataType.Int)
    total = fd.ops.where(kept(fd, x, seed, offset), x * SCALE, 0.0) + residual
    variance, mean = fd.ops.var_mean(total, [1], correction=0, keepdim=True)
    rstd = fd.ops.rsqrt(variance + EPSILON)
    for out in (total, (total - mean) * rstd, mean, rstd):
        fd.add_output(out)


def backward(fd: FusionDefinition) -> None:
    """The norm's gradient, and what the forward pass has stored -> those of x and residual."""
    grad, total = (fd.define_tensor(shape=[-1, -1], contiguity=True) for _ in range(2))
    mean, rstd = (fd.define_tensor(shape=[-1, 1], contiguity=True) for _ in range(2))
    seed, offset = fd.define_scalar(DataType.Int), fd.define_scalar(DataType.Int)
    normal = (total - mean) * rstd
    along = fd.ops.mean(grad * normal, [1], keepdim=True)
    inner = (grad - fd.ops.mean(grad, [1], keepdim=True) - normal * along) * rstd
    fd.add_output(fd.ops.where(kept(fd, grad, seed, offset), inner * SCALE, 0.0))
    fd.add_output(inner)


def oracle_mask(rows: int, state: list[int], device: torch.device) -> torch.Tensor:
    """The mask, by torch's integers."""
    with FusionDefinition() as fd:
        seed, offset = fd.define_scalar(DataType.Int), fd.define_scalar(DataType.Int)
        numbers = fd.ops.uniform(0.0, 1.0, [rows, COLUMNS], rng_seed=seed, rng_offset=offset)
        fd.add_output(numbers >= DROPPED)
    return interpret(fd.fusion, state, device)[0]


def exact(x: torch.Tensor, residual: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
    total = torch.where(mask, x * SCALE, 0) + residual
    return [total, torch.nn.functional.layer_norm(total, [COLUMNS], eps=EPSILON)]


def main() -> None:
    given = options((__doc__ or "").partition("\n\n")[0], full=16384, small=64, unit=1)
    target, device = given.target, torch.device(given.device)
    generator = torch.Generator(device).manual_seed(0)
    x, residual, grad = (
        torch.randn(given.rows, COLUMNS, generator=generator, device=device) for _ in range(3)
    )
    state = [torch.initial_seed() % 2**63, 0]
    there, back = define(forward), define(backward)

    total, norm, mean, rstd = there.execute([x, residual, *state], target=target)
    stored = [total, mean, rstd, *state]
    gradients = back.execute([grad, *stored], target=target)
    mask = oracle_mask(given.rows, state, device)
    leaves = [tensor.clone().requires_grad_() for tensor in (x, residual)]
    expected = exact(leaves[0], leaves[1], mask)
    check([total, norm], [tensor.detach() for tensor in expected])
    check(gradients, torch.autograd.grad(expected[1], leaves, grad))

    plans = {
        "forward": there.plan([x, residual, *state], target=target),
        "backward": back.plan([grad, *stored], target=target),
    }
    for name, plan in plans.items():
        print(f"{name}: {plan}\n")

    def by_fuser() -> object:
        total, _, mean, rstd = there.execute([x, residual, *state], target=target)
        return back.execute([grad, total, mean, rstd, *state], target=target)

    def by_torch() -> object:
        dropped, stored_mask = torch.native_dropout(x, DROPPED, True)
        total = dropped + residual
        _, mean, rstd = torch.native_layer_norm(total, [COLUMNS], None, None, EPSILON)
        inner, _, _ = torch.ops.aten.native_layer_norm_backward(
            grad, total, [COLUMNS], mean, rstd, None, None, [True, False, False]
        )
        return torch.ops.aten.native_dropout_backward(inner, stored_mask, SCALE), inner

    report({"fuser": by_fuser, "eager, a mask stored": by_torch}, given.device, given.rounds)
    wrong = [name for name, plan in plans.items() if segments(plan) != 1]
    if wrong:
        sys.exit(f"WRONG: not one kernel: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
