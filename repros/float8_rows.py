"""A norm whose rows leave in 8 bits, each with a scale, and the product that takes them.

The norm, the largest number of each row, its scale and the rounding are one kernel, which reads the
rows once and writes them once, in half of what they came in.
"""

from __future__ import annotations

import sys

import torch
from common import define, options, report, segments

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle

COLUMNS, OUT, EPSILON, LARGEST = 4096, 512, 1e-6, 448.0


def quantized(fd: FusionDefinition, x: Handle, weight: Handle) -> tuple[Handle, Handle]:
    """The root mean square norm of rows in 8 bits, and what each row is to be multiplied by."""
    wide = fd.ops.cast(x, DataType.Float)
    squares = fd.ops.mean(wide * wide, dims=[1], keepdim=True)
    normal = wide * fd.ops.rsqrt(squares + EPSILON) * weight
    scale = fd.ops.max(fd.ops.abs(normal), dims=[1], keepdim=True) / LARGEST
    return fd.ops.cast(normal / scale, DataType.Float8_e4m3fn), scale


def norm(fd: FusionDefinition) -> None:
    """x, weight -> rows in 8 bits, their scales."""
    x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
    weight = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.BFloat16)
    for out in quantized(fd, x, weight):
        fd.add_output(out)


def norm_and_product(fd: FusionDefinition) -> None:
    """x, weight, columns in 8 bits, their scales -> the product of the norm's rows with them."""
    x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
    weight = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.BFloat16)
    right = fd.define_tensor(
        shape=[-1, -1], contiguity=True, dtype=DataType.Float8_e4m3fn, stride_order=[0, 1]
    )
    scales = fd.define_tensor(shape=[1, -1], contiguity=True)
    rows, scale = quantized(fd, x, weight)
    product, _, _ = fd.ops.scaled_mm(rows, right, scale, scales)
    fd.add_output(product)


def by_torch(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, operation by operation."""
    wide = x.float()
    normal = wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + EPSILON) * weight
    scale = normal.abs().amax(1, keepdim=True) / LARGEST
    return (normal / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn), scale


def check(got: list[torch.Tensor], expected: tuple[torch.Tensor, torch.Tensor]) -> None:
    """What float32 sums in another order may round the other way: one step of the mantissa."""
    for ours, theirs, step in zip(got, expected, (2.0**-3, 1e-5), strict=True):
        if ours.dtype is not theirs.dtype or ours.stride() != theirs.stride():
            sys.exit(f"WRONG: {ours.dtype}, {ours.stride()}, not {theirs.dtype}, {theirs.stride()}")
        apart = (ours.float() - theirs.float()).abs()
        if (apart > step * theirs.float().abs() + 2.0**-9).any():
            sys.exit(f"WRONG: {ours.dtype} outputs differ by up to {float(apart.max())}")
    print("checked: the outputs are what torch computes\n")


def main() -> None:
    given = options((__doc__ or "").partition("\n\n")[0], full=8192, small=64, unit=1)
    target, device = given.target, torch.device(given.device)
    generator = torch.Generator(device).manual_seed(0)
    x, weight, right = (
        torch.randn(shape, generator=generator, device=device)
        for shape in ((given.rows, COLUMNS), (COLUMNS,), (OUT, COLUMNS))
    )
    x, weight = x.bfloat16(), weight.bfloat16()
    scales = right.abs().amax(1)[None, :] / LARGEST
    right = (right.t() / scales).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)

    alone, together = define(norm), define(norm_and_product)
    rows = alone.execute([x, weight], target=target)
    check(rows, by_torch(x, weight))
    product = together.execute([x, weight, right, scales], target=target)[0]
    exact = (rows[0].float() @ right.float()) * rows[1] * scales
    torch.testing.assert_close(product, exact.bfloat16(), rtol=2e-2, atol=2e-2)

    plans = {
        "norm": alone.plan([x, weight], target=target),
        "norm and product": together.plan([x, weight, right, scales], target=target),
    }
    for name, plan in plans.items():
        print(f"{name}: {plan}\n")
    candidates = {
        "fuser": lambda: alone.execute([x, weight], target=target),
        "eager": lambda: by_torch(x, weight),
    }
    report(candidates, given.device, given.rounds)
    if segments(plans["norm"]) != 1 or len(plans["norm and product"].kernels) != 1:
        sys.exit("WRONG: the norm is not one kernel")


if __name__ == "__main__":
    main()
