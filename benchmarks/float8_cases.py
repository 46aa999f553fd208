"""8-bit and 4-bit floats: a norm that ends in them, blocks with a scale each, widened rows."""

from __future__ import annotations

import torch
from case import Goals, Kind, Maker, Tensors
from liger import EPSILON

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle

BLOCK, LARGEST = 32, 448.0
FLOAT8, POWER = torch.float8_e4m3fn, torch.float8_e8m0fnu
GOALS = Goals(cpu=1.5, copied=0.95, long_rows=True)


# -- a norm --------------------------------------------------------------------------------------


def define_norm(fd: FusionDefinition, x: Handle, weight: Handle) -> tuple[Handle, Handle]:
    """The root mean square norm of rows in 8 bits, and the scale of each row."""
    squares = fd.ops.mean(x * x, [1], keepdim=True)
    normal = x * fd.ops.rsqrt(squares + EPSILON) * weight
    scale = fd.ops.max(fd.ops.abs(normal), [1], keepdim=True) / LARGEST
    return fd.ops.cast(normal / scale, DataType.Float8_e4m3fn), scale


def exact_norm(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Not rounded."""
    normal = x * torch.rsqrt((x * x).mean(1, keepdim=True) + EPSILON) * weight
    scale = normal.abs().amax(1, keepdim=True) / LARGEST
    return normal / scale, scale


def norm(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scaled, scale = exact_norm(x.float(), weight.float())
    return scaled.clamp(-LARGEST, LARGEST).to(FLOAT8), scale


NORM = Kind(
    name="rmsnorm to float8",
    define=define_norm,
    inputs=lambda make: [make.normal(), make.normal(make.shape[1])],
    written=norm,
    eager={"eager": norm},
    into={},
    exact=exact_norm,
    goals=GOALS,
    made=(FLOAT8, torch.float32),
)


# -- blocks --------------------------------------------------------------------------------------


def define_blocks(fd: FusionDefinition, x: Handle) -> tuple[Handle, Handle]:
    """Microscaling: 32 numbers share a power of two, which leaves the largest below 512."""
    rows, columns = (fd.ops.size(x, dim) for dim in (0, 1))
    blocks = fd.ops.reshape(x, [rows, -1, BLOCK])
    largest = fd.ops.max(fd.ops.abs(blocks), [2], keepdim=True)
    scale = fd.ops.exp2(fd.ops.floor(fd.ops.log2(largest)) - 8.0)
    codes = fd.ops.cast(blocks / scale, DataType.Float8_e4m3fn)
    powers = fd.ops.cast(fd.ops.squeeze(scale, [2]), DataType.Float8_e8m0fnu)
    return fd.ops.reshape(codes, [rows, columns]), powers


def exact_blocks(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Not rounded, but as far as numbers do not fit."""
    blocks = x.view(x.shape[0], -1, BLOCK)
    scale = torch.exp2(torch.floor(torch.log2(blocks.abs().amax(2, keepdim=True))) - 8)
    return (blocks / scale).clamp(-LARGEST, LARGEST).view(x.shape), scale.squeeze(2)


def blocks(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scaled, scale = exact_blocks(x.float())
    return scaled.to(FLOAT8), scale.to(POWER)


BLOCKS = Kind(
    name="blocks to float8",
    define=define_blocks,
    inputs=lambda make: [make.normal()],
    written=blocks,
    eager={"eager": blocks},
    into={},
    exact=exact_blocks,
    goals=GOALS,
    made=(FLOAT8, POWER),
)


# -- blocks of 4 bits ----------------------------------------------------------------------------

LARGEST4, OF_16 = 6.0, 16
BETWEEN = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
"""What is halfway between two floats of 4 bits: every other one is rounded up."""


def define_nvfp4(fd: FusionDefinition, x: Handle) -> tuple[Handle, Handle]:
    """16 numbers share a scale of 8 bits."""
    return fd.ops.nv_block_quantize(x)


def exact_nvfp4(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Not rounded, but to the scale."""
    blocks = x.view(x.shape[0], -1, OF_16)
    scale = (blocks.abs().amax(2) / LARGEST4).to(FLOAT8).double()
    return (blocks / scale[..., None]).clamp(-LARGEST4, LARGEST4).view(x.shape), scale


def nvfp4(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    blocks = x.float().view(x.shape[0], -1, OF_16)
    scale = (blocks.abs().amax(2) / LARGEST4).clamp(max=LARGEST).to(FLOAT8)
    scaled = blocks / scale.float()[..., None]
    size, code = scaled.abs(), torch.zeros_like(scaled, dtype=torch.uint8)
    for number, between in enumerate(BETWEEN):
        code += size >= between if number % 2 else size > between
    code += scaled.signbit() * 8
    pairs = code.view(x.shape[0], -1, 2)
    return (pairs[..., 0] | pairs[..., 1] << 4).view(torch.float4_e2m1fn_x2), scale


NVFP4 = Kind(
    name="blocks to float4",
    define=define_nvfp4,
    inputs=lambda make: [make.normal()],
    written=nvfp4,
    eager={"eager": nvfp4},
    into={},
    exact=exact_nvfp4,
    goals=GOALS,
    made=(torch.float4_e2m1fn_x2, FLOAT8),
)


# -- widened -------------------------------------------------------------------------------------


def define_widened(fd: FusionDefinition, codes: Handle, scale: Handle) -> Handle:
    return fd.ops.cast(codes, DataType.Float) * scale


def widened(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (codes.float() * scale).to(scale.dtype)


def scaled_codes(make: Maker) -> Tensors:
    return [make.normal().to(FLOAT8), make.normal(make.shape[0], 1)]


WIDENED = Kind(
    name="float8 rows widened",
    define=define_widened,
    inputs=scaled_codes,
    written=widened,
    eager={"eager": widened},
    into={},
    exact=torch.mul,
    goals=GOALS,
)
