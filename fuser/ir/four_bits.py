"""4-bit floats as torch's tensors: two in a byte, or each in the byte of a float of 8 bits."""

from __future__ import annotations

import torch

_LARGEST = 6.0


def rounded(x: torch.Tensor) -> torch.Tensor:
    """The nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6, with its sign; to that of an even last bit
    where two are as near. NaN gives 6, as conversions in hardware do."""
    size = x.abs().clamp(max=_LARGEST)
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    nearest = torch.copysign(torch.round(size / step) * step, x)
    return torch.where(x.isnan(), _LARGEST, nearest)


def pair(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """Bytes of two, the first in the lower half."""
    return (_code(low) | _code(high) << 4).view(torch.float4_e2m1fn_x2)


def low(pairs: torch.Tensor) -> torch.Tensor:
    """The first of each two, as floats of 8 bits."""
    return _value(pairs.view(torch.uint8) & 15)


def high(pairs: torch.Tensor) -> torch.Tensor:
    """The second of each two, as floats of 8 bits."""
    return _value(pairs.view(torch.uint8) >> 4)


def apart(pairs: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """All of them along a dimension, as floats of 8 bits."""
    dim %= pairs.dim()
    return torch.stack((low(pairs), high(pairs)), dim + 1).flatten(dim, dim + 1)


def one_by_one(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of pairs `apart`; any other as it is."""
    return apart(tensor) if tensor.dtype is torch.float4_e2m1fn_x2 else tensor


def _code(x: torch.Tensor) -> torch.Tensor:
    """The 4 bits of each, which is a float of 8 bits: a sign, 2 bits of exponent, 1 of mantissa."""
    bits = x.view(torch.uint8)
    size = bits & 0x7F
    return (bits >> 4 & 8) | torch.where(size > 48, size - 48 >> 2, size >> 5)


def _value(code: torch.Tensor) -> torch.Tensor:
    """Of the 4 bits of each, as a float of 8 bits."""
    size = code & 7
    bits = (code & 8) << 4 | torch.where(size < 2, size * 48, size * 4 + 48)
    return bits.view(torch.float8_e4m3fn)
