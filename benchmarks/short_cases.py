"""Functions of a few numbers at a time: points, boxes, quaternions, gates, few classes, blocks."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from function_cases import Drawn, Function, normal

COUNT = 1 << 18

# -- rows ----------------------------------------------------------------------------------------


def gates(scores: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Shares of eight experts."""
    return torch.softmax(F.gelu(scores) + 0.1 * torch.tanh(noise), -1)


def ten_classes(scores: torch.Tensor) -> torch.Tensor:
    return F.log_softmax(scores, -1)


def norm_of_few(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(F.gelu(x), x.shape[-1:], weight, bias)


def classes_of_pixels(scores: torch.Tensor) -> torch.Tensor:
    return F.log_softmax(scores, 1)


# -- blocks --------------------------------------------------------------------------------------


def microscaled(x: torch.Tensor) -> torch.Tensor:
    """Blocks of 32 in 4 bits, by arithmetic of their bits: two in a byte, then the exponents that
    blocks share."""
    blocks = x.float().view(x.shape[0], -1, 32)
    exponent = (blocks.abs().amax(2).view(torch.int32) >> 23 & 255) - 2
    bits = (blocks / (exponent << 23).view(torch.float32)[..., None]).view(torch.int32)
    sign = bits & -(2**31)
    size = (bits ^ sign).view(torch.float32)
    halves = (size + 2.0**22).view(torch.int32) - (149 << 23)
    whole = size.view(torch.int32)
    above = (whole + (whole >> 22 & 1) + (2**21 - 1) - (126 << 23)) >> 22
    code = torch.where(size < 1, halves, torch.where(size >= 6, 7, above))
    codes = (code.to(torch.uint8) | (sign >> 28).to(torch.uint8) & 8).flatten(1)
    return torch.cat([codes[:, ::2] | codes[:, 1::2] << 4, exponent.to(torch.uint8)], 1)


def rounded_blocks(x: torch.Tensor) -> torch.Tensor:
    """Blocks of 32 by their largest element, in 8 bits."""
    blocks = x.view(-1, 32)
    scale = blocks.abs().amax(-1, keepdim=True) / 448
    return (blocks / scale).to(torch.float8_e4m3fn)


# -- geometry ------------------------------------------------------------------------------------


def encoded_positions(x: torch.Tensor) -> torch.Tensor:
    """NeRF: positions [rays, 3] at ten frequencies."""
    angles = (x[..., None] * 2.0 ** torch.arange(10)).flatten(-2)
    return torch.cat([x, angles.sin(), angles.cos()], -1)


def colors_of_directions(d: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Gaussian splatting: spherical harmonics of directions [points, 3], by weights of colors
    [points, 3, 9]."""
    x, y, z = d.unbind(-1)
    harmonics = [
        torch.full_like(x, 0.28209),
        -0.4886 * y,
        0.4886 * z,
        -0.4886 * x,
        1.0925 * x * y,
        -1.0925 * y * z,
        0.3154 * (2 * z * z - x * x - y * y),
        -1.0925 * x * z,
        0.5463 * (x * x - y * y),
    ]
    return (weights * torch.stack(harmonics, -1)[:, None]).sum(-1) + 0.5


def from_polar(radius: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    return torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], -1)


def quaternion_product(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    a, b, c, d = p.unbind(-1)
    e, f, g, h = q.unbind(-1)
    return torch.stack(
        [
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        ],
        -1,
    )


def rotation_of(quaternion: torch.Tensor) -> torch.Tensor:
    r, i, j, k = F.normalize(quaternion, dim=-1).unbind(-1)
    rows = [
        *(1 - 2 * (j * j + k * k), 2 * (i * j - k * r), 2 * (i * k + j * r)),
        *(2 * (i * j + k * r), 1 - 2 * (i * i + k * k), 2 * (j * k - i * r)),
        *(2 * (i * k - j * r), 2 * (j * k + i * r), 1 - 2 * (i * i + j * j)),
    ]
    return torch.stack(rows, -1).reshape(*quaternion.shape[:-1], 3, 3)


def rotated(matrices: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    return (matrices * points[:, None, :]).sum(-1)


def shares_of_union(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    first, last = torch.maximum(one[:, :2], other[:, :2]), torch.minimum(one[:, 2:], other[:, 2:])
    shared = (last - first).clamp(min=0).prod(-1)
    areas = [(box[:, 2:] - box[:, :2]).prod(-1) for box in (one, other)]
    return shared / (areas[0] + areas[1] - shared)


def boxes() -> Drawn:
    def drawn() -> torch.Tensor:
        first = torch.rand(COUNT, 2)
        return torch.cat([first, first + 0.1 + torch.rand(COUNT, 2)], 1)

    return drawn(), drawn()


# -- their list ----------------------------------------------------------------------------------

SHORT = (
    Function("gates of 8 experts", gates, normal((COUNT, 8), (COUNT, 8))),
    Function("log softmax of 10", ten_classes, normal((COUNT, 10))),
    Function("GELU + layer norm of 4", norm_of_few, normal((COUNT, 4), (4,), (4,))),
    Function("GELU + layer norm of 12", norm_of_few, normal((COUNT, 12), (12,), (12,))),
    Function("log softmax of pixels, 10", classes_of_pixels, normal((16, 10, 128, 128))),
    Function("polar coordinates", from_polar, normal((COUNT,), (COUNT,))),
    Function("quaternion product", quaternion_product, normal((COUNT, 4), (COUNT, 4))),
    Function("rotation of quaternion", rotation_of, normal((COUNT, 4))),
    Function("rotated points", rotated, normal((COUNT, 3, 3), (COUNT, 3))),
    Function("shares of unions", shares_of_union, boxes, trained=False),
    Function("encoded positions", encoded_positions, normal((COUNT, 3))),
    Function("colors of directions", colors_of_directions, normal((COUNT, 3), (COUNT, 3, 9))),
    Function("4 bits by blocks", microscaled, normal((2048, 4096)), trained=False),
    Function("float8 by blocks", rounded_blocks, normal((2048, 2048)), trained=False),
)
