"""4-bit floats as torch's tensors: two in a byte, or each in the byte of a float of 8 bits."""

from __future__ import annotations

import torch

_SIZES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_LARGEST = _SIZES[-1]


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
    """The 4 bits of each: a sign, 2 bits of exponent and 1 of mantissa."""
    value = x.float()
    size = torch.bucketize(value.abs(), torch.tensor(_SIZES, device=x.device))
    return size.to(torch.uint8) | value.signbit().to(torch.uint8) << 3


def _value(code: torch.Tensor) -> torch.Tensor:
    values = torch.tensor([*_SIZES, *(-size for size in _SIZES)], device=code.device)
    return values[code.int()].to(torch.float8_e4m3fn)
