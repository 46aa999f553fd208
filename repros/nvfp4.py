"""Activations in 4 bits, a scale of 8 bits for each 16 of them, and the product that takes them.

The activation function, the largest number of each block, the scales and the rounding are one
kernel, which reads the activations once and writes a quarter of their bytes. The scales lie as the
tensor cores of newer GPUs read them; elsewhere the product widens both operands.
"""

from __future__ import annotations

import sys

import torch
from common import define, options, report, segments

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle

COLUMNS, OUT = 4096, 512
LARGEST, LARGEST_SCALE = 6.0, 448.0
NUMBERS = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def quantized(fd: FusionDefinition, x: Handle, scale: Handle) -> tuple[Handle, Handle]:
    """silu(x) in 4 bits, and the scales of its blocks."""
    activated = fd.ops.silu(fd.ops.cast(x, DataType.Float))
    return fd.ops.nv_block_quantize(activated, scale, swizzle_block_scales=True)


def activations(fd: FusionDefinition) -> None:
    """x, the scale of all -> silu(x) in 4 bits, the scales of its blocks."""
    x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
    for out in quantized(fd, x, fd.define_tensor(shape=[], contiguity=True)):
        fd.add_output(out)


def weights(fd: FusionDefinition) -> None:
    """Weights, the scale of all -> the same in 4 bits, the scales of their blocks."""
    w = fd.define_tensor(shape=[-1, -1], contiguity=True)
    scale = fd.define_tensor(shape=[], contiguity=True)
    for out in fd.ops.nv_block_quantize(w, scale, swizzle_block_scales=True):
        fd.add_output(out)


def product(fd: FusionDefinition) -> None:
    """x, its scale, columns in 4 bits, their scales, alpha -> alpha silu(x) @ columns."""
    x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
    scale = fd.define_tensor(shape=[], contiguity=True)
    right = fd.define_tensor(
        shape=[-1, -1], contiguity=True, dtype=DataType.Float4_e2m1fn, stride_order=[0, 1]
    )
    of_right = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.Float8_e4m3fn)
    alpha = fd.define_tensor(shape=[], contiguity=True)
    left, of_left = quantized(fd, x, scale)
    fd.add_output(fd.ops.scaled_mm(left, right, of_left, of_right, alpha)[0])


def scale_of(x: torch.Tensor) -> torch.Tensor:
    """What brings the largest scale of a block, and its largest number, to theirs."""
    return LARGEST * LARGEST_SCALE / x.float().abs().max()


def by_torch(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """silu(x) in 4 bits, one by one as floats, and the scales of its blocks, row by row."""
    blocks = torch.nn.functional.silu(x.float()).unflatten(1, (-1, 16))
    held = (blocks.abs().amax(2) / LARGEST * scale).clamp(max=LARGEST_SCALE)
    held = held.to(torch.float8_e4m3fn)
    numbers = blocks * (scale / held.float())[..., None]
    between = (NUMBERS[1:] + NUMBERS[:-1]).to(x.device) / 2
    size = NUMBERS.to(x.device)[torch.bucketize(numbers.abs(), between)]
    return torch.copysign(size, numbers).flatten(1), held


def apart(pairs: torch.Tensor) -> torch.Tensor:
    """4-bit floats one by one."""
    bits = pairs.view(torch.uint8)
    code = torch.stack((bits & 15, bits >> 4), 2).flatten(1).int()
    return NUMBERS.to(pairs.device)[code & 7] * (1 - (code >> 3) * 2)


def linear(scales: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Scales row by row."""
    tiles = scales.float().reshape(scales.shape[0] // 128, scales.shape[1] // 4, 32, 4, 4)
    return tiles.transpose(1, 3).reshape(scales.shape)[:rows, :columns]


def check(got: list[torch.Tensor], expected: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Few numbers lie so near the middle of two that they are rounded the other way."""
    numbers, scales = apart(got[0]), linear(got[1], *expected[1].shape)
    for ours, theirs in zip((numbers, scales), expected, strict=True):
        differing = (ours != theirs.float()).float().mean()
        if differing > 0.01:
            sys.exit(f"WRONG: {float(differing):.1%} of the numbers differ")
    print("checked: the outputs are what torch computes\n")


def main() -> None:
    given = options((__doc__ or "").partition("\n\n")[0], full=8192, small=128, unit=1)
    target, device = given.target, torch.device(given.device)
    generator = torch.Generator(device).manual_seed(0)
    x, weight = (
        torch.randn(shape, generator=generator, device=device)
        for shape in ((given.rows, COLUMNS), (OUT, COLUMNS))
    )
    x = x.bfloat16()
    of_x, of_weight = scale_of(torch.nn.functional.silu(x.float())), scale_of(weight)

    alone, together = define(activations), define(product)
    made = alone.execute([x, of_x], target=target)
    check(made, by_torch(x, of_x))
    right, of_right = define(weights).execute([weight, of_weight], target=target)
    inputs = [x, of_x, right.t(), of_right, 1 / (of_x * of_weight)]
    got = together.execute(inputs, target=target)[0].float()
    exact = torch.nn.functional.silu(x.float()) @ weight.t()
    error = float((got - exact).norm() / exact.norm())
    print(f"the product is off by {error:.1%} of its norm, for what 4 bits round\n")
    if error > 0.25:
        sys.exit("WRONG: the product is another one")

    plans = {
        "activations": alone.plan([x, of_x], target=target),
        "activations and product": together.plan(inputs, target=target),
    }
    for name, plan in plans.items():
        print(f"{name}: {plan}\n")
    candidates = {
        "fuser": lambda: alone.execute([x, of_x], target=target),
        "eager, not packed": lambda: by_torch(x, of_x),
    }
    report(candidates, given.device, given.rounds)
    if segments(plans["activations"]) != 1:
        sys.exit("WRONG: the quantization is not one kernel")


if __name__ == "__main__":
    main()
